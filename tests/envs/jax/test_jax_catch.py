import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.envs import base, catch, conformance
from boonta.envs.jax.catch import Catch
from boonta.envs.jax.purity import check_pure


def test_keeps_the_contract():
    check_pure(Catch())
    conformance.check(Catch(rows=4, columns=3), steps=40)


def test_spec_is_that_of_its_twin():
    assert Catch(6, 4).spec == catch.Catch(6, 4).spec


def test_an_episode_in_one_program():
    """Nine moves towards the ball catch it from wherever it falls; then the next episode begins."""
    env = Catch()

    def step(carry, _):
        state, timestep = carry
        ball = jnp.argmax(timestep.observation[:-1].max(axis=0))
        paddle = jnp.argmax(timestep.observation[-1])
        carry = env.step(state, 1 + jnp.sign(ball - paddle))
        return carry, carry[1]

    def play(key):
        return jax.lax.scan(step, env.init(key), None, length=20)[1]

    steps = jax.jit(jax.vmap(play))(jax.random.split(jax.random.PRNGKey(0), 64))  # [B, T, ...]
    kinds = [*[base.MID] * 8, base.LAST, base.FIRST]
    np.testing.assert_array_equal(steps.step_type, np.tile(kinds * 2, (64, 1)))
    np.testing.assert_array_equal(steps.reward, steps.step_type == base.LAST)
    np.testing.assert_array_equal(steps.discount, steps.step_type != base.LAST)
    starts = steps.observation[:, 9, 0]  # The balls of the second episode, [B, columns].
    assert (starts.sum(axis=1) == 1).all() and starts.any(axis=0).all()


def test_refuses_boards_that_cannot_be_played():
    with pytest.raises(ValueError, match="could not reach the outermost column in time"):
        Catch(rows=3, columns=7)
