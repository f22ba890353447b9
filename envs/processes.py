"""Environments stepped by several processes at the same time, which share memory with this one.

Glossary of shapes: B batch (environment slots stepped together), W workers, S slots of a worker.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import multiprocessing.connection
import os
import signal
import sys
import types
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import tree
from dm_env import specs
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv

from boonta.envs import base
from boonta.envs.actions import check_action, check_legal
from boonta.envs.spec_check import name_of
from boonta.envs.step_check import StepCheck

DEADLINE_S = 300.0  # Time in which workers answer; the first answer includes all imports.
CLOSE_S = 5.0  # Time in which they close their environments; after that they are killed.
REAPED_S = 5.0  # Time in which the exit code of one that is dead is known.
_CONTEXT = "forkserver"  # A fork of this process itself could hang: its threads may hold locks.
_MAIN = sys.modules["__main__"]  # Several threads may hide it at once, and each puts this one back.


@dataclasses.dataclass(frozen=True)
class InProcesses:
    """The slots of an environment in processes of their own, so that they step at the same time.

    A batch waits for its slowest slot, but no slot waits while another computes. It pays for environments that take
    longer for a step than the way to another process and back, or that wait for something, and with cores to spare: see
    benchmarks/README.md. Seeds are spread over workers, so the same seed gives other episodes than without, and other
    ones with another number of workers.

    Processes and shared memory are those of Gymnasium's `AsyncVectorEnv`. Its auto-reset isn't used: each worker has a
    batch of the environment, which returns whole time steps.

    Attributes:
      env: the environment; it must be picklable, and of bools, integers and real numbers of numpy's own.
      workers: the most processes; their number is the largest one up to this that divides the number of slots.
    """

    env: base.Env
    workers: int

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}; it must be at least 1")

    @property
    def same_as(self) -> base.Env:
        """The environment from which this one differs in its speed alone."""
        return self.env

    @property
    def spec(self) -> base.EnvSpec:
        return self.env.spec

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        return _Batch(self.env, self.workers, num_envs, seed)


class _Batch(base.BatchedEnv):
    """The workers, each of which is an environment of `AsyncVectorEnv`."""

    def __init__(self, env: base.Env, most_workers: int, num_envs: int, seed: int):
        base.slot_seeds(num_envs, seed)  # It refuses impossible numbers.
        workers = max(w for w in range(1, min(most_workers, num_envs) + 1) if num_envs % w == 0)
        self.num_envs, self.spec = num_envs, env.spec
        self._slots = num_envs // workers
        self._episodes: list[base.Episode] = []
        self._shown: base.TimeStep | None = None  # The last step.
        shares = [
            _Share(env, self.spec, self._slots, i * self._slots, int(each))
            for i, each in enumerate(base.slot_seeds(workers, seed))
        ]
        try:
            with _without_main():
                self._workers = _Workers([functools.partial(_same, share) for share in shares], context=_CONTEXT)
        except multiprocessing.TimeoutError as error:
            raise RuntimeError(
                f"processes for environments have not started in {DEADLINE_S:g} s; importing the environment may hang"
            ) from error
        except (EOFError, ConnectionError) as error:
            raise RuntimeError(
                f"a process for environments could not start ({type(error).__name__}); it wrote the reason on standard "
                "error. It must be able to import the environment: a class or a function of a module"
            ) from error

    def reset(self) -> base.TimeStep:
        leaves, _ = self._answer("reset", self._workers.reset_async, self._workers.reset_wait)
        return self._timestep(leaves)

    def step(self, action: np.ndarray) -> base.TimeStep:
        action = check_action(action, self.spec.actions, self.num_envs)
        check_legal(action, self._shown)
        shares = action.reshape(-1, self._slots, *self.spec.actions.shape)
        ask = functools.partial(self._workers.step_async, shares)
        leaves, _, _, _, more = self._answer("step", ask, self._workers.step_wait)
        for worker in np.flatnonzero(more.get("_episodes", ())):
            for slot, *episode in more["episodes"][worker]:
                self._episodes.append(base.Episode(int(worker) * self._slots + slot, *episode))
        return self._timestep(leaves)

    def episodes(self) -> list[base.Episode]:
        episodes, self._episodes = self._episodes, []
        return episodes

    def render(self) -> np.ndarray | None:
        pictures = self._call("of_batch", "render")
        return None if any(picture is None for picture in pictures) else np.concatenate(pictures)

    @property
    def steps_per_s(self) -> float | None:  # type: ignore[override]
        return self._call("of_batch", "steps_per_s")[0]

    def text(self, slot: int) -> str | None:
        return self._of_slot("text", slot)

    def action_name(self, slot: int, action: int) -> str:
        return self._of_slot("action_name", slot, action)

    def close(self) -> None:
        if self._workers.closed:
            return
        try:
            self._call("shut", deadline_s=CLOSE_S)
            self._workers.close()
        except Exception:  # It failed before, or hangs: nothing can be asked of it any more.
            self._workers.kill()

    def _of_slot(self, name: str, slot: int, *arguments: Any) -> Any:
        """The result of a method of the batch that is about one slot."""
        return self._call("of_slot", name, slot, *arguments)[slot // self._slots]

    def _call(self, name: str, *arguments: Any, deadline_s: float = DEADLINE_S) -> tuple[Any, ...]:
        """The results [W] of a method of the workers' shares."""
        ask = functools.partial(self._workers.call_async, name, *arguments)
        return self._answer(name, ask, self._workers.call_wait, deadline_s)

    def _answer(self, what: str, ask: Any, wait: Any, deadline_s: float = DEADLINE_S) -> Any:
        """Asks all workers, and waits for what they answer.

        Raises:
          RuntimeError: a worker has ended, or doesn't answer.
          Exception: a worker's environment raised it.
        """
        try:
            ask()
            return wait(timeout=deadline_s)
        except multiprocessing.TimeoutError as error:
            self._workers.kill()
            raise RuntimeError(f"the environments' processes gave no answer to {what!r} in {deadline_s:g} s") from error
        except (EOFError, ConnectionError) as error:
            multiprocessing.connection.wait([process.sentinel for process in self._workers.processes], timeout=REAPED_S)
            codes = [process.exitcode for process in self._workers.processes]
            worker = next((i for i, code in enumerate(codes) if code is not None), 0)
            first, code = worker * self._slots, codes[worker]
            self._workers.kill()
            raise RuntimeError(
                f"the process of slots {first} to {first + self._slots - 1} ended with exit code {code}, at {what!r}"
            ) from error

    def _timestep(self, leaves: tuple[np.ndarray, ...]) -> base.TimeStep:
        """The time step of B slots, from the workers' leaves [W, S, ...]."""
        joined = [leaf.reshape(self.num_envs, *leaf.shape[2:]) for leaf in leaves]
        self._shown = tree.unflatten_as(self.spec.timestep, joined)
        return self._shown


