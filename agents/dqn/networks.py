"""The network of action values: a torso, and a head that may duel, be noisy, and output distributions.

Glossary of shapes: N rows, A actions, Z numbers for each action (bins or quantiles; 1 for a plain value), D features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents import networks
from boonta.agents.base import Nest
from boonta.agents.dqn.config import Config
from boonta.agents.heads import dueling

COSINES = 64  # Size of the embedding of a fraction tau, as in IQN.


class Outputs(NamedTuple):
    """What the network says of N states.

    Attributes:
      values: float32 [N, A, Z]: values, logits of a categorical distribution, or quantiles.
      tau: float32 [N, Z], the fractions of the distribution that quantiles are for; any where there are none.
    """

    values: jax.Array
    tau: jax.Array


class Network(NamedTuple):
    """Pure functions.

    Attributes:
      init: `(key) -> params`, a nest of float32.
      apply: `(params, key, stack) -> outputs`, for a nest of frames [N, ..., L]. The key draws noise and fractions;
        with None there is no noise, and fractions are spread evenly.
    """

    init: Callable[[jax.Array], Nest]
    apply: Callable[[Nest, jax.Array | None, Nest], Outputs]


def make_network(config: Config, view: Nest, num_actions: int, torso: networks.MakeTorso | None = None) -> Network:
    """Makes the network; computes nothing yet.

    Args:
      config: hyper-parameters.
      view: nest of specs of one frame.
      num_actions: A.
      torso: makes the torso in place of the config's; its features are [N, D].

    Raises:
      ValueError: the torso can't take such frames, or its features don't fit.
    """
    make_torso = networks.torso_for(config.torso, torso, "dqn.Network", view, config.frame_stack)
    implicit = config.distribution == "implicit"
    numbers = 1 if implicit else config.numbers  # For each fraction that goes in, one comes out.

    def layer(x: jax.Array, size: int, name: str, b_init: hk.initializers.Initializer | None = None) -> jax.Array:
        if config.noisy:
            return NoisyLinear(size, config.noisy, name, b_init)(x)
        return hk.Linear(size, b_init=b_init, name=name)(x)

    def stream(x: jax.Array, size: int, name: str) -> jax.Array:
        """Features [..., D] to [..., size, Z]."""
        if config.head_width:
            x = jax.nn.relu(layer(x, config.head_width, f"{name}_hidden"))
        narrow = config.narrow_start and config.distribution == "categorical" and name != "advantage"
        b_init = hk.initializers.Constant(np.tile(narrow_logits(numbers), size)) if narrow else None
        return layer(x, size * numbers, name, b_init).reshape(*x.shape[:-1], size, numbers)

    def forward(stack: Nest) -> Outputs:
        x = make_torso(name="torso")(stack)  # [N, D]
        tau = fractions(len(x), config.numbers, hk.maybe_next_rng_key() if implicit else None)
        if implicit:
            x = x[:, None] * embed(tau, x.shape[-1])  # [N, K, D]
        values = stream(x, num_actions, "advantage" if config.dueling else "value")
        if config.dueling:
            values = dueling(values, stream(x, 1, "state_value"))
        if implicit:
            values = jnp.swapaxes(values[..., 0], 1, 2)  # [N, K, A, 1] -> [N, A, K]
        return Outputs(values, tau)

    transformed = hk.transform(forward)

    def init(key: jax.Array) -> Nest:
        example = networks.frames(view, config.frame_stack, 1)
        return transformed.init(key, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), example))

    return Network(init, transformed.apply)


def narrow_logits(bins: int) -> np.ndarray:
    """Logits [Z] of a distribution around the value 0: from the middle bin on, each has 1/e of the one before.

    C51's distributions begin nearly even, which says that any return is as likely. Where episodes have no ends, only
    the discount narrows such targets, by discount**N with each copy of the target network, and until then actions'
    values differ by less than the errors of their means.
    """
    return -np.abs(np.arange(bins) - (bins - 1) / 2).astype(np.float32)


def fractions(rows: int, number: int, key: jax.Array | None) -> jax.Array:
    """Fractions tau [N, K]: the middles of K equal parts of [0, 1], or drawn with a key."""
    if key is not None:
        return jax.random.uniform(key, (rows, number))
    return jnp.broadcast_to((jnp.arange(number) + 0.5) / number, (rows, number))


def embed(tau: jax.Array, size: int) -> jax.Array:
    """Embeds fractions [N, K] as features [N, K, size]; a haiku function.

    See "Implicit Quantile Networks for Distributional Reinforcement Learning" (https://arxiv.org/abs/1806.06923),
    Eq. 4.
    """
    cosines = jnp.cos(jnp.pi * jnp.arange(COSINES) * tau[..., None])
    return jax.nn.relu(hk.Linear(size, name="tau")(cosines))


class NoisyLinear(hk.Module):
    """A dense layer whose weights have learned Gaussian noise, drawn for each row; without a key there is none.

    See "Noisy Networks for Exploration" (https://arxiv.org/abs/1706.10295), section 3, Eq. 10 and 11. As noise is
    factorised into inputs and outputs, no row needs a weight matrix of its own:
    x (W + S * f(e) f(e')^T) = x W + ((x * f(e)) S) * f(e').
    """

    def __init__(self, size: int, sigma: float, name: str, b_init: hk.initializers.Initializer | None = None):
        """Sets the layer up.

        Args:
          size: units.
          sigma: the noise at the start, times the root of the number of inputs.
          name: the module's name.
          b_init: biases at the start; None draws them as the paper does.
        """
        super().__init__(name=name)
        self._size = size
        self._sigma = sigma
        self._b_init = b_init

    def __call__(self, x: jax.Array) -> jax.Array:
        """Features [N, ..., D] to [N, ..., size]."""
        inputs, size = x.shape[-1], self._size
        bound = inputs**-0.5
        uniform = hk.initializers.RandomUniform(-bound, bound)
        constant = hk.initializers.Constant(self._sigma * bound)
        w = hk.get_parameter("w", (inputs, size), init=uniform)
        b = hk.get_parameter("b", (size,), init=self._b_init or uniform)
        noisy_w = hk.get_parameter("noisy_w", (inputs, size), init=constant)
        noisy_b = hk.get_parameter("noisy_b", (size,), init=constant)
        key = hk.maybe_next_rng_key()
        if key is None:
            return x @ w + b
        rows = (len(x), *(1,) * (x.ndim - 2))  # Fractions of one state share its noise.
        noise_in, noise_out = (
            jnp.sign(noise) * jnp.sqrt(jnp.abs(noise))
            for noise in (
                jax.random.normal(each, (*rows, units)) for each, units in zip(jax.random.split(key), (inputs, size))
            )
        )
        return x @ w + b + (((x * noise_in) @ noisy_w) + noisy_b) * noise_out
