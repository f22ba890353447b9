import dm_env
import numpy as np
import pytest
import tree
from dm_env import specs

from boonta.envs import conformance
from boonta.envs.catch import Catch
from boonta.envs.dm_env import DmEnv
from boonta.envs.one_slot import OneSlot
from boonta.tests.helpers.nim import Nim


def one_of_catch(seed):
    return OneSlot(Catch(), seed)


def test_one_slot_of_ours_is_a_dm_env_and_ours_again():
    conformance.check(DmEnv(one_of_catch))
    assert DmEnv(one_of_catch).spec.observations == Catch().spec.observations
    assert OneSlot(Catch()).discount_spec() == Catch().spec.discounts


@pytest.mark.parametrize("env", [Catch(), Nim()], ids=str)
def test_one_slot_goes_through_the_batch_s_stream(env):
    one, batch, rng = OneSlot(env, 3), env(1, 3), np.random.default_rng(0)
    shown, expected = one.reset(), batch.reset()
    for _ in range(40):
        tree.map_structure(lambda own, leaf: np.testing.assert_array_equal(own, leaf[0]), shown[3], expected[3])
        assert (shown.step_type, isinstance(shown.step_type, dm_env.StepType)) == (expected.step_type[0], True)
        numbers = (None, None) if shown.first() else (expected.reward[0], expected.discount[0])
        assert (shown.reward, shown.discount) == numbers
        legal = np.flatnonzero(getattr(shown.observation, "legal", np.ones(env.spec.actions.num_values)))
        action = int(rng.choice(legal))
        shown = one.reset() if shown.last() and rng.random() < 0.5 else one.step(action)
        expected = batch.step(np.array([action], np.int32))
    assert one.batch.episodes() == batch.episodes() != []


@pytest.mark.parametrize(("action", "message"), [(3, "action of slot 0 is 3"), ([1, 1], "has shape"), (0.5, "cast")])
def test_one_slot_refuses_other_actions(action, message):
    env = OneSlot(Catch())
    env.reset()
    with pytest.raises((ValueError, TypeError), match=message):
        env.step(action)


class Dials(dm_env.Environment):
    """Episodes of one step; actions don't include 0."""

    def __init__(self, seed):
        self.seed = seed

    def observation_spec(self):
        return specs.Array((), np.float32)

    def action_spec(self):
        return specs.BoundedArray((2,), np.int32, 1, 3)

    def reset(self):
        return dm_env.restart(np.float32(0))

    def step(self, action):
        return dm_env.termination(1.0, np.float32(action.sum()))


def test_one_slot_goes_on_after_an_episode_though_its_actions_have_no_0():
    env = OneSlot(DmEnv(Dials))
    for start in (env.reset, env.reset, lambda: env.step([2, 3])):
        assert start().first()
        assert env.step(np.array([2, 3], np.int32)).last()
