import warnings

import numpy as np
import pytest

from boonta.envs import base, catch, conformance
from boonta.envs.continuing import Continuing
from boonta.envs.dm_env import DmEnv
from boonta.envs.minatar import MinAtar
from boonta.envs.open_spiel import OpenSpiel
from boonta.tests.helpers.fragile import Fragile

SMALL = catch.Catch(rows=4, columns=3)


@pytest.mark.parametrize("env", [SMALL, MinAtar("breakout"), OpenSpiel("2048")], ids=str)
def test_keeps_the_contract(env):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # There is a warning if no episode ended.
        conformance.check(Continuing(env), num_envs=2, steps=100, endless=True)


def test_two_games_step_by_step():
    """Three steps of a falling ball, one in which the next begins, three more."""
    actions = np.array([[0, 1], [1, 1], [1, 1], [2, 2], [2, 1], [1, 1], [1, 1], [0, 0]])
    inner, env = SMALL(2, seed=0), Continuing(SMALL)(2, seed=0)
    inner_steps = [inner.reset(), *map(inner.step, actions)]
    steps = [env.reset(), *map(env.step, actions)]
    assert [step.step_type.tolist() for step in steps] == [[base.FIRST] * 2, *[[base.MID] * 2] * 8]
    assert all((step.discount == 1).all() for step in steps)
    for one, two in zip(inner_steps, steps):
        np.testing.assert_array_equal(one.reward, two.reward)
        np.testing.assert_array_equal(one.observation, two.observation)
    assert [bool(step.reward.any()) for step in steps] == [False] * 3 + [True] + [False] * 3 + [True, False]
    episodes = env.episodes()
    assert episodes == inner.episodes() and [(e.slot, e.env_steps) for e in episodes] == [
        (0, 3),
        (1, 3),
        (0, 3),
        (1, 3),
    ]


def test_a_reset_begins_anew():
    env = Continuing(SMALL)(2, seed=0)
    env.reset()
    env.step(np.zeros(2, int))
    assert env.reset().step_type.tolist() == [base.FIRST, base.FIRST]
    assert env.step(np.zeros(2, int)).step_type.tolist() == [base.MID, base.MID]


def test_draws_what_it_holds():
    env = Continuing(MinAtar("breakout"))(2, seed=0)
    env.reset()
    assert env.render().shape == (2, 10, 10, 3)


def test_people_see_what_they_see_without_it():
    assert Continuing(SMALL)(1, seed=0).action_name(0, 0) == "left"
    assert Continuing(DmEnv(Fragile))(1, seed=0).steps_per_s == Fragile.steps_per_s
    inner, env = (each(2, seed=0) for each in (OpenSpiel("2048"), Continuing(OpenSpiel("2048"))))
    inner.reset()
    env.reset()
    assert env.text(1) == inner.text(1)


def test_refuses_two_players():
    with pytest.raises(ValueError, match="env has 2 players; allowed: 1"):
        Continuing(OpenSpiel("tic_tac_toe"))
