"""Connects several hosts of one program: each runs all of it as one process, and their learners are one computation.

See "Podracer architectures for scalable Reinforcement Learning" (https://arxiv.org/abs/2104.06272), Figure 3: each host
has a replica, which learns from its own host's data; gradients are averaged over all learning devices.

The processes connect to a coordinator in the first one. It distributes the addresses of their devices, and ends the
others once one has died.

Of JAX's private parts, `distributed` is used for the coordinator's key-value store, which no JAX has a public name for
so far (0.12), and for the time of its heartbeats, which `jax.distributed.initialize` takes from JAX 0.8 on. The address
at which CPUs meet is chosen by `xla_bridge`: no JAX has a public way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import os
import pathlib
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import jax
from jax._src import distributed, xla_bridge
from jax._src.lib import _jax

from boonta.nodes.rpc.wire import host_and_port, require_free
from boonta.nodes.watch.calls import in_thread, polled
from boonta.nodes.watch.program_end import SAVING_S

SILENT_S = 10  # Time without a heartbeat after which a process counts as dead, and the others end.
BEAT_S = 2
JAX_LATER_S = 60  # JAX kills the process silently at its own deadline, so ours must come first.
ALIKE_S = 60.0  # Deadline for the others to publish what they were built from.
LEAVE_S = SAVING_S + 60.0  # Deadline for the others to finish their work and save, too.
FAIL_S = 8.0  # Deadline for the others to end after a failure, whose cause they print.
EXIT_S = 2.0  # Time for a process that has nothing left to do to be gone.

_met = threading.Event()  # Whether this process has met the others; JAX kills one that asks its coordinator before.


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The hosts of a program. Each runs the same command with another `index`.

    Attributes:
      coordinator: HOST:PORT of the first host, by which the others reach it.
      number: how many hosts there are.
      index: this host's number, from 0.
      reach_s: seconds to wait for the others, which may still be starting or pulling images.
    """

    coordinator: str = ""
    number: int = 1
    index: int = 0
    reach_s: float = 600.0

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError(f"hosts.number is {self.number}; it must be at least 1")
        if not 0 <= self.index < self.number:
            raise ValueError(
                f"hosts.index is {self.index}; it must be at least 0 and below hosts.number, {self.number}"
            )
        if self.number > 1 and not all(self._place):
            raise ValueError(f"hosts.coordinator is {self.coordinator!r}; {self.number} hosts need it, as HOST:PORT")

    @property
    def first(self) -> bool:
        """Whether this is the host that evaluates and keeps the run's folder."""
        return self.index == 0

    @property
    def _place(self) -> tuple[str, int]:
        """The coordinator's host and port; empty and 0 if it isn't HOST:PORT."""
        try:
            return host_and_port(self.coordinator)
        except ValueError:
            return "", 0

    @property
    def _is_local(self) -> bool:
        """Whether the hosts are processes of one machine."""
        return self._place[0] in ("127.0.0.1", "localhost")

    def join(self, built_from: str, folder: str) -> None:
        """Connects to the other hosts, if there are any. It must be called before JAX looks for devices.

        Args:
          built_from: a description of what this host's program was built from.
          folder: the run's folder, which all hosts must share.

        Raises:
          OSError: the coordinator can't be reached, or its port is in use, or not all hosts come.
          ValueError: a host is built from something else, or the folder isn't shared.
        """
        if self.number == 1:
            return
        wait = f"waits up to {self.reach_s:.0f} s for {self.number} hosts"
        print(f"host {self.index} {wait} at {self.coordinator}", flush=True)
        if self.first:
            host, port = self._place
            require_free(port, f"hosts.coordinator {self.coordinator}", host if self._is_local else "")
        else:
            self._await_coordinator()
        jax.config.update("jax_cpu_collectives_implementation", "gloo")  # Devices of another kind have their own.
        self._meet()
        if self._is_local:
            _keep_to_loopback()
        self._require_alike(built_from)
        self._require_shared(pathlib.Path(folder))

    def leave(self, agreed: bool) -> None:
        """Parts from the other hosts, and waits until this one may; where they haven't met, it does nothing.

        JAX kills a process, even one that saves, once another has been gone for `SILENT_S`, or the first one has ended.
        So hosts that have agreed to end part when all of them have done their work. A host that fails by itself is gone
        at once, which ends the others; only the first one gives them time to print why they end.

        Args:
          agreed: whether all hosts end, because they have agreed to, or the work is done.
        """
        if not _met.is_set():
            return
        _met.clear()
        deadline_s = LEAVE_S if agreed else FAIL_S
        with contextlib.suppress(OSError, RuntimeError):  # Others may be gone.
            polled(in_thread(lambda: self._part(agreed, deadline_s)), deadline_s + EXIT_S)
        if self.first and not agreed:
            time.sleep(EXIT_S)

    def _part(self, agreed: bool, deadline_s: float) -> None:
        post(f"ended/{self.index}", "agreed" if agreed else "failed")
        if not (agreed or self.first):
            return
        end = time.monotonic() + deadline_s
        ends = [_read(f"ended/{i}", i, max(0.0, end - time.monotonic())) for i in range(self.number)]
        if "failed" not in ends:  # One that has failed doesn't come.
            jax.distributed.shutdown()  # It waits for all, who do this now, and JAX misses none of them afterwards.

    def _await_coordinator(self) -> None:
        """Waits until the first host listens: JAX would kill the process without naming the host that is missing."""
        end = time.monotonic() + self.reach_s
        while True:
            try:
                return socket.create_connection(self._place, timeout=1.0).close()
            except OSError as error:
                if time.monotonic() > end:
                    raise OSError(
                        f"hosts.coordinator {self.coordinator} could not be reached in {self.reach_s:.0f} s: {error}"
                    ) from error
            time.sleep(0.5)

    def _meet(self) -> None:
        """Joins JAX's coordination in another thread: if a host doesn't come, JAX may never return."""
        if not polled(in_thread(lambda: _initialize(self)), self.reach_s):
            raise OSError(
                f"hosts.number is {self.number}, but not all came to {self.coordinator} in {self.reach_s:.0f} s"
            )
        _met.set()

    def _require_alike(self, built_from: str) -> None:
        post(f"built_from/{self.index}", built_from)
        for other in range(self.number):
            posted = _read(f"built_from/{other}", other)
            if posted != built_from:
                raise ValueError(
                    f"host {self.index} is {built_from}, but host {other} is {posted}: start all hosts alike"
                )

    def _require_shared(self, folder: pathlib.Path) -> None:
        """The first host leaves a mark in the folder; the others must see it."""
        if self.first:
            mark = f".shared-{uuid.uuid4().hex}"
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob(".shared-*"):
                old.unlink()
            (folder / mark).touch()
            post("mark", mark)
            return
        mark = _read("mark", 0)
        if folder.parent.is_dir():
            os.listdir(folder.parent)  # This makes network file systems look again.
        if not (folder / mark).exists():
            raise ValueError(
                f"--workdir {folder} of host {self.index} is not the first host's: all must share it, for checkpoints"
            )


