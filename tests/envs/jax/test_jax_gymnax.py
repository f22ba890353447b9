import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.envs import base, conformance
from boonta.envs.jax.gymnax import Gymnax
from boonta.envs.jax.purity import check_pure

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0", "DiscountingChain-bsuite"])
def test_keeps_the_contract(name):
    env = Gymnax(name, max_episode_steps=15)
    check_pure(env)
    conformance.check(env, steps=60)


def test_specs():
    assert Gymnax("CartPole-v1").spec.actions == specs.DiscreteArray(2, np.int32, "action")
    spec = Gymnax("Pendulum-v1").spec
    assert spec.observations == specs.Array((3,), np.float32, "observation")
    assert spec.actions == specs.BoundedArray((1,), np.float32, [-2.0], [2.0], "action")
    spec = Gymnax("MountainCarContinuous-v0").spec
    assert spec.actions == specs.BoundedArray((1,), np.float32, [-1.0], [1.0], "action")
    assert spec.actions.minimum.dtype == np.float32


def test_time_truncates_and_a_fall_terminates():
    env = Gymnax("CartPole-v1", max_episode_steps=12)
    batch = env(num_envs=64, seed=0)
    timestep, ends = batch.reset(), {}
    for t in range(1, 13):
        timestep = batch.step((np.arange(64) % 2 + t * (np.arange(64) < 32)) % 2)  # Half of them alternate.
        for slot in np.flatnonzero(timestep.step_type == base.LAST):
            ends.setdefault(slot, (t, timestep.discount[slot]))
    assert {end for slot, end in ends.items() if slot < 32} == {(12, 1.0)}
    assert {discount for slot, (t, discount) in ends.items() if slot >= 32 and t < 12} == {0.0}
    assert {t for slot, (t, _) in ends.items() if slot >= 32} & {8, 9, 10}


def test_the_limit_of_gymnax_itself_is_the_default():
    _, wanted = Gymnax("Pendulum-v1")._made()
    assert wanted.max_steps_in_episode == 200
    state, _ = Gymnax("Pendulum-v1").init(jax.random.PRNGKey(0))
    _, steps = jax.lax.scan(Gymnax("Pendulum-v1").step, state, jnp.zeros((201, 1)))
    assert list(np.flatnonzero(steps.step_type == base.LAST)) == [199]
    assert float(steps.discount[199]) == 1


def test_parameters_change_the_rules_and_distinguish_environments():
    heavy = Gymnax("CartPole-v1", params={"gravity": 50.0})
    assert heavy != Gymnax("CartPole-v1") and isinstance(hash(heavy), int)
    seen = []
    for env in (heavy, Gymnax("CartPole-v1")):
        batch = env(num_envs=1, seed=0)
        batch.reset()
        seen.append([batch.step(np.zeros(1, int)).observation for _ in range(3)][-1])
    assert not np.allclose(*seen)


def test_draws_where_the_cart_is_and_how_the_pole_leans():
    batch = Gymnax("CartPole-v1")(num_envs=2, seed=0)
    batch.reset()
    for _ in range(7):
        batch.step(np.array([0, 1]))  # Pushed to the left, the pole leans to the right, and the other way round.
    left, right = batch.render()
    assert left.shape == right.shape and left.dtype == np.uint8

    def column(picture: np.ndarray, rows: slice) -> float:
        return np.flatnonzero(picture[rows].any(axis=(0, 2))).mean()

    tips, carts = slice(0, 20), slice(55, 60)
    assert column(left, tips) > column(right, tips) + 2 and column(left, carts) < column(right, carts) - 2


def test_draws_a_pendulum():
    state = Gymnax("Pendulum-v1").init(jax.random.PRNGKey(0))[0]
    thetas = np.array([0.0, np.pi / 2, np.pi])  # Up, to the left, down.
    env = jax.tree.map(lambda leaf: np.stack([leaf] * 3), state.game.env).replace(theta=thetas)
    pictures = Gymnax("Pendulum-v1").draw(state._replace(game=state.game._replace(env=env))).any(axis=-1)
    rows, columns = zip(*(np.argwhere(picture).mean(axis=0) for picture in pictures))
    middle = pictures.shape[1] / 2
    assert rows[0] < middle - 10 and rows[2] > middle + 10 and columns[1] < middle - 10


def test_draws_a_car_in_its_valley():
    batch = Gymnax("MountainCarContinuous-v0")(num_envs=2, seed=0)
    batch.reset()
    for _ in range(30):
        batch.step(np.array([[-1.0], [1.0]], np.float32))
    left, right = batch.render().any(axis=-1)
    assert left[:, : left.shape[1] // 2].sum() > right[:, : right.shape[1] // 2].sum()
    assert left.shape == (63, 87)


def test_draws_nothing_else():
    batch = Gymnax("Acrobot-v1")(num_envs=1, seed=0)
    batch.reset()
    assert batch.render() is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env": "CartPole"}, "env is 'CartPole', which gymnax does not know; did you mean 'CartPole-v1'"),
        ({"env": "Breakout-MinAtar"}, "env is 'Breakout-MinAtar'; allowed: envs.jax.minatar"),
        ({"env": "SimpleBandit-bsuite"}, "env is 'SimpleBandit-bsuite', whose steps fail: IndexError: "),
        ({"env": "CartPole-v1", "max_episode_steps": 0}, "max_episode_steps is 0; it must be at least 1, or None"),
        (
            {"env": "CartPole-v1", "params": {"gravitas": 1}},
            "params has 'gravitas', which is not a parameter of CartPole",
        ),
    ],
)
def test_refuses_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Gymnax(**settings)


def test_refuses_what_gymnax_cant_make(monkeypatch):
    def unreachable(name):
        raise OSError("no network")

    monkeypatch.setattr(gymnax, "make", unreachable)
    with pytest.raises(ValueError, match="env is 'MNISTBandit-bsuite', which can't be made: OSError: no network"):
        Gymnax("MNISTBandit-bsuite")
