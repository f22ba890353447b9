"""Heads: a network's last layers, for actions and values.

An action head is a distribution over actions whose parameters the network outputs. An agent that uses only its
functions works with any action space that has a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.agents import distributions
from boonta.agents.distributions import ILLEGAL, Distribution
from boonta.agents.encoders import perceptron
from boonta.agents.groups import Gaussian
from boonta.agents.light_rlax import rlax
from boonta.agents.n_step import rescaled, unscaled
from boonta.agents.spaces import in_words

MOST_VALUES = 1024  # Values of one of several choices; a head has an output for each.
# Least and largest. SAC's authors have -20 and 2, but float32 holds no squashed Gaussian that is narrower than e^-5.
LOG_DEVIATIONS = (-5.0, 2.0)


class ActionHead(NamedTuple):
    """The distribution over actions that a network's outputs parametrise.

    Attributes:
      size: P, the number of parameters that the network outputs.
      layer: `(features [..., D], name, initial weights=None) -> parameters [..., P]`, the network's last layer; a haiku
        function. The weights are made by haiku's usual initialiser where None is given; real numbers have their own.
      distribution: `(parameters [..., P]) -> distributions [...]`. A loss makes one and takes all it needs from it, so
        that common parts, such as the normalised logits, are computed and differentiated once.
      encode: `(action [...]) -> float32 [..., F]`, the action as a network's input: one-hot, or scaled to [-1, 1].
      entropy_uniform: entropy of a policy to which all actions are equal, the most there can be; None where actions are
        real numbers.
    """

    size: int
    layer: Callable[..., jax.Array]
    distribution: Callable[[jax.Array], Distribution]
    encode: Callable[[jax.Array], jax.Array]
    entropy_uniform: float | None


class Box(NamedTuple):
    """Real-valued actions with bounds; only here are they scaled to [-1, 1] and back.

    Attributes:
      low, high: the bounds, float32 [*shape].
      size: D, the number of real numbers in an action.
    """

    low: np.ndarray
    high: np.ndarray

    @property
    def size(self) -> int:
        return self.low.size

    def scale(self, action: jax.Array) -> jax.Array:
        """An env's action [..., *shape] as numbers [..., D], in [-1, 1] where there are bounds."""
        centre, half = self._frame
        scaled = (action - centre) / half
        return scaled.reshape(*scaled.shape[: scaled.ndim - centre.ndim], self.size)

    def unscale(self, scaled: jax.Array) -> jax.Array:
        """Numbers [..., D] as an env's action [..., *shape]."""
        centre, half = self._frame
        return scaled.reshape(*scaled.shape[:-1], *centre.shape) * half + centre

    def clip(self, action: jax.Array) -> jax.Array:
        """Clips an env's action [..., *shape] to the bounds, as the env does."""
        return jnp.clip(action, self.low, self.high)

    @property
    def bounded(self) -> np.ndarray:
        """Whether each number has two bounds, bool [*shape]; float32 can't tell the widest from none."""
        with np.errstate(over="ignore"):
            return np.isfinite(self.high - self.low)

    @property
    def _frame(self) -> tuple[np.ndarray, np.ndarray]:
        """Centre and half of the range, float32 [*shape]; 0 and 1 where a bound is missing."""
        low, high = np.where(self.bounded, self.low, -1), np.where(self.bounded, self.high, 1)
        return ((high + low) / 2).astype(np.float32), ((high - low) / 2).astype(np.float32)


def make_action_head(actions: specs.Array, agent: str, gaussian: Gaussian = Gaussian()) -> ActionHead:  # noqa: B008
    """The head for a space of actions.

    Args:
      actions: spec of an action.
      agent: the agent's name, for the message.
      gaussian: the distribution where actions are real numbers.

    Raises:
      ValueError: there is no head for it.
    """
    if isinstance(actions, specs.DiscreteArray):
        return categorical(actions.num_values)
    if np.issubdtype(actions.dtype, np.integer):
        return _choices_head(actions, agent)
    return _real_head(real_actions(actions, agent, bounded=gaussian.squashed), gaussian)


