import dataclasses
import pickle
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.envs import base
from boonta.envs.jax.base import Game, draw_bits
from boonta.envs.jax.catch import Catch


class Dice(NamedTuple):
    count: jax.Array
    eyes: jax.Array


@dataclasses.dataclass(frozen=True)
class Rolls(Game):
    """Shows a die, rolled at the start and at each step; ends after 3 steps by truncation, or by action 1."""

    spec = base.EnvSpec(specs.Array((), np.float32, "eyes"), specs.DiscreteArray(2, np.int32, "action"))

    def reset(self, key):
        return Dice(jnp.int32(0), draw_bits(key, 1)[0])

    def move(self, key, state, action):
        count = state.count + 1
        return Dice(count, draw_bits(key, 1)[0]), 5, action == 1, count == 3

    def observe(self, state):
        return (state.eyes % 1000).astype(jnp.float32)


def stream(env, actions, key=0):
    """All steps of one slot, [T, ...]."""
    state, first = env.init(jax.random.PRNGKey(key))
    _, rest = jax.lax.scan(env.step, state, jnp.array(actions, jnp.int32))
    return jax.tree.map(lambda a, b: np.concatenate([a[None], b]), first, rest)


def test_the_stream_of_a_game():
    steps = stream(Rolls(), [0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0])
    first, mid, last = base.FIRST, base.MID, base.LAST
    # The third action comes on LAST, as do the seventh and the last: they are ignored.
    assert steps.step_type.tolist() == [first, mid, last, first, mid, mid, last, first, mid, mid, last, first]
    assert steps.reward.tolist() == [0, 5, 5, 0, 5, 5, 5, 0, 5, 5, 5, 0]
    assert steps.discount.tolist() == [1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1]  # The last end was also a time-out.
    assert [leaf.dtype for leaf in steps] == [np.int32, np.float32, np.float32, np.float32]


def test_every_step_draws_anew_and_every_key_another_stream():
    eyes = [stream(Rolls(), [0] * 300, key).observation for key in (0, 1)]
    assert len(np.unique(eyes[0])) > 230  # There are 1,000 faces and 301 rolls.
    assert (eyes[0] == eyes[1]).mean() < 0.02


def test_a_stream_takes_keys_of_the_new_type():
    state, first = Rolls().init(jax.random.key(0))
    _, rest = jax.lax.scan(Rolls().step, state, jnp.zeros(5, jnp.int32))
    np.testing.assert_array_equal(stream(Rolls(), [0] * 5).observation, [first.observation, *rest.observation])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_drawn_bits_are_even_and_independent(count):
    keys = jax.random.split(jax.random.PRNGKey(0), 4000)
    bits = np.asarray(jax.vmap(lambda key: draw_bits(key, count))(keys))
    assert bits.shape == (4000, count) and bits.dtype == np.uint32
    ones = np.unpackbits(bits.view(np.uint8), axis=1)  # [4000, 32 count]
    assert abs(ones.mean(axis=0) - 0.5).max() < 0.05
    together = np.corrcoef(ones.T) - np.eye(32 * count)
    assert abs(together).max() < 0.08


def test_a_batch_begins_anew_when_reset():
    batch = Rolls()(num_envs=50, seed=0)
    one = batch.step(np.zeros(50, int))  # A step before any reset is a reset.
    batch.step(np.ones(50, int))
    two = batch.reset()
    assert (one.step_type == base.FIRST).all() and (two.step_type == base.FIRST).all()
    assert len(np.unique(one.observation)) > 40 and (one.observation == two.observation).mean() < 0.1
    again = Rolls()(num_envs=50, seed=0)
    np.testing.assert_array_equal(again.reset().observation, one.observation)
    np.testing.assert_array_equal(again.reset().observation, two.observation)


def test_batches_and_copies_share_a_compilation():
    traced = []

    class Watched(Catch):
        def move(self, key, state, action):
            traced.append(True)
            return super().move(key, state, action)

    for env in (Watched(), Watched(), Watched(rows=10)):
        batch = env(num_envs=2, seed=1)
        batch.reset()
        batch.step(np.ones(2, np.int64))  # Both int32 and int64 are accepted.
        batch.step(np.ones(2, np.int32))
    assert len(traced) == 1


def test_goes_to_another_process_and_back():
    env = pickle.loads(pickle.dumps(Catch(rows=4, columns=3)))
    assert env == Catch(rows=4, columns=3) and env.spec == Catch(4, 3).spec


def test_refuses_actions_that_no_slot_could_take():
    batch = Catch()(num_envs=2, seed=0)
    batch.reset()
    with pytest.raises(ValueError, match="action of slot 1 is 3; allowed: 0 to 2"):
        batch.step(np.array([0, 3]))


def test_renders_nothing_where_the_observation_is_the_picture():
    batch = Catch()(num_envs=2, seed=0)
    assert batch.render() is None
    batch.reset()
    assert batch.render() is None
