"""Replayed environments show the recorded steps, one trajectory after another, whatever the actions."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from boonta.agents.base import Steps
from boonta.envs import conformance
from boonta.envs.base import FIRST, LAST, MID, EnvSpec, Episode
from boonta.envs.catch import Catch
from boonta.envs.open_spiel import OpenSpiel
from boonta.nodes.acting.replayed import Replayed


def record(env, seed: int, episodes: int = 1) -> Steps:
    """Episodes of random legal play, leaves [T, ...]."""
    batch, rng, rows = env(1, seed), np.random.default_rng(seed), []
    timestep = batch.reset()
    while episodes:
        legal = getattr(timestep.observation, "legal", np.ones((1, env.spec.actions.num_values), bool))
        action = rng.choice(np.flatnonzero(legal[0]), size=1).astype(np.int32)
        rows.append(Steps(timestep.observation, *timestep[:3], action, (), np.zeros(1, np.int32)))
        episodes -= timestep.step_type[0] == LAST
        timestep = batch.step(action)
    return jax.tree.map(lambda *x: np.concatenate(x), *rows)


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Replays random episodes of an environment, in an order that depends on the seed alone."""

    env: Catch | OpenSpiel

    @property
    def spec(self) -> EnvSpec:
        return self.env.spec

    def __call__(self, num_envs: int, seed: int) -> Replayed:
        seeds = itertools.count(1000 * seed)
        return Replayed(self.spec, num_envs, lambda: record(self.env, next(seeds)))


@pytest.mark.parametrize("env", [Catch(rows=4, columns=3), OpenSpiel("tic_tac_toe")])
def test_whole_episodes_conform(env):
    conformance.check(Recorded(env), steps=60)


def trajectory(first: int, length: int, step_types: list[int]) -> Steps:
    """Rows whose observation, reward and action count on from `first`."""
    rows = np.arange(first, first + length)
    step_type = np.array(step_types, np.int32)
    reward = np.where(step_type == FIRST, 0, rows).astype(np.float32)
    discount = (step_type != LAST).astype(np.float32)
    observation = np.broadcast_to(rows[:, None, None], (length, 10, 5)).astype(np.float32)
    return Steps(observation, step_type, reward, discount, (rows % 3).astype(np.int32), (), rows.astype(np.int32))


def test_slots_go_on_with_the_sources_next_and_actions_are_the_recorded_ones():
    given = [
        trajectory(10, 3, [FIRST, MID, LAST]),
        trajectory(20, 2, [FIRST, LAST]),
        trajectory(30, 4, [MID, LAST, FIRST, MID]),  # a fragment
        trajectory(40, 1, [FIRST]),
        trajectory(50, 9, [FIRST] + [MID] * 8),
        trajectory(60, 9, [FIRST] + [MID] * 8),
    ]
    source = iter(given)
    batch = Replayed(Catch().spec, 2, lambda: next(source))
    shown, executed = [batch.reset()], []
    for action in (0, 1, 2, 0, 1, 2):
        executed.append(batch.executed_action(np.full(2, action, np.int32)))
        shown.append(batch.step(np.full(2, action, np.int32)))
    rows = [[int(x) for x in timestep.observation[:, 0, 0]] for timestep in shown]
    assert rows == [[10, 20], [11, 21], [12, 30], [40, 31], [50, 32], [51, 33], [52, 60]]
    np.testing.assert_array_equal(executed, np.array(rows[:-1]) % 3)
    assert [timestep.step_type.tolist() for timestep in shown[:4]] == [[0, 0], [1, 2], [2, 1], [0, 2]]
    # The start of the episode that ended in row 31 wasn't replayed, so its return is unknown.
    assert batch.episodes() == [Episode(1, 21.0, 1), Episode(0, 23.0, 2)]


def test_a_reset_leaves_what_was_playing():
    source = (trajectory(10 * i, 3, [FIRST, MID, LAST]) for i in itertools.count())
    batch = Replayed(Catch().spec, 2, lambda: next(source))
    assert batch.reset().observation[:, 0, 0].tolist() == [0, 10]
    batch.step(np.zeros(2, np.int32))
    assert batch.reset().observation[:, 0, 0].tolist() == [20, 30]
    assert batch.episodes() == []


def test_impossible_actions_are_refused_all_the_same():
    batch = Replayed(Catch().spec, 1, lambda: trajectory(0, 3, [FIRST, MID, LAST]))
    batch.reset()
    with pytest.raises(ValueError, match="action of slot 0 is 3"):
        batch.step(np.array([3], np.int32))
