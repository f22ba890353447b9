"""Convolutions without padding, computed in the way that the backend is fast at; haiku modules and plain functions."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import chex
import haiku as hk
import jax
import jax.numpy as jnp

BOARD = 1_024  # Numbers of an example up to which it is a board, not an image.
_no_device = contextvars.ContextVar("_no_device", default=False)


@contextlib.contextmanager
def no_device() -> Iterator[None]:
    """While shapes alone are wanted, no layer asks for the device: a launcher must not take it from its nodes."""
    token = _no_device.set(True)
    try:
        yield
    finally:
        _no_device.reset(token)


class Convolution(hk.Module):
    """A convolution without padding, computed in the way the backend is fast at; the parameters are `hk.Conv2D`'s."""

    def __init__(self, channels: int, kernel: int, stride: int, input_gradient: bool):
        """Sets the layer up.

        Args:
          channels: channels of the output.
          kernel: height and width of the window.
          stride: rows and columns between windows.
          input_gradient: whether anything below this layer learns; not so for the first layer.
        """
        super().__init__(name="conv2_d")
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
        if not _no_device.get() and jax.default_backend() == "cpu":
            # In a loop XLA on CPU takes 10 to 40 times as long for a convolution, and longer yet in a population.
            if x[0].size <= BOARD:
                return convolve_board(x, w, self._stride) + b
            # It differentiates a strided convolution by its input in a kernel that is slow and uses one core. Without a
            # stride it is four times as fast, and a whole Nature-network gradient 1.4 times.
            if self._input_gradient and kernel % self._stride == 0:
                return convolve_unstrided(x, w, self._stride) + b
        return convolve(x, w, self._stride) + b


def convolve(x: jax.Array, w: jax.Array, stride: int) -> jax.Array:
    """Convolves x [N, H, W, C] with w [k, k, C, D], without padding: [N, H', W', D]."""
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "VALID", dimension_numbers=dimensions)


def convolve_board(x: jax.Array, w: jax.Array, stride: int) -> jax.Array:
    """Computes `convolve` as one matrix product over copies of all windows, which a small board has room for.

    Args:
      x: [N, H, W, C].
      w: [k, k, C, D].
      stride: s.

    Returns:
      [N, H', W', D].
    """
    k = w.shape[0]
    height, width = (size - k + 1 for size in x.shape[1:3])  # Of the corners that a window may have.
    windows = [x[:, i : i + height : stride, j : j + width : stride] for i in range(k) for j in range(k)]
    return jnp.einsum("nhwpc,pcd->nhwd", jnp.stack(windows, axis=3), w.reshape(k * k, *w.shape[2:]))


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
    height, width = ((size - k) // s * s + k for size in x.shape[1:3])  # The part that windows cover: multiples of s.
    blocks = space_to_depth(x[:, :height, :width], s)  # [N, H/s, W/s, s*s*C]
    kernel = space_to_depth(w.transpose(3, 0, 1, 2), s).transpose(1, 2, 3, 0)  # [k/s, k/s, s*s*C, D]
    return convolve(blocks, kernel, 1)


def space_to_depth(x: jax.Array, block: int) -> jax.Array:
    """Moves blocks of pixels into channels: [N, H, W, C] -> [N, H/block, W/block, block*block*C]."""
    n, h, w, c = x.shape
    x = x.reshape(n, h // block, block, w // block, block, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(n, h // block, w // block, block * block * c)
