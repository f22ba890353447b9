"""Trajectories in which every number depends on the trajectory and the row, and archives of them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from boonta.agents.base import Steps
from boonta.envs.base import FIRST, LAST, MID
from boonta.envs.catch import Catch
from boonta.nodes.archive import files as archive

CATCH = Catch()


class Extras(NamedTuple):
    policy: np.ndarray
    seen: np.ndarray


def trajectory(number: int, length: int = 4, env=CATCH, first: int = FIRST, last: int = LAST) -> Steps:
    """Steps in which everything depends on which trajectory and which row it is."""
    rng = np.random.default_rng(number)
    observation = jax.tree.map(
        lambda leaf: rng.uniform(0, 2, (length, *leaf.shape)).astype(leaf.dtype), env.spec.observations
    )
    step_type = np.array([first] + [MID] * (length - 2) + [last], np.int32)
    reward = np.arange(length, dtype=np.float32) + number
    extras = Extras(rng.normal(size=(length, 3)).astype(np.float32), rng.random(length) < 0.5)
    row = np.arange(length, dtype=np.int32)
    return Steps(observation, step_type, reward, np.ones(length, np.float32), row % 3, extras, row + number)


def signature(steps: Steps) -> Steps:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), steps)


SIGNATURE = signature(trajectory(0))


def make(folder, numbers=range(6), env=CATCH, chunk_steps: int = 8, **fields):
    writer = archive.ArchiveWriter(folder, env, chunk_steps)
    for number in numbers:
        writer.add(trajectory(number, env=env, **fields))
    return writer.close()


def by_chance(episodes: int, env=CATCH) -> list[Steps]:
    """Episodes of Catch, or what looks like it: ball, paddle and all by chance."""
    rng = np.random.default_rng(0)
    shape = env.spec.observations.shape
    step_type = np.array([FIRST] + [MID] * 8 + [LAST], np.int32)
    return [
        Steps(
            rng.integers(0, 2, (10, *shape)).astype(np.float32),
            step_type,
            np.where(step_type == LAST, rng.choice([-1.0, 1.0]), 0.0).astype(np.float32),
            np.where(step_type == LAST, 0.0, 1.0).astype(np.float32),
            rng.integers(0, 3, 10).astype(np.int32),
            (),
            np.zeros(10, np.int32),
        )
        for _ in range(episodes)
    ]


def write_by_chance(folder):
    """An archive of 40 such episodes, large enough for MuZero to learn from."""
    writer = archive.ArchiveWriter(folder, CATCH, chunk_steps=80)
    for episode in by_chance(40):
        writer.add(episode)
    return writer.close()
