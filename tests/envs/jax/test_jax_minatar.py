import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.envs import base, conformance, minatar
from boonta.envs.jax.minatar import MinAtar
from boonta.envs.jax.purity import check_pure

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

GAMES = ["asterix", "breakout", "freeway", "seaquest", "space_invaders"]


@pytest.mark.parametrize("game", GAMES)
def test_keeps_the_contract(game):
    env = MinAtar(game, max_episode_steps=20)
    check_pure(env)
    conformance.check(env, num_envs=4, steps=60)


@pytest.mark.parametrize("minimal", [True, False])
@pytest.mark.parametrize("game", GAMES)
def test_specs_are_those_of_the_package(game, minimal):
    env = MinAtar(game, minimal_actions=minimal)
    assert env.spec == minatar.MinAtar(game, minimal_actions=minimal).spec
    _, timestep = jax.eval_shape(env.init, jax.random.PRNGKey(0))
    assert timestep.observation.shape == env.spec.observations.shape


def test_a_long_game_is_cut_short():
    batch = MinAtar("freeway", max_episode_steps=7)(num_envs=2, seed=0)
    steps = [batch.reset(), *(batch.step(np.zeros(2, int)) for _ in range(8))]
    assert [int(step.step_type[0]) for step in steps] == [base.FIRST, *[base.MID] * 6, base.LAST, base.FIRST]
    assert steps[7].discount.tolist() == [1, 1]
    assert batch.episodes() == [base.Episode(0, 0.0, 7), base.Episode(1, 0.0, 7)]


def test_sticky_actions_repeat_the_one_before():
    """Always sticky, the paddle never moves; never sticky, it does; half and half, in some slots."""
    for sticky, moved in ((1.0, {0}), (0.0, {1}), (0.5, {0, 1})):
        env = MinAtar("breakout", sticky_actions=sticky, minimal_actions=True)
        batch = env(num_envs=32, seed=0)
        batch.reset()
        paddle = batch.step(np.full(32, 2)).observation[:, 9, :, 0].argmax(axis=1)  # Right.
        assert set(paddle - 4) == moved


def test_draws_each_slot():
    batch = MinAtar("breakout")(num_envs=2, seed=0)
    batch.reset()
    picture = batch.render()
    assert picture.shape == (2, 10, 10, 3) and not picture[:, 5:9].any() and picture[:, 1:4].all(axis=(1, 2)).any()


def test_first_used_within_a_trace():
    """What pgx computes when it is imported must not become part of the program that happens to be traced then."""
    code = """if True:
        import pickle, sys, jax
        env = pickle.loads(bytes.fromhex(sys.argv[1]))
        assert "pgx" not in sys.modules
        jax.jit(env.init)(jax.random.PRNGKey(0))
        jax.make_jaxpr(env.init)(jax.random.PRNGKey(0))
    """
    subprocess.run([sys.executable, "-c", code, pickle.dumps(MinAtar("breakout")).hex()], check=True)


def test_refuses_what_the_package_refuses():
    with pytest.raises(ValueError, match="game is 'brekout', which MinAtar does not know; did you mean 'breakout'"):
        MinAtar("brekout")
    with pytest.raises(ValueError, match="sticky_actions is 2.0; allowed: 0 to 1"):
        MinAtar("breakout", sticky_actions=2.0)


def test_scans():
    env = MinAtar("asterix")
    state, _ = env.init(jax.random.PRNGKey(0))
    _, steps = jax.jit(lambda state: jax.lax.scan(env.step, state, jnp.zeros(50, jnp.int32)))(state)
    assert steps.observation.shape == (50, 10, 10, 4)
