"""Encoders that agents share: observations [N, ...] to features [N, D]. Haiku functions, called inside a transform.

Images of uint8 are scaled to [0, 1], and actions of a discrete space become one-hot; other numbers are taken as they
are. An observation that is a dict, a tuple or a named tuple has one encoder for each leaf.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import chex
import haiku as hk
import jax
import jax.numpy as jnp
from dm_env import specs
from jax.tree_util import tree_leaves_with_path

from boonta.agents.base import Nest
from boonta.agents.convolutions import Convolution, PaddedConvolution
from boonta.agents.groups import Torso


def check_observation(torso: Torso, observation: Nest) -> None:
    """Refuses an observation that `encode` cannot take.

    Args:
      torso: its settings.
      observation: nest of specs of one frame.

    Raises:
      ValueError: a leaf is no array of numbers; or no leaf is an image, but the torso needs one; or an image is
        smaller than the convolutions' windows.
    """
    leaves = {f"observations{jax.tree_util.keystr(path)}": leaf for path, leaf in tree_leaves_with_path(observation)}
    for leaf in leaves.values():
        if not isinstance(leaf, specs.Array) or isinstance(leaf, specs.StringArray):
            raise ValueError(f"an encoder takes arrays of numbers, but observations have a leaf {leaf}")
    images = {name: leaf.shape for name, leaf in leaves.items() if is_image(leaf.shape)}
    for name, shape in images.items():
        check_image(torso, shape, name)
    if not images:
        for name, leaf in leaves.items():  # A torso that needs an image refuses the first one.
            check_image(torso, leaf.shape, name)


def check_image(torso: Torso, shape: tuple[int, ...], name: str = "observations") -> None:
    """Refuses an array that a torso cannot take.

    Args:
      torso: its settings.
      shape: shape of one frame, without batch and stack: [H, W] or [H, W, C] for every torso but "mlp".
      name: the array's name, for the message.

    Raises:
      ValueError: the frame is no image, or is smaller than the convolutions' windows.
    """
    if torso.kind == "mlp":
        return
    if not is_image(shape):
        raise ValueError(
            f"torso.kind is {torso.kind!r}, which takes images [H, W] or [H, W, C], but {name} are {shape}; take "
            "planes, or the 'mlp'"
        )
    own = torso.resolved
    for channels, kernel, stride in zip(own.channels or (), own.kernels or (), own.strides or ()):
        if min(shape[:2]) < kernel:
            raise ValueError(
                f"torso.kind is {torso.kind!r}: its layer of {channels} channels has a window of {kernel}, but from "
                f"{name} only {shape[:2]} reach it; use 'minatar', 'deep' or 'mlp' for small images"
            )
        shape = tuple((size - kernel) // stride + 1 for size in shape[:2])


def encode(torso: Torso, observation: Nest, spec: Nest, name: str) -> jax.Array:
    """Encodes each leaf by a network of its own, and concatenates their features in the order of `jax.tree.leaves`.

    Where there are several leaves, those that are no images have dense layers of the torso's widths.

    Args:
      torso: its settings.
      observation: nest [N, ..., L] of stacked frames.
      spec: nest of specs of one frame, without batch and stack.
      name: the encoder's name; it shares no layers with other encoders of the network.

    Returns:
      Features float32 [N, D].

    Raises:
      ValueError: the observation has other leaves than the spec; the message names those of both.
    """
    _require_same_leaves(observation, spec)
    leaves, kinds = jax.tree.leaves(observation), jax.tree.leaves(spec)
    widths = torso.resolved.widths  # Those of the kind, not of a perceptron's own.
    flat = dataclasses.replace(torso, kind="mlp", widths=widths, channels=None, kernels=None, strides=None)
    features = []
    for i, (x, kind) in enumerate(zip(leaves, kinds, strict=True)):
        chex.assert_rank(x, len(kind.shape) + 2)
        x = one_hot(x, kind)
        own = flat if len(leaves) > 1 and not is_image(kind.shape) else torso
        features.append(encode_array(own, x, name if len(leaves) == 1 else f"{name}_leaf_{i}"))
    return features[0] if len(features) == 1 else jnp.concatenate(features, axis=-1)


def _require_same_leaves(observation: Nest, spec: Nest) -> None:
    """Refuses an observation whose leaves aren't at the places of the spec's; a dict may be of any kind."""
    places = [[jax.tree_util.keystr(path) for path, _ in tree_leaves_with_path(nest)] for nest in (observation, spec)]
    found, wanted = (", ".join(names) if any(names) else "one array" for names in places)
    if found != wanted:
        raise ValueError(
            f"an encoder is given an observation of {found}, but a spec of {wanted}; both must be of the same nest, as "
            "`agents.views.view_of` gives the view of a BoardView and of its spec"
        )


def one_hot(x: jax.Array, kind: specs.Array) -> jax.Array:
    """An array [N, ..., L] of a discrete space as one-hot vectors, [N, ..., L, n]; any other array as it is."""
    return jax.nn.one_hot(x, kind.num_values) if isinstance(kind, specs.DiscreteArray) else x


def encode_array(torso: Torso, x: jax.Array, name: str) -> jax.Array:
    """Encodes one array.

    Args:
      torso: its settings.
      x: [N, ...]; images are [N, H, W, ...], whose other axes become channels.
      name: the encoder's name.

    Returns:
      Features float32 [N, D].
    """
    own, x = torso.resolved, to_float(x)
    channels = own.channels or ()
    if own.kind == "mlp":
        return dense(own, hk.Flatten()(x), f"{name}_dense")
    x = x.reshape(*x.shape[:3], -1)  # [N, H, W, C]
    if own.kind == "deep":
        x = jax.nn.relu(stages(x, channels, own.blocks or 0))
    elif own.kind == "tower":
        x = tower(x, channels[0], own.blocks or 0, own.halvings, f"{name}_tower")
    else:
        for i, (width, kernel, stride) in enumerate(zip(channels, own.kernels or (), own.strides or ())):
            x = jax.nn.relu(Convolution(width, kernel, stride, input_gradient=i > 0)(x))
    return dense(own, hk.Flatten()(x), f"{name}_dense")


def dense(torso: Torso, x: jax.Array, name: str) -> jax.Array:
    """A torso's dense layers: [N, D] -> [N, last width]."""
    activation = {"relu": jax.nn.relu, "tanh": jnp.tanh}[torso.activation]
    init = weights(torso, math.sqrt(2))
    return perceptron(x, torso.resolved.widths or (), name, torso.normalise, activation, init)


