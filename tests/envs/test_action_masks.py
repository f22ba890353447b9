"""Gymnasium's environments whose observations have an action mask, as PettingZoo's and RLlib's do."""

from __future__ import annotations

import contextlib

import dm_env
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from boonta.envs import base, conformance
from boonta.envs.dm_env import DmEnv
from boonta.envs.gymnasium import Gymnasium
from boonta.tests.helpers.countdown import Countdown, Stuck


class Wide(Countdown):
    """Its mask has no place for each action, so it is an observation like any other."""

    observation_space = spaces.Dict(
        {"observation": spaces.Box(0.0, 5.0, (1,), np.float64), "action_mask": spaces.Box(0, 1, (4,), np.int8)}
    )

    def seen(self):
        return {"observation": super().seen()["observation"], "action_mask": np.ones(4, np.int8)}


class CutShort(Countdown):
    """Its episodes are truncated at their end, where its mask allows nothing."""

    def step(self, action):
        seen, reward, over, _, info = super().step(action)
        return seen, reward, False, over, info


def vector(num_envs):
    return SyncVectorEnv([Countdown] * num_envs)


class Corner(dm_env.Environment):
    """Its first action is never legal, and its mask says so on LAST, too; an episode has two steps."""

    def __init__(self, seed):
        self.steps = 0

    def reset(self):
        self.steps = 0
        return dm_env.restart(self.seen())

    def step(self, action):
        assert action == 1, "an illegal action"
        self.steps += 1
        return (dm_env.transition if self.steps < 2 else dm_env.termination)(1.0, self.seen())

    def seen(self):
        return base.BoardView(np.float32(self.steps), np.array([False, True]), np.int32(0))

    def observation_spec(self):
        return base.BoardView.spec(specs.Array((), np.float32, "steps"), 2)

    def action_spec(self):
        return specs.DiscreteArray(2, np.int32, "action")


LOOPED, VECTORISED = Gymnasium(Countdown), Gymnasium(vector, vectorised=True)


@pytest.mark.parametrize("env", [LOOPED, VECTORISED, Gymnasium(CutShort)], ids=["looped", "vectorised", "truncated"])
def test_the_mask_says_which_actions_are_legal(env):
    conformance.check(env, steps=60)
    with contextlib.closing(env(2, 0)) as batch:
        timestep, masks = batch.reset(), []
        while not (timestep.step_type == base.LAST).any():
            view, legal, player = timestep.observation
            masks.append((view[0, 0], legal[0].tolist()))
            timestep = batch.step(np.ones(2, np.int32) * legal[:, 1])  # Takes two where that is legal, else one.
        assert timestep.observation.legal[timestep.step_type == base.LAST].all()
    assert (view.dtype, legal.dtype, player.tolist()) == (np.float32, bool, [0, 0])
    assert all(legal == [left >= n for n in (1, 2, 3)] for left, legal in masks) and len(masks) > 1


@pytest.mark.parametrize(
    "env", [LOOPED, VECTORISED, Gymnasium(Countdown, workers=2)], ids=["looped", "vectorised", "processes"]
)
def test_an_illegal_action_is_refused_before_any_slot_takes_a_step(env):
    ones, three = np.zeros(2, np.int32), np.array([0, 2], np.int32)  # Both take one, or slot 1 takes three.
    with contextlib.closing(env(2, 0)) as batch, contextlib.closing(env(2, 0)) as same:
        timestep = batch.reset()
        same.reset()
        while timestep.observation.legal[1].sum() > 1:
            timestep, _ = batch.step(ones), same.step(ones)
        with pytest.raises(ValueError, match=r"action of slot 1 is 2, which is illegal there; legal: \[0\]"):
            batch.step(three)
        for action in (ones, three):  # Slot 1 has ended before the second one, which it ignores.
            timestep, wanted = batch.step(action), same.step(action)
            np.testing.assert_array_equal(timestep.observation.view, wanted.observation.view)
        assert timestep.step_type[1] == base.FIRST


def test_a_slots_action_is_ignored_after_its_last_step_whatever_the_mask_says():
    batch = DmEnv(Corner)(2, 0)
    steps = [batch.reset(), *(batch.step(np.ones(2, np.int32)) for _ in range(2)), batch.step(np.zeros(2, np.int32))]
    assert [step.step_type.tolist() for step in steps] == [[0, 0], [1, 1], [2, 2], [0, 0]]
    with pytest.raises(ValueError, match=r"action of slot 0 is 0, which is illegal there; legal: \[1\]"):
        batch.step(np.zeros(2, np.int32))


def test_a_mask_that_allows_nothing_is_named():
    with (
        contextlib.closing(Gymnasium(Stuck)(1, 0)) as batch,
        pytest.raises(ValueError, match="action_mask allows no action"),
    ):
        batch.reset()


def test_what_is_no_mask_of_the_actions_stays_an_observation():
    assert set(Gymnasium(Wide).spec.observations) == {"observation", "action_mask"}