def on_first(key: str, work: Callable[[], None], deadline_s: float) -> None:
    """Does some work on the first of several hosts, while the others wait; if it fails there, it fails on all.

    Args:
      key: a name for this piece of work, never used before, and the same on all hosts.
      work: the work, which may raise OSError.
      deadline_s: seconds that the others wait.

    Raises:
      OSError: the work's own on the first host; on the others one with its message, or the deadline has passed.
    """
    if jax.process_index() != 0:
        failure = _read(key, 0, deadline_s).partition(":")[2]
        if failure:
            raise OSError(failure)
        return
    try:
        work()
    except OSError as error:
        post(key, f"failed:{error}")
        raise
    post(key, "done")


def _initialize(hosts: Hosts) -> None:
    """Starts JAX's coordination, with heartbeats so short that a dead host ends the others in seconds."""
    settings: dict[str, Any] = {
        "coordinator_address": hosts.coordinator,
        "num_processes": hosts.number,
        "process_id": hosts.index,
        "cluster_detection_method": "deactivate",
        "initialization_timeout": int(hosts.reach_s) + JAX_LATER_S,
    }
    if hosts._is_local:  # Otherwise JAX listens on every interface.
        settings["coordinator_bind_address"] = hosts.coordinator
    if "heartbeat_timeout_seconds" in inspect.signature(jax.distributed.initialize).parameters:
        settings["heartbeat_timeout_seconds"] = SILENT_S
    else:
        for side in ("service", "client"):
            settings |= {f"{side}_heartbeat_interval_seconds": BEAT_S}
            settings |= {f"{side}_max_missing_heartbeats": SILENT_S // BEAT_S}
    distributed.global_state.initialize(**settings)


def _keep_to_loopback() -> None:
    """Lets CPUs meet on the loopback device.

    By default they listen at the address of the host's own name, which a program's private network may lack.
    """
    gloo = _jax.make_gloo_tcp_collectives(distributed.global_state.client, hostname="127.0.0.1")
    make = functools.partial(xla_bridge.make_cpu_client, collectives=gloo)
    xla_bridge.register_backend_factory("cpu", make, priority=0, fail_quietly=False)


def post(key: str, value: str) -> None:
    """Puts a value into the coordinator's key-value store, where no other may have this key."""
    assert distributed.global_state.client is not None
    distributed.global_state.client.key_value_set(f"boonta/{key}", value)


def posted(key: str) -> str | None:
    """A value in the coordinator's key-value store; None if it isn't there yet."""
    assert distributed.global_state.client is not None
    try:
        return distributed.global_state.client.key_value_try_get(f"boonta/{key}")
    except RuntimeError as error:
        if "NOT_FOUND" in str(error):
            return None
        raise


def _read(key: str, host: int, deadline_s: float = ALIKE_S) -> str:
    """Waits for a value that a host posts; raises OSError if it doesn't come."""
    assert distributed.global_state.client is not None
    try:
        return distributed.global_state.client.blocking_key_value_get(f"boonta/{key}", int(1000 * deadline_s))
    except RuntimeError as error:
        late = f" within {deadline_s:.0f} s" if "DEADLINE_EXCEEDED" in str(error) else ""
        raise OSError(f"host {host} has not posted {key}{late}: {error}") from error
