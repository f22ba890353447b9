"""The rules of `tests.helpers.guess` in JAX."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.envs.base import EnvSpec
from boonta.envs.jax.base import Game, draw_bits
from boonta.tests.helpers.guess import STEPS


class State(NamedTuple):
    bit: jax.Array
    steps: jax.Array
    right: jax.Array


@dataclasses.dataclass(frozen=True)
class Guess(Game):
    """Measures whether the last guess was right, and how many there were."""

    spec = EnvSpec(
        specs.BoundedArray((2,), np.float32, 0.0, 1.0, "bit"), specs.DiscreteArray(2, np.int32, "the bit that is shown")
    )

    def reset(self, key):
        return State((draw_bits(key, 1)[0] & 1).astype(jnp.int32), jnp.int32(0), jnp.bool_(False))

    def move(self, key, state, action):
        right, steps = action == state.bit, state.steps + 1
        last = steps == STEPS
        return State(state.bit, steps, right), jnp.where(last, jnp.where(right, 1.0, -1.0), 0.0), last, False

    def observe(self, state):
        return jax.nn.one_hot(state.bit, 2, dtype=jnp.float32)

    def measure(self, state):
        return {"is_success": state.right, "steps": state.steps}
