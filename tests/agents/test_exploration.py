"""Exploration: shares and ladders."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents import exploration
from boonta.agents.base import Slots
from boonta.agents.exploration import Exploration

KEY = jax.random.PRNGKey(0)


def test_some_actions_stray_and_stay_legal():
    action, legal = jnp.zeros(3000, jnp.int32), jnp.tile(jnp.array([True, False, True]), (3000, 1))
    strayed = np.asarray(exploration.randomise(KEY, action, legal, 0.2))
    assert set(strayed) == {0, 2} and 0.07 < np.mean(strayed == 2) < 0.13  # The expected share is half of a fifth.


def test_epsilon_greedy_by_slot():
    values = jnp.tile(jnp.array([1.0, 9.0, 2.0, 0.0]), (4000, 1))
    legal = jnp.tile(jnp.array([True, False, True, True]), (4000, 1))
    epsilon = jnp.where(jnp.arange(4000) < 2000, 0.0, 0.3)
    action = np.asarray(exploration.epsilon_greedy(KEY, values, legal, epsilon))
    assert set(action[:2000]) == {2}
    np.testing.assert_allclose(np.bincount(action[2000:], minlength=4) / 2000, [0.1, 0, 0.8, 0.1], atol=0.03)
    assert action.dtype == np.int32


def test_the_ladder_of_ape_x():
    settings = Exploration(epsilon_start=0.4, epsilon=0.4, ladder=7.0)

    def ladder(settings, slots, env_steps=0.0):
        return exploration.epsilon_of(settings, jnp.float32(env_steps), exploration.rungs(slots))

    whole = [0.4 ** (1 + i) for i in range(8)]
    np.testing.assert_allclose(ladder(settings, Slots(8)), whole, rtol=1e-5)
    np.testing.assert_allclose(ladder(settings, Slots(3, 4, 8), 10**6), whole[4:7], rtol=1e-5)
    np.testing.assert_allclose(ladder(settings, Slots(1)), [0.4], rtol=1e-6)
    falling = Exploration(epsilon_start=1.0, epsilon=0.5, anneal_steps=100, ladder=2.0)
    np.testing.assert_allclose(ladder(falling, Slots(3)), [1, 1, 1])
    np.testing.assert_allclose(ladder(falling, Slots(3), 50), [0.75, 0.75**2, 0.75**3], rtol=1e-5)
    np.testing.assert_allclose(ladder(falling, Slots(3), 1000), [0.5, 0.25, 0.125], rtol=1e-5)


def test_slots_of_actors_that_have_joined_lie_between_the_others_on_the_ladder():
    place = exploration.rungs(Slots(size=9, first=6, total=8))
    np.testing.assert_allclose(place, [6 / 7, 1, 1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8, 7 / 8], rtol=1e-6)
    many = np.sort(exploration.rungs(Slots(1024, first=8 + 31, total=8)))
    assert many[0] > 0 and many[-1] < 1 and np.diff(many).max() < 2 / 1024
    np.testing.assert_allclose(exploration.rungs(Slots(1, first=1, total=1)), [0.5])
