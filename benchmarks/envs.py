"""Measures environments alone, stepped by one process or by several: env steps per second with random actions.

./run python benchmarks/envs.py
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable

import dm_env
import numpy as np
import tyro
from dm_env import specs

from boonta.benchmarks.timing import per_second, spread
from boonta.envs.actions import random_actions
from boonta.envs.base import BatchedEnv, Env
from boonta.envs.dm_env import DmEnv
from boonta.envs.processes import InProcesses
from boonta.programs.wiring.environments import make_env

CORES = os.cpu_count() or 1
WAIT_S = 0.005  # Time that a step of the slow environment takes.


class Waiting(dm_env.Environment):
    """An environment that takes its time, as one does that asks another program or a machine."""

    def __init__(self, seed: int):
        del seed

    def observation_spec(self) -> specs.Array:
        return specs.Array((4,), np.float32)

    def action_spec(self) -> specs.BoundedArray:
        return specs.BoundedArray((1,), np.float32, -1.0, 1.0)

    def reset(self) -> dm_env.TimeStep:
        return dm_env.restart(np.zeros(4, np.float32))

    def step(self, action: np.ndarray) -> dm_env.TimeStep:
        time.sleep(WAIT_S)
        return dm_env.transition(1.0, np.zeros(4, np.float32))


SLOW = DmEnv(Waiting)


@dataclasses.dataclass(frozen=True)
class Options:
    """Settings of the benchmark.

    Attributes:
      names: the environments.
      slots: numbers of slots of a batch.
      workers: numbers of processes, see `boonta.envs.processes`; 0 is none but this one. Those that don't divide the
        slots are left out, since fewer would step them.
      seconds: time of one measurement.
      turns: how often everything is measured, in turns.
    """

    names: tuple[str, ...] = ("dm_control/cartpole-swingup", "gymnasium/HalfCheetah-v5", "boonta.benchmarks.envs:SLOW")
    slots: tuple[int, ...] = (1, 8, 32)
    workers: tuple[int, ...] = (0, CORES, 4 * CORES)
    seconds: float = 3.0
    turns: int = 3


def rate(env: Env, slots: int, seconds: float) -> float:
    """Env steps per second of a batch."""
    with contextlib.closing(env(slots, 0)) as batch:
        batch.reset()
        return per_second(step_of(batch), seconds)


def step_of(batch: BatchedEnv) -> Callable[[], float]:
    """A function that steps a batch, and returns the number of its env steps."""
    rng = np.random.default_rng(0)

    def step() -> float:
        batch.step(random_actions(batch.spec.actions, (batch.num_envs,), rng))
        return batch.num_envs

    return step


def main(options: Options) -> None:
    """Prints a row for each environment and number of slots: medians of the turns, with the least and the most."""
    envs = {name: {w: stepped(make_env(name), w) for w in options.workers} for name in options.names}
    found: dict[tuple[str, int, int], list[float]] = {}
    for _ in range(options.turns):
        for name, by_workers in envs.items():
            for slots in options.slots:
                for workers, env in by_workers.items():
                    if not workers or slots % workers == 0:
                        found.setdefault((name, slots, workers), []).append(rate(env, slots, options.seconds))
    print(f"{'':30s}{'slots':>6s}" + "".join(f"{f'workers {workers}':>28s}" for workers in options.workers))
    for name in options.names:
        for slots in options.slots:
            rates = (found.get((name, slots, workers)) for workers in options.workers)
            shown = (spread(each, ",.0f") if each else "-" for each in rates)
            print(f"{name:30s}{slots:6d}" + "".join(f"{each:>28s}" for each in shown))


def stepped(env: Env, workers: int) -> Env:
    """The environment, stepped by processes if there are to be any."""
    return InProcesses(env, workers) if workers else env


if __name__ == "__main__":
    main(tyro.cli(Options))
