"""The wiring of programs whose nodes are threads of one process per host; no Launchpad, no Reverb, any Python."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import tyro

from boonta.agents.base import Agent, Table
from boonta.envs.base import Env
from boonta.nodes.base import Node
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.host_monitor import HostMonitor
from boonta.nodes.hosts.placement import Placed, Placement, split
from boonta.nodes.learner import make_mesh
from boonta.nodes.monitor import Monitor
from boonta.nodes.tables.contract import learned_from, written_by
from boonta.nodes.tables.host import HostTable
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.variables import Colocated, DeviceVariables, LockStep
from boonta.programs.wiring import run as plain


@dataclasses.dataclass(frozen=True)
class Run(plain.Run):
    """Where, on how many hosts, and how long a program runs.

    Attributes:
      hosts: that run it together.
    """

    hosts: Hosts = Hosts()

    @property
    def own(self) -> Run:
        """The run with this host's own folder: the first host's is that of all, with the checkpoints."""
        return self if self.hosts.first else dataclasses.replace(self, workdir=self.path(f"hosts/{self.hosts.index}"))

    def join(self, built_from: str) -> None:
        """Meets the other hosts."""
        self.hosts.join(built_from, pathlib.Path(self.workdir))

    def leave(self, code: int) -> None:
        """Ends the process with this code; where it is one of several, without waiting for its threads."""
        if self.hosts.number > 1:
            self.hosts.leave(code)
            plain.end_now(code)  # threads may be waiting for ever for a host that is gone
        super().leave(code)


RunFlags = Annotated[Run, tyro.conf.arg(name="")]  # --workdir rather than --run.workdir


class Shared(NamedTuple):
    """What the nodes of a process have in common.

    Attributes:
      monitor: others report to it.
      acting: devices that act.
      learning: how many learn.
      replay: from actors to the learner.
      variables: from it.
      lock_step: None where actors run freely.
    """

    monitor: Monitor
    acting: Sequence[jax.Device]
    learning: int
    replay: QueueTable | HostTable
    variables: DeviceVariables
    lock_step: LockStep | None


class Sebulba:
    """A program that grows a node at a time, as a `Cluster` does; handles are the objects themselves.

    Each of several hosts has all nodes but the evaluator, which the first has. An update's batch is theirs together.

    Args:
      name: of the program.
      run: where, on how many hosts, and how long.
      agent: with one table.
      env: actors act in it.
      placement: how this host's devices are shared out.
    """

    spans_hosts = True

    def __init__(self, name: str, run: Run, agent: Agent, env: Env, placement: Placement):
        self.name, self.run, self.agent, self.env, self.placement = name, run, agent, env, placement
        self._added: list[Callable[[Shared], list[Node]]] = []

    def add_learner(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds the node that takes batches, and learns on the learning devices."""
        run = self.run
        settings = {**run.learning, **settings}

        def make(shared: Shared) -> list[Node]:
            handles = (self.agent, shared.replay, shared.variables, shared.monitor)
            council = {"council": shared.monitor} if isinstance(shared.monitor, HostMonitor) else {}
            return [node("learner", *handles, devices=shared.learning, **council, **settings)]

        self._added.append(make)

    def add_actors(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds a node for each acting device, with the placement's threads and environments."""
        threads = self.placement.threads
        settings = {
            "num_envs": threads * self.placement.num_envs,
            "threads": threads,
            "seed": self.run.acting_seed,
            **settings,
        }

        def make_one(shared: Shared, i: int, device: jax.Device) -> Node:
            params = Colocated(shared.variables, device, shared.lock_step)
            env = Placed(self.env, device) if isinstance(shared.replay, QueueTable) else self.env
            handles = (self.agent, env, params, shared.replay, shared.monitor)
            number = self.run.hosts.index * self.placement.acting + i
            return node(f"actor/{i}", *handles, first_group=number * threads, **settings)

        self._added.append(lambda shared: [make_one(shared, i, device) for i, device in enumerate(shared.acting)])

    def add_evaluator(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds a node that measures params, on the first host's last acting device, and writes no learning data."""
        if not self.run.hosts.first:
            return
        settings = {"seed": self.run.seed, **settings}

        def make(shared: Shared) -> list[Node]:
            params = Colocated(shared.variables, shared.acting[-1])
            return [node("evaluator", self.agent, self.env, params, shared.monitor, **settings)]

        self._added.append(make)

    def build(self) -> tuple[Monitor, list[Node]]:
        """The monitor, and all nodes that were added.

        Raises:
          ValueError: says which setting can't work here, what it is and what it must be.
        """
        shared = self._share()
        return shared.monitor, [node for make in self._added for node in make(shared)]

    def _share(self) -> Shared:
        placement, tables, run = self.placement, self.agent.tables, self.run
        if len(tables) > 1:
            raise ValueError(f"{self.name}: tables are {[table.name for table in tables]}; one process has but one")
        (table,) = learned_from(written_by("actor", tables))
        acting, learning = split(placement, jax.local_devices())
        make_mesh(len(learning), table.batch_size)  # refuses batches that don't divide over the devices
        own = _share_of(table, run.hosts)
        replay, lock_step = self._open(own, learning), None
        if placement.lag is not None:
            lock_step = LockStep(placement.lag, placement.groups, placement.num_envs, own.batch_size)
        alone, folder = run.hosts.number == 1, run.own.workdir
        monitor = Monitor("monitor", folder, run.stop) if alone else HostMonitor("monitor", folder, run.stop, run.hosts)
        return Shared(monitor, acting, len(learning), replay, DeviceVariables(acting, placement.lag or 0), lock_step)

    def _open(self, table: Table, learning: Sequence[jax.Device]) -> QueueTable | HostTable:
        placement = self.placement
        if table.kind == "queue":
            queue = QueueTable(table, learning, None if placement.lag is None else placement.groups)
            queue.width(placement.num_envs)  # refuses groups that batches can't be made of
            return queue
        if placement.lag is not None:
            raise ValueError(
                f"placement.lag is {placement.lag}; lock-step needs a queue, and {table.name!r} is a replay"
            )
        return HostTable(table, placement.groups, placement.num_envs, self.run.acting_seed + self.run.hosts.index)


def _share_of(table: Table, hosts: Hosts) -> Table:
    """The table of one host, of whose batches an update's is made: each keeps what its own actors write."""
    return dataclasses.replace(
        table,
        batch_size=hosts.share("batch_size", table.batch_size),
        size=hosts.share("size", table.size),
        min_size=max(1, table.min_size // hosts.number),
    )
