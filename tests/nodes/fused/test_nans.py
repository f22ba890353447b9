"""What environments show as NaN in a fused program: it is counted, and the first is named by its place."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents.base import Policy
from boonta.envs.base import EnvSpec
from boonta.envs.jax.base import Game
from boonta.envs.jax.catch import Catch
from boonta.nodes.fused import fusion, nans, stage
from boonta.tests.helpers.fused import agent

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
KEY = jax.random.PRNGKey(3)
B = 4


@dataclasses.dataclass(frozen=True)
class Marked(Game):
    """A counter of steps without an end; it shows as NaN what it is told to, and what it makes of a NaN."""

    at: float = -1.0  # The step that it shows as NaN.
    spec = EnvSpec(
        specs.BoundedArray((2,), np.float32, 0.0, 1e6, "steps"), specs.BoundedArray((), np.float32, -1.0, 1.0)
    )

    def reset(self, key):
        return jnp.float32(0)

    def move(self, key, state, action):
        return state + 1, action, False, False

    def observe(self, state):
        return jnp.stack([state, jnp.where(state == self.at, jnp.nan, state)])


def acts(function) -> Policy:
    """A policy of `[steps so far of each slot] -> actions`."""
    return Policy(
        lambda slots: (), lambda params, key, timestep, state: (function(timestep.observation[:, 0]), {}, state)
    )


def played(env, policy, *rows: int) -> nans.Nans:
    """What is found in so many steps, one part after the other."""
    at = stage.begin(env, policy, B, KEY)
    found = nans.at_start(at.timestep)
    for number in rows:
        at, _, episodes = stage.act(env, policy, (), jnp.int32(0), at, number)
        found = nans.joined(found, episodes.nans)
    return jax.device_get(found)


@pytest.mark.parametrize("rows", [(8,), (2, 6), (3, 5), (1, 1, 1, 5), (0, 8)])
def test_the_first_is_found_however_the_steps_are_divided(rows):
    found = played(Marked(at=3.0), acts(jnp.zeros_like), *rows)
    assert found.times == {"observation": B, "reward": 0, "discount": 0}
    assert (found.steps, found.step, found.slot) == (8, 3, 0)
    assert played(Marked(), acts(jnp.zeros_like), *rows).times == {"observation": 0, "reward": 0, "discount": 0}


def test_one_before_the_first_step_is_found():
    found = played(Marked(at=0.0), acts(jnp.zeros_like), 2)
    assert found.times["observation"] == B and (found.step, found.slot) == (0, 0)


def test_what_a_policy_has_caused_is_not_the_environment_s():
    found = played(Marked(), acts(lambda steps: jnp.where(steps == 2, jnp.nan, 0.0)), 4, 4)
    assert not any(found.times.values())


class Slots(Catch):
    """Catch whose reward is NaN where the ball lands in the middle."""

    def move(self, key, state, action):
        state, reward, landed, cut = super().move(key, state, action)
        return state, jnp.where(landed & (state.ball == 1), jnp.nan, reward), landed, cut


@pytest.mark.parametrize("kind", ["queue", "replay"])
def test_fused_rounds_count_the_steps_of_all_of_their_parts(kind):
    made, env = agent(kind), Slots(rows=4, columns=3)
    fused = fusion.fuse(made, env, 16)
    state, begun = jax.jit(fused.init)(made.update.init(KEY), 0, KEY)
    state, outcome = jax.jit(fused.rounds)(state, 3)
    assert begun.nans.steps == fused.first_steps // 16
    assert outcome.episodes.nans.steps == 3 * fused.env_steps // 16
    keys = jax.random.split(jax.random.split(jax.random.split(KEY)[1])[1], 16)  # Those of the slots.
    balls = np.asarray(jax.vmap(env.init)(keys)[0].game.ball)
    found = jax.device_get(nans.joined(begun.nans, outcome.episodes.nans))
    assert found.times["reward"] > 1
    assert (found.step, found.slot) == (3, np.argmax(balls == 1))  # The first balls land together.


def test_the_message_has_the_member_the_leaves_and_the_place():
    found = nans.Nans(
        {"reward": np.array([0.0, 2.0, 0.0, 1.0]), "observation.joints": np.array([0.0, 1.0, 0.0, 0.0])},
        np.full(4, 20),
        np.array([0, 7, 0, 1]),
        np.array([0, 3, 0, 0]),
    )
    messages = nans.described(found, ["a", "member 1 (seed 5)", "c", "d"], 1_020, 12)
    assert list(messages) == ["member 1 (seed 5)", "d"] and messages["member 1 (seed 5)"] == (
        "member 1 (seed 5): the environment's observation.joints (1 times), reward (2 times) is NaN, after 12 updates, "
        "first in slot 3 at step 1,007"
    )
    alone = nans.described(jax.tree.map(lambda leaf: leaf[3], found), [""], 100, 12)
    assert alone == {"": "the environment's reward (1 times) is NaN, after 12 updates, first in slot 0 at step 81"}
    assert nans.described(jax.tree.map(lambda leaf: leaf[2], found), [""], 100, 12) == {}