def num_actions(actions: specs.Array, agent: str) -> int:
    """A, for agents that choose one of A actions.

    Raises:
      ValueError: actions are of another kind.
    """
    if not isinstance(actions, specs.DiscreteArray):
        raise ValueError(f"{agent} chooses among discrete actions; this environment takes {in_words(actions)}")
    return actions.num_values


def real_actions(actions: specs.Array, agent: str, bounded: bool = True) -> Box:
    """The box of actions, for agents whose actions are real numbers.

    Args:
      actions: spec of an action.
      agent: the agent's name, for the message.
      bounded: whether every number must have two bounds.

    Raises:
      ValueError: actions are of another kind, or a bound is missing.
    """
    if not np.issubdtype(actions.dtype, np.floating) or not math.prod(actions.shape):
        raise ValueError(f"{agent} takes actions of real numbers; this environment takes {in_words(actions)}")
    given = (actions.minimum, actions.maximum) if isinstance(actions, specs.BoundedArray) else (-np.inf, np.inf)
    with np.errstate(over="ignore"):  # A float64 bound beyond float32 becomes infinite.
        box = Box(*(np.broadcast_to(bound, actions.shape).astype(np.float32) for bound in given))
    if not (box.low < box.high).all():
        raise ValueError(f"{agent}: each action's minimum must be below its maximum; this environment takes {actions}")
    if bounded and not box.bounded.all():
        raise ValueError(
            f"{agent} squashes its actions into their bounds, and some have none: this environment takes {actions}; "
            "give it finite bounds"
        )
    return box


def categorical(num_actions: int) -> ActionHead:
    """A head whose parameters are a logit for each action; actions are int32."""
    return ActionHead(
        size=num_actions,
        layer=lambda x, name, w_init=None: hk.Linear(num_actions, w_init=w_init, name=name)(x),
        distribution=distributions.categorical,
        encode=lambda action: jax.nn.one_hot(action, num_actions),
        entropy_uniform=math.log(num_actions),
    )


def _choices_head(actions: specs.Array, agent: str) -> ActionHead:
    """A head for several choices at once, an array of integers: a logit for each value of each choice."""
    if not isinstance(actions, specs.BoundedArray):
        raise ValueError(f"{agent} needs bounds of integer actions; this environment takes {actions}")
    least = np.broadcast_to(actions.minimum, actions.shape).astype(np.int32)
    values = np.broadcast_to(actions.maximum, actions.shape).astype(np.int32) - least + 1
    if not values.size or not ((values > 0) & (values <= MOST_VALUES)).all():
        raise ValueError(
            f"{agent} chooses among at most {MOST_VALUES:,} values of each integer; this environment takes {actions}"
        )
    sizes = tuple(values.reshape(-1).tolist())

    def to_env(choice: jax.Array) -> jax.Array:
        return jnp.add(least, choice.reshape(*choice.shape[:-1], *actions.shape)).astype(actions.dtype)

    def from_env(action: jax.Array) -> jax.Array:
        return (action.astype(jnp.int32) - least).reshape(*action.shape[: action.ndim - least.ndim], len(sizes))

    def encode(action: jax.Array) -> jax.Array:
        choice = from_env(action)
        return jnp.concatenate([jax.nn.one_hot(choice[..., i], size) for i, size in enumerate(sizes)], axis=-1)

    return ActionHead(
        size=sum(sizes),
        layer=lambda x, name, w_init=None: hk.Linear(sum(sizes), w_init=w_init, name=name)(x),
        distribution=lambda logits: _mapped(distributions.multi_categorical(logits, sizes), to_env, from_env),
        encode=encode,
        entropy_uniform=sum(map(math.log, sizes)),
    )


