"""Exploration: actions that aren't the best ones known, by how long the run has acted and by slot."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents.base import Nest, Slots, Update
from boonta.agents.config import check, documented, field, require
from boonta.agents.heads import mask_illegal
from boonta.agents.views import legal_of


@documented
@dataclasses.dataclass(frozen=True)
class Exploration:
    """Random actions, see `epsilon_of`. Evaluation takes none.

    Sources: [DQN] https://doi.org/10.1038/nature14236, [X] Ape-X (https://arxiv.org/abs/1803.00933).
    """

    epsilon_start: float = field(
        1.0, "Share of random actions until learning starts.", source="[DQN], Table 1", at_least=0, at_most=1
    )
    epsilon: float = field(
        0.01,
        "Share of random actions in the end.",
        source="[DQN], Table 1, 0.1; Rainbow (https://arxiv.org/abs/1710.02298), Table 1, 0.01",
        at_least=0,
        at_most=1,
    )
    anneal_steps: int = field(
        40_000,
        "Time over which the share falls linearly once learning starts, in all slots together.",
        unit="env steps",
        source="[DQN], Table 1: 1M frames, 250,000 env steps; 40,000 is our own choice",
        at_least=1,
    )
    ladder: float = field(
        0.0,
        "alpha: slot i of the N of all actors has epsilon to the power of 1 + alpha i / (N - 1); with 0 all are alike. "
        "Slots of actors that join a running program lie between them, see `rungs`.",
        source="[X], section 4.1, 7, with epsilon 0.4",
        at_least=0,
    )

    def __post_init__(self) -> None:
        check(self)


def randomise(key: jax.Array, action: jax.Array, legal: jax.Array, share: float | jax.Array) -> jax.Array:
    """Replaces a share of actions by random ones.

    Args:
      key: PRNG key, consumed.
      action: int32 [B].
      legal: bool [B, A], the actions that random ones are drawn from.
      share: share in [0, 1], one for all slots or float32 [B].

    Returns:
      int32 [B].
    """
    choice_key, stray_key = jax.random.split(key)
    random = jax.random.categorical(choice_key, jnp.where(legal, 0.0, -jnp.inf)).astype(jnp.int32)
    return jnp.where(jax.random.bernoulli(stray_key, share, action.shape), random, action)


def epsilon_greedy(key: jax.Array, values: jax.Array, legal: jax.Array, epsilon: float | jax.Array) -> jax.Array:
    """The legal action of the highest value, or with probability epsilon any legal one.

    Args:
      key: PRNG key, consumed.
      values: float32 [B, A].
      legal: bool [B, A].
      epsilon: probability in [0, 1], one for all slots or float32 [B].

    Returns:
      int32 [B].
    """
    greedy = jnp.argmax(mask_illegal(values, legal), axis=-1).astype(jnp.int32)
    return randomise(key, greedy, legal, epsilon)


def rungs(slots: Slots) -> jax.Array:
    """The places of slots on the ladder of all slots, float32 [B]: 0 for the first, 1 for the last, 0 for all if alike.

    Slots beyond the last are those of actors that have joined a running program. They are spread over the ladder again,
    by van der Corput's sequence 1/2, 1/4, 3/4, 1/8, 5/8, …: however many there are, they are spread evenly, and the
    places of the others stay as they are.
    """
    if slots.alike:
        return jnp.zeros(slots.size)
    place = (slots.first + jnp.arange(slots.size, dtype=jnp.float32)) / max(slots.of_all - 1, 1)
    beyond = slots.first + np.arange(slots.size) - slots.of_all
    between = np.array([int(f"{max(i, 0) + 1:032b}"[::-1], 2) / 2**32 for i in beyond], np.float32)
    return jnp.where(beyond < 0, place, between)


def require_pace(config: Any) -> None:
    """Refuses an epsilon that falls where nothing says how many env steps an update stands for.

    Args:
      config: has the groups `exploration` and `replay`.

    Raises:
      ValueError: `replay.samples_per_insert` is None, and epsilon isn't constant.
    """
    steady = config.exploration.epsilon_start == config.exploration.epsilon
    allowed = "a number, by which epsilon falls with env steps, unless exploration.epsilon_start is epsilon"
    require(config, "replay.samples_per_insert", steady or config.replay.samples_per_insert is not None, allowed)


def epsilon_of(settings: Exploration, env_steps: jax.Array, rung: jax.Array) -> jax.Array:
    """An epsilon for each slot, from the largest to the smallest: epsilon ** (1 + alpha * rung).

    The base falls linearly with env steps, so that more updates for each don't shorten exploration. Ape-X's ladder is
    the exponent, see "Distributed Prioritized Experience Replay" (https://arxiv.org/abs/1803.00933), section 4.1.

    No actor knows how far the others are, or were before a restart. But all know the learner's updates, which come with
    the acting params, and the table's ratio says how many env steps an update stands for. That leaves out those by
    which actors are ahead of the learner: in a fused program those that fill the table to its `min_size`, as DQN's own
    code counts; elsewhere the rate limiter allows none to twice as many.

    Args:
      settings: the base and the ladder.
      env_steps: float32 [], the learner's updates times the table's `env_steps_per_update`.
      rung: float32 [B], as from `rungs`.

    Returns:
      float32 [B].
    """
    gone = jnp.minimum(env_steps / settings.anneal_steps, 1.0)
    base = settings.epsilon_start + (settings.epsilon - settings.epsilon_start) * gone
    return base ** (1 + settings.ladder * rung)


class Estimates(NamedTuple):
    """The values that a policy had when it chose an action, from which the errors of fresh sequences are made.

    Attributes:
      chosen: float32 [B], the value of the action that was taken, as the network outputs it.
      best: float32 [B], the highest value of a legal action, in units of the return.
    """

    chosen: jax.Array
    best: jax.Array


def choose(
    key: jax.Array,
    values: jax.Array,
    observation: Nest,
    settings: Exploration | None,
    env_steps: jax.Array,
    rung: jax.Array,
    raw: Callable[[jax.Array], jax.Array] = lambda value: value,
) -> tuple[jax.Array, Estimates]:
    """Chooses actions by their values.

    Args:
      key: PRNG key, consumed.
      values: float32 [B, A].
      observation: says which actions are legal, if not all are.
      settings: how much to explore; None takes the best.
      env_steps, rung: as for `epsilon_of`.
      raw: turns the network's values into returns.

    Returns:
      int32 [B], and its `Estimates`.
    """
    legal = legal_of(observation, values.shape)
    epsilon = 0.0 if settings is None else epsilon_of(settings, env_steps, rung)
    action = epsilon_greedy(key, values, legal, epsilon)
    chosen = jnp.take_along_axis(values, action[:, None], axis=-1)[:, 0]
    return action, Estimates(chosen, raw(jnp.max(mask_illegal(values, legal), axis=-1)))


class ActingParams(NamedTuple):
    """The params of a policy whose exploration depends on how much the run has learned.

    Attributes:
      params: params of the network.
      updates: int32 [], the learner's number of updates.
    """

    params: Nest
    updates: jax.Array


def with_updates(update: Update) -> Update:
    """An update of `agents.optimisation` whose acting params are `ActingParams`."""
    return update._replace(params=lambda state: ActingParams(update.params(state), state.updates))
