"""Torsos that agents share: observations [N, ...] to features [N, D]. Haiku functions, to be called inside a transform.

Observations are uint8 images, scaled to [0, 1], or any numbers, taken as they are.
"""

from __future__ import annotations

from typing import Literal

import chex
import haiku as hk
import jax
import jax.numpy as jnp

Torso = Literal["shallow", "nature", "deep", "mlp"]

# (channels, kernel, stride) of each convolution, then the width of the layer on top.
CONVOLUTIONS = {
    # The A3C network. See "Asynchronous Methods for Deep Reinforcement Learning" (https://arxiv.org/abs/1602.01783),
    # section 8, and the left of Figure 3 in the IMPALA paper.
    "shallow": (((16, 8, 4), (32, 4, 2)), 256),
    # See "Human-level control through deep reinforcement learning" (https://doi.org/10.1038/nature14236), Methods.
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
}


def check_image(torso: Torso, shape: tuple[int, ...]) -> None:
    """Refuses an observation that a torso cannot take.

    Args:
      torso: its name.
      shape: of one frame, without batch and stack: [H, W] or [H, W, C] for every torso but "mlp".

    Raises:
      ValueError: the frame is no image, or is smaller than the convolutions' windows.
    """
    if torso == "mlp":
        return
    if len(shape) not in (2, 3):
        raise ValueError(f"network is {torso!r}, which takes images [H, W] or [H, W, C], but observations are {shape}")
    for channels, kernel, stride in CONVOLUTIONS[torso][0] if torso in CONVOLUTIONS else ():
        if min(shape[:2]) < kernel:
            raise ValueError(
                f"network is {torso!r}: its layer of {channels} channels has a window of {kernel}, but from this "
                f"observation only {shape[:2]} reach it; use 'deep' or 'mlp' for small images"
            )
        shape = tuple((size - kernel) // stride + 1 for size in shape[:2])


def apply_torso(torso: Torso, observation: jax.Array, mlp_width: int, mlp_layers: int) -> jax.Array:
    """Applies a torso.

    Args:
      torso: its name.
      observation: [N, ...]; images are [N, H, W, ...], whatever follows becomes channels.
      mlp_width: units in each layer of "mlp".
      mlp_layers: of "mlp".

    Returns:
      Features float32 [N, D].
    """
    scale = 1 / 255 if observation.dtype == jnp.uint8 else 1.0
    x = observation.astype(jnp.float32) * scale
    if torso == "mlp":
        return hk.nets.MLP([mlp_width] * mlp_layers, activate_final=True)(hk.Flatten()(x))
    x = x.reshape(*x.shape[:3], -1)  # [N, H, W, C]
    if torso == "deep":
        return _deep(x)
    convolutions, width = CONVOLUTIONS[torso]
    for i, (channels, kernel, stride) in enumerate(convolutions):
        x = jax.nn.relu(Convolution(channels, kernel, stride, input_gradient=i > 0)(x))
    return jax.nn.relu(hk.Linear(width)(hk.Flatten()(x)))


def _deep(x: jax.Array) -> jax.Array:
    """The residual network of 15 convolutions: [N, H, W, C] -> [N, 256].

    See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
    (https://arxiv.org/abs/1802.01561), Figure 3, right.
    """
    for channels in (16, 32, 32):
        x = hk.Conv2D(channels, 3)(x)
        x = hk.max_pool(x, (3, 3, 1), (2, 2, 1), "SAME")
        for _ in range(2):
            y = hk.Conv2D(channels, 3)(jax.nn.relu(x))
            x = x + hk.Conv2D(channels, 3)(jax.nn.relu(y))
    return jax.nn.relu(hk.Linear(256)(hk.Flatten()(jax.nn.relu(x))))


class Convolution(hk.Module):
    """A convolution without padding, computed in the way the backend is fast at; the parameters are `hk.Conv2D`'s."""

    def __init__(self, channels: int, kernel: int, stride: int, input_gradient: bool, name: str | None = None):
        """Sets the layer up.

        Args:
          channels: of the output.
          kernel: height and width of the window.
          stride: rows and columns between windows.
          input_gradient: whether anything below this layer learns; not so for the first layer.
          name: of the module.
        """
        super().__init__(name=name or "conv2_d")
        self._channels = channels
        self._kernel = kernel
        self._stride = stride
        self._input_gradient = input_gradient

    def __call__(self, x: jax.Array) -> jax.Array:
        """Convolves: float32 [N, H, W, C] -> [N, H', W', channels]."""
        chex.assert_rank(x, 4)
        kernel, channels = self._kernel, self._channels
        init = hk.initializers.TruncatedNormal(1.0 / (kernel * kernel * x.shape[-1]) ** 0.5)
        w = hk.get_parameter("w", (kernel, kernel, x.shape[-1], channels), x.dtype, init)
        b = hk.get_parameter("b", (channels,), x.dtype, jnp.zeros)
        # XLA on CPU differentiates a strided convolution by its input in a kernel that is slow and uses one core.
        # Without a stride it is four times as fast, and a whole Nature-network gradient 1.4 times.
        if self._input_gradient and jax.default_backend() == "cpu" and kernel % self._stride == 0:
            return convolve_unstrided(x, w, self._stride) + b
        return convolve(x, w, self._stride) + b


def convolve(x: jax.Array, w: jax.Array, stride: int) -> jax.Array:
    """Convolves x [N, H, W, C] with w [k, k, C, D], without padding: [N, H', W', D]."""
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "VALID", dimension_numbers=dimensions)


def convolve_unstrided(x: jax.Array, w: jax.Array, stride: int) -> jax.Array:
    """Computes `convolve` with blocks of stride x stride pixels moved into channels, so that no stride is left.

    Args:
      x: [N, H, W, C].
      w: [k, k, C, D]; the stride divides k.
      stride: s.

    Returns:
      [N, H', W', D].
    """
    k, s = w.shape[0], stride
    height, width = ((size - k) // s * s + k for size in x.shape[1:3])  # what the windows reach: multiples of s
    blocks = space_to_depth(x[:, :height, :width], s)  # [N, H/s, W/s, s*s*C]
    kernel = space_to_depth(w.transpose(3, 0, 1, 2), s).transpose(1, 2, 3, 0)  # [k/s, k/s, s*s*C, D]
    return convolve(blocks, kernel, 1)


def space_to_depth(x: jax.Array, block: int) -> jax.Array:
    """Moves blocks of pixels into channels: [N, H, W, C] -> [N, H/block, W/block, block*block*C]."""
    n, h, w, c = x.shape
    x = x.reshape(n, h // block, block, w // block, block, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(n, h // block, w // block, block * block * c)
