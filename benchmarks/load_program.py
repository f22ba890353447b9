"""Many simulated actors on replay servers and variable servers: `benchmarks/load.py` runs this program.

The actors step no environment and compute no actions: they write frames of noise, which don't compress, as fast as they
are taken, and fetch params once a sequence, as real actors do. The consumer checks every sequence that it reads. Each
node counts the seconds of processor time of its process, in a counter for its role.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dm_env import specs

from boonta.agents.base import Agent, Policy, Steps, Table, Update
from boonta.envs.base import EnvSpec
from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.replay import Replay
from boonta.nodes.variables import VariableServer
from boonta.nodes.watch.calls import answered
from boonta.programs.wiring.launch import Program, RunFlags, group, main

FRAME = (84, 84)
TABLE = Table("trajectories", "queue", 21, 20, 32, size=128)
PARAMS = 1_700_000  # Bytes, as of IMPALA's shallow network on Atari.
KEPT = 1_000  # Latencies that percentiles are taken over.
FRAMES = 16  # Frames of noise, made in advance.


class Noise:
    """Frames without a game; only the spec is used."""

    spec = EnvSpec(specs.BoundedArray(FRAME, np.uint8, 0, 255), specs.DiscreteArray(6))


def steps(actor: int, t: int, frames: np.ndarray) -> Steps:
    """Step t of every slot; the first bytes of a frame identify its actor, slot and step."""
    observation = np.array(frames)
    for slot in range(len(frames)):
        observation[slot].reshape(-1)[:12] = np.array([actor, slot, t], np.int32).view(np.uint8)
    zeros = np.zeros(len(frames), np.int32)
    numbers = zeros.astype(np.float32)
    return Steps(observation, zeros, numbers, numbers, zeros, {}, zeros)


def origins(observation: np.ndarray) -> np.ndarray:
    """The actor, slot and step that frames [..., 84, 84] begin with; int32 [..., 3]."""
    return np.ascontiguousarray(observation.reshape(*observation.shape[:-2], -1)[..., :12]).view(np.int32)


def torn(rows: np.ndarray) -> int:
    """How many sequences of a batch aren't consecutive steps of one slot, by their origins [T, B, 3]."""
    mixed = np.any(rows[:, :, :2] != rows[:1, :, :2], axis=(0, 2))
    return int(np.sum(mixed | np.any(np.diff(rows[:, :, 2], axis=0) != 1, axis=0)))


class Metered(Node):
    """A node that counts the processor time of its process, in seconds."""

    _cpu_s = 0.0

    def report(self) -> dict[str, Any]:
        before, self._cpu_s = self._cpu_s, time.process_time()
        self.count(**{f"cpu_s/{self.role}": self._cpu_s - before})
        return super().report()


class MeteredReplay(Metered, Replay):
    """A replay server that counts its processor time."""


class MeteredVariables(Metered, VariableServer):
    """A variable server that counts its processor time."""


class MeteredMonitor(Monitor):
    """A monitor whose own processor time is among the counters."""

    def totals(self) -> dict[str, float]:
        return super().totals() | {"cpu_s/monitor": time.process_time()}