class _Workers(AsyncVectorEnv):
    """Gymnasium's, whose constructor would wait for ever for a worker that doesn't start."""

    def _check_spaces(self) -> None:
        """Waits until all workers have started, in the place of asking for their spaces, which are those of `_Share`.

        The constructor calls this. It can't be done later: the memory that it shares with workers must not be freed
        before they have it.

        Raises:
          multiprocessing.TimeoutError: a worker hasn't started.
          EOFError, ConnectionError: a worker has ended.
        """
        try:
            self.call_async("start")
            self.call_wait(timeout=DEADLINE_S)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        self.closed = True


class _Share(gymnasium.Env):
    """The slots of a worker as one of Gymnasium's environments, whose observation is all leaves of their time step."""

    metadata: dict[str, Any] = {}

    def __init__(self, env: base.Env, spec: base.EnvSpec, slots: int, first: int, seed: int):
        self._env, self._seed = env, seed
        self._slots, self._first = slots, first
        leaves = tree.flatten_with_path(spec.timestep)
        self._check = StepCheck(spec, slots)  # The memory that is shared takes any shape of the same size.
        self.observation_space = spaces.Tuple([_box(name_of(path), leaf, slots) for path, leaf in leaves])
        self.action_space = _box("action", spec.actions, slots)

    @functools.cached_property
    def _batch(self) -> base.BatchedEnv:
        """The slots. Only workers ask for them, not the process that starts those."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # They may reach all processes, but the first one ends the others.
        _end_with_parent()
        return self._env(self._slots, self._seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return tuple(self._check.leaves(self._batch.reset())), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        timestep = self._batch.step(action)
        # Only plain dicts can be sent; the metrics of an episode are any mapping.
        episodes = [(*episode[:3], dict(episode.metrics)) for episode in self._batch.episodes()]
        return tuple(self._check.leaves(timestep)), 0.0, False, False, {"episodes": episodes} if episodes else {}

    def start(self) -> None:
        """Does nothing: a worker that answers has imported the environment."""

    def of_batch(self, name: str) -> Any:
        """The result of a method of the batch, or the value of an attribute."""
        found = getattr(self._batch, name)
        return found() if callable(found) else found

    def of_slot(self, name: str, slot: int, *arguments: Any) -> Any:
        """The result of a method of the batch about a slot, by its number among B; None if it is another worker's."""
        own = slot - self._first
        return getattr(self._batch, name)(own, *arguments) if 0 <= own < self._slots else None

    def shut(self) -> None:
        """Closes the batch; Gymnasium's own `close` has no deadline."""
        if "_batch" in vars(self):
            self._batch.close()


def _end_with_parent() -> None:
    """Has the kernel end this worker with the process that started it, even while its environment hangs.

    That process holds the other end of a pipe. When that closes, SIGIO comes, which ends a process without a handler.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC | fcntl.fcntl(parent.sentinel, fcntl.F_GETFL))


def _same(share: _Share) -> _Share:
    return share  # `AsyncVectorEnv` takes functions that make environments.


def _box(name: str, spec: specs.Array, slots: int) -> spaces.Box:
    """The space of a leaf's arrays [S, ...]; its bounds are those of the dtype, since they are not checked there."""
    dtype = np.dtype(spec.dtype)
    # Dtypes of ml_dtypes, such as bfloat16, and those of another byte order are not built in.
    if dtype.kind not in "biuf" or dtype.isbuiltin != 1:
        raise ValueError(
            f"the environment's {name} is {dtype} by its spec; for slots in processes of their own it must be of "
            "numpy's own bools, integers or real numbers, in this machine's byte order"
        )
    if dtype.kind == "f":
        low, high = -np.inf, np.inf
    else:
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return spaces.Box(low, high, (slots, *spec.shape), dtype.type)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Hides the main module from multiprocessing, which would import it, and with it all of JAX, into each worker."""
    # Workers are forks of one process, which has imported this module.
    multiprocessing.get_context(_CONTEXT).set_forkserver_preload([__name__])
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = _MAIN