def weights(torso: Torso, scale: float) -> hk.initializers.Initializer | None:
    """The initial weights of a torso's layers, or of a head's above it: orthogonal ones, scaled, or None, the usual."""
    return hk.initializers.Orthogonal(scale) if torso.orthogonal else None


def perceptron(
    x: jax.Array,
    widths: Sequence[int],
    name: str,
    normalised: bool,
    activation: Callable[[jax.Array], jax.Array] = jax.nn.relu,
    w_init: hk.initializers.Initializer | None = None,
) -> jax.Array:
    """Dense layers with an activation after each: [N, D] -> [N, last width].

    Args:
      x: [N, D].
      widths: units of each layer; without any, the result is x.
      name: prefix of the layers' names.
      normalised: whether each layer is normalised over its own example before its activation.
      activation: a rectifier, or another function.
      w_init: makes the layers' initial weights; None is haiku's own.
    """
    for i, width in enumerate(widths):
        x = hk.Linear(width, w_init=w_init, name=f"{name}_{i}")(x)
        x = activation(normalise(x, f"{name}_{i}") if normalised else x)
    return x


def stages(x: jax.Array, channels: Sequence[int], blocks: int) -> jax.Array:
    """Stages of a convolution, a pool that halves rows and columns, and residual blocks, none of them normalised.

    See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
    (https://arxiv.org/abs/1802.01561), Figure 3, right.

    Args:
      x: float32 [N, H, W, C].
      channels: channels of each stage.
      blocks: residual blocks in a stage.
    """
    for width in channels:
        x = PaddedConvolution(width, 3, name="conv2_d")(x)
        x = hk.max_pool(x, (3, 3, 1), (2, 2, 1), "SAME")
        for _ in range(blocks):
            y = PaddedConvolution(width, 3, name="conv2_d")(jax.nn.relu(x))
            x = x + PaddedConvolution(width, 3, name="conv2_d")(jax.nn.relu(y))
    return x


def tower(x: jax.Array, channels: int, blocks: int, halvings: int, name: str) -> jax.Array:
    """A tower of normalised residual blocks, as MooZi's: float32 [N, H, W, C] -> [N, H', W', channels].

    Args:
      x: float32 [N, H, W, C].
      channels: channels of each layer.
      blocks: residual blocks after the halvings.
      halvings: how often rows and columns are halved first, by a convolution and a residual block.
      name: prefix of the layers' names.
    """
    for i in range(halvings):
        x = residual(convolution(x, channels, f"{name}_halving_{i}", stride=2), f"{name}_halved_{i}")
    x = convolution(x, channels, f"{name}_in")
    for i in range(blocks):
        x = residual(x, f"{name}_{i}")
    return convolution(x, channels, f"{name}_out")


def convolution(x: jax.Array, channels: int, name: str, stride: int = 1) -> jax.Array:
    """A normalised convolution of windows of 3 x 3 with a rectifier: [N, H, W, C] -> [N, H', W', channels]."""
    chex.assert_rank(x, 4)
    return jax.nn.relu(normalise(PaddedConvolution(channels, 3, stride, with_bias=False, name=name)(x), name))


def residual(x: jax.Array, name: str) -> jax.Array:
    """A residual block. See "Deep Residual Learning" (https://arxiv.org/abs/1512.03385), Figure 2."""
    y = convolution(x, x.shape[-1], f"{name}_a")
    y = normalise(PaddedConvolution(x.shape[-1], 3, with_bias=False, name=f"{name}_b")(y), f"{name}_b")
    return jax.nn.relu(x + y)


def normalise(x: jax.Array, name: str) -> jax.Array:
    """Normalises over all of one example, with a scale and an offset for each channel.

    The output for an example then depends neither on the batch nor on how many devices hold it.
    """
    axes = tuple(range(1, x.ndim))
    return hk.LayerNorm(axes, create_scale=True, create_offset=True, param_axis=-1, name=f"{name}_norm")(x)


def to_float(x: jax.Array) -> jax.Array:
    """Numbers as float32; uint8, which only images have, scaled to [0, 1]."""
    return x.astype(jnp.float32) * (1 / 255 if x.dtype == jnp.uint8 else 1.0)


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether a frame of this shape may be an image or a board: [H, W] or [H, W, C]."""
    return len(shape) in (2, 3)