def _real_head(box: Box, gaussian: Gaussian) -> ActionHead:
    """A head of Gaussians, whose parameters are their means, then the logs of their deviations."""

    def layer(x: jax.Array, name: str, w_init: hk.initializers.Initializer | None = None) -> jax.Array:
        del w_init
        # Actions start near the middle of their range, whatever the features are.
        small = hk.initializers.VarianceScaling(1e-4)
        if gaussian.deviation == "state":
            return hk.Linear(2 * box.size, name=name, w_init=small)(x)
        mean = hk.Linear(box.size, name=name, w_init=small)(x)
        log_deviation = hk.get_parameter(f"{name}_log_deviation", (box.size,), init=jnp.zeros)
        return jnp.concatenate([mean, jnp.broadcast_to(log_deviation, mean.shape)], axis=-1)

    def distribution(parameters: jax.Array) -> Distribution:
        mean, log_deviation = jnp.split(parameters, 2, axis=-1)
        deviation = jnp.exp(jnp.clip(log_deviation, *LOG_DEVIATIONS))
        if not gaussian.squashed:
            return _mapped(distributions.gaussian(mean, deviation), box.unscale, box.scale)
        inner = distributions.squashed_gaussian(mean, deviation)
        return _mapped(inner, lambda scaled: box.clip(box.unscale(scaled)), box.scale)  # Rounding may exceed a bound.

    return ActionHead(
        size=2 * box.size,
        layer=layer,
        distribution=distribution,
        encode=lambda action: box.scale(box.clip(action)),
        entropy_uniform=None,
    )


def _mapped(inner: Distribution, to_env: Callable, from_env: Callable) -> Distribution:
    """A distribution over an env's actions from one over what stands for them."""

    def sample_and_log_prob(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        action, log_prob = inner.sample_and_log_prob(key)
        return to_env(action), log_prob

    return Distribution(
        sample=lambda key: to_env(inner.sample(key)),
        mode=lambda: to_env(inner.mode()),
        log_prob=lambda action: inner.log_prob(from_env(action)),
        entropy=inner.entropy,
        sample_and_log_prob=sample_and_log_prob,
    )


def entropy_metrics(head: ActionHead, entropy: jax.Array) -> dict[str, jax.Array]:
    """The metrics of a policy's mean entropy: real numbers have another, of which no value means a collapse."""
    if head.entropy_uniform is None:
        return {"differential_entropy": entropy}
    return {"entropy": entropy, "entropy_uniform": jnp.float32(head.entropy_uniform)}


def mask_illegal(logits: jax.Array, legal: jax.Array) -> jax.Array:
    """Logits [..., A] with those of illegal actions replaced, so that only legal ones, bool [..., A], are taken."""
    return jnp.where(legal, logits, ILLEGAL)


def scalar_head(x: jax.Array, name: str, w_init: hk.initializers.Initializer | None = None) -> jax.Array:
    """Features [..., D] to one number each, float32 [...]; a haiku function."""
    return hk.Linear(1, w_init=w_init, name=name)(x)[..., 0]


def dense_head(x: jax.Array, outputs: int, width: int, name: str) -> jax.Array:
    """Features [B, D] to [B, outputs] with a normalised layer between; a haiku function.

    Its output starts at 0, so that the noise of initialisation doesn't affect the first searches and actions.
    """
    x = perceptron(x, [width], name, normalised=True)
    return hk.Linear(outputs, w_init=jnp.zeros, name=f"{name}_out")(x)


def dueling(advantage: jax.Array, value: jax.Array) -> jax.Array:
    """Action values of a state's value and its actions' advantages, from which their mean is taken.

    See "Dueling Network Architectures for Deep Reinforcement Learning" (https://arxiv.org/abs/1511.06581), Eq. 9.

    Args:
      advantage: float32 [..., A, Z].
      value: float32 [..., 1, Z].

    Returns:
      float32 [..., A, Z].
    """
    return value + advantage - jnp.mean(advantage, axis=-2, keepdims=True)


def make_support(limit: float, bins: int) -> rlax.TxPair:
    """Scalars [...] to categories [..., Z] and back: the invertible transform, then two-hot.

    See "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model" (https://arxiv.org/abs/1911.08265),
    Appendix F; the transform's first source is "Observe and Look Further" (https://arxiv.org/abs/1805.11593),
    Proposition A.2.

    Args:
      limit: largest scalar that the categories reach.
      bins: Z.
    """
    end = math.sqrt(limit + 1) - 1 + 1e-3 * limit  # The transform, computed without a device.
    return rlax.muzero_pair(-end, end, bins, rlax.TxPair(rescaled, unscaled))


def expectation(support: rlax.TxPair, logits: jax.Array) -> jax.Array:
    """The expected scalars [...] under logits [..., Z] over the support."""
    return support.apply_inv(jax.nn.softmax(logits))