class SimulatedActors(Metered):
    """Write steps, a thread each, and measure how long each step takes to be taken, and params to arrive."""

    role = "actor"

    def __init__(
        self, name: str, variables: Any, replay: Any, monitor: Any = None, *, threads: int = 8, num_envs: int = 2
    ):
        super().__init__(name, monitor)
        self._variables = variables
        self._replay = replay
        self._streams = threads
        self._num_envs = num_envs
        self._first = int(name.rpartition("/")[2]) * threads

    def start(self) -> None:
        self._ms: dict[str, Any] = collections.defaultdict(lambda: collections.deque(maxlen=KEPT))
        self._steps = [self._actor(self._first + i) for i in range(self._streams)]

    @property
    def tasks(self) -> Sequence[Callable[[], None]]:
        return self._steps

    def _actor(self, number: int) -> Callable[[], None]:
        """A simulated actor: a function that writes until a sequence is complete, and then fetches params."""
        writer = self._replay.open_writer([TABLE], self._num_envs, self.wait_for, number - self._first)
        shape = (FRAMES, self._num_envs, *FRAME)
        noise = np.random.default_rng(number).integers(256, size=shape, dtype=np.uint8)
        t, have = 0, -1

        def act() -> None:
            nonlocal t, have
            completed = 0
            while not completed and not self.stopping:
                row = steps(number, t, noise[t % FRAMES])
                began = time.monotonic()
                completed = writer.append(row)
                self._ms["sequence" if completed else "step"].append(1e3 * (time.monotonic() - began))
                t += 1
                self.count(env_steps=self._num_envs)
            began = time.monotonic()
            found = answered(self._variables.get, have)
            if found and found[1]:
                self._ms["params"].append(1e3 * (time.monotonic() - began))
                self.count(fetches=1)
                have = found[0]
            self._report()

        return act

    def _report(self) -> None:
        latencies = {what: list(values) for what, values in dict(self._ms).items()}
        self.measure(
            {
                f"{what}_ms_p{percent}": float(np.percentile(values, percent))
                for what, values in latencies.items()
                for percent in (50, 99)
            }
        )


class Consumer(Metered):
    """Reads every sequence once, checks that none is lost, torn or out of order, and publishes params."""

    role = "learner"

    def __init__(
        self, name: str, agent: Agent, variables: Any, replay: Any, monitor: Any = None, *, rest_s: float = 0.0
    ):
        super().__init__(name, monitor)
        self._agent = agent
        self._variables = variables
        self._replay = replay
        self._rest_s = rest_s

    def start(self) -> None:
        from boonta.nodes.hosts.placement import batch_sharding, make_mesh  # Not above: actors need no JAX.

        mesh = make_mesh(1, TABLE.batch_size)
        self._dataset = self._replay.open_dataset(self._agent.tables, batch_sharding(mesh), self.wait_for, updates=0)
        self.on_close(self._dataset.close)
        self._next: dict[tuple[int, int], int] = {}  # The first step of the next sequence, by actor and slot.
        self._params = np.random.default_rng(0).bytes(PARAMS)
        threading.Thread(target=self._publish, daemon=True).start()

    def step(self) -> None:
        batch, _ = self.wait_for("data", self._dataset.next)
        with self.stopwatch("checking"):
            rows = origins(np.asarray(batch.steps.observation))  # [T, B, 3]
            lost = 0
            for actor, slot, t in rows[0]:
                lost += self._next.get((actor, slot), 0) != t
                self._next[actor, slot] = t + TABLE.period
        self.count(updates=1, sequences=rows.shape[1], lost=lost, torn=torn(rows))
        self.sleep(self._rest_s)

    def _publish(self) -> None:
        version = 0
        while not self.stopping:
            answered(self._variables.put, version, self._params)
            version += 1
            self.sleep(0.5)


def make_agent() -> Agent:
    """An agent that is nothing but its table."""

    def act(params: Any, key: Any, timestep: Any, state: Any) -> Any:
        return timestep.step_type, {}, state

    policy = Policy(lambda slots: (), act)
    update = Update(lambda key: {}, lambda state, batch: (state, None, {}), lambda state: state)
    return Agent(policy, policy, update, (TABLE,))


def load_program(
    run: RunFlags, processes: int = 8, streams: int = 8, num_envs: int = 2, rest_s: float = 0.0
) -> Program:
    """Simulated actors, the replay servers and variable servers that the run asks for, and a consumer.

    Args:
      run: the run's settings.
      processes: number of processes of simulated actors.
      streams: simulated actors in each, with a stream to the replay server each.
      num_envs: slots of each.
      rest_s: seconds that the consumer rests after each batch, so that actors have to wait.
    """
    groups = [
        group(MeteredMonitor, log_every_s=2.0),
        group(MeteredVariables, run.variable_servers),
        group(MeteredReplay, run.replay_servers),
        group(Consumer, rest_s=rest_s),
        group(SimulatedActors, processes, threads=streams, num_envs=num_envs),
    ]
    return Program("load_program", run, make_agent(), Noise(), groups)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(load_program)
