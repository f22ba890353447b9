"""Gymnasium's environments whose observations have an action mask, as PettingZoo's and RLlib's do."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from boonta.envs import base, conformance
from boonta.envs.gymnasium import Gymnasium
from boonta.tests.helpers.countdown import Countdown, Stuck


class Wide(Countdown):
    """Its mask has no place for each action, so it is an observation like any other."""

    observation_space = spaces.Dict(
        {"observation": spaces.Box(0.0, 5.0, (1,), np.float64), "action_mask": spaces.Box(0, 1, (4,), np.int8)}
    )

    def seen(self):
        return {"observation": super().seen()["observation"], "action_mask": np.ones(4, np.int8)}


def vector(num_envs):
    return SyncVectorEnv([Countdown] * num_envs)


@pytest.mark.parametrize(
    "env", [Gymnasium(Countdown), Gymnasium(vector, vectorised=True)], ids=["looped", "vectorised"]
)
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


def test_a_mask_that_allows_nothing_is_named():
    with (
        contextlib.closing(Gymnasium(Stuck)(1, 0)) as batch,
        pytest.raises(ValueError, match="action_mask allows no action"),
    ):
        batch.reset()


def test_what_is_no_mask_of_the_actions_stays_an_observation():
    assert set(Gymnasium(Wide).spec.observations) == {"observation", "action_mask"}
