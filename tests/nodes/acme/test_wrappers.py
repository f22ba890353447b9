"""Acme's wrappers and fakes work with our environments, both ways."""

from __future__ import annotations

import numpy as np
import pytest

from boonta.envs import conformance
from boonta.envs.catch import Catch
from boonta.envs.dm_env import DmEnv
from boonta.envs.one_slot import OneSlot

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")

import acme  # noqa: E402  # isort: skip
import gym  # noqa: E402  # isort: skip
from acme import wrappers  # noqa: E402  # isort: skip
from acme.testing import fakes  # noqa: E402  # isort: skip


def stacked(seed):
    return wrappers.FrameStackingWrapper(wrappers.SinglePrecisionWrapper(OneSlot(Catch(), seed)), num_frames=3)


def limited(seed):
    return wrappers.StepLimitWrapper(wrappers.ObservationActionRewardWrapper(OneSlot(Catch(), seed)), step_limit=4)


def from_gym(seed):
    env = gym.make("CartPole-v1")
    env.seed(seed)
    return wrappers.SinglePrecisionWrapper(wrappers.GymWrapper(env))


def fake(seed):
    del seed
    return fakes.DiscreteEnvironment(num_actions=3, num_observations=5, obs_shape=(2, 2), episode_length=6)


def fake_continuous(seed):
    del seed
    return fakes.ContinuousEnvironment(action_dim=2, observation_dim=3, bounded=True, episode_length=6)


@pytest.mark.parametrize("make", [stacked, limited, from_gym, fake, fake_continuous])
def test_what_acme_wraps_is_an_environment_of_ours(make):
    conformance.check(DmEnv(make))


def test_the_wrappers_do_their_work():
    assert DmEnv(stacked).spec.observations.shape == (10, 5, 3)
    env = limited(0)
    timestep = env.reset()
    for _ in range(4):
        assert not timestep.last()
        timestep = env.step(np.int32(2))
    assert timestep.last() and timestep.discount == 1.0 and timestep.observation.action == 2


def test_acme_s_fake_actor_validates_our_environment():
    env = OneSlot(Catch())
    spec = acme.make_environment_spec(env)
    assert spec == acme.specs.EnvironmentSpec(*Catch().spec[:4])
    actor = fakes.Actor(spec)
    loop = acme.EnvironmentLoop(env, actor, logger=acme.utils.loggers.NoOpLogger())
    assert loop.run_episode()["episode_length"] == 9 and actor.num_updates == 9
