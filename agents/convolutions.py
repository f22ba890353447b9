"""Convolutions, computed in the way that the backend is fast at; haiku modules and plain functions."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import chex
import haiku as hk
import jax
import jax.numpy as jnp

BOARD = 1_024  # Numbers of an example up to which it is a board, not an image.
# Channels below which a product for each pixel of the window takes longer than one product over all of it; from there
# on the sum of products takes 0.67 to 0.94 times as long with JAX 0.6.2, 0.9 to 1.1 with 0.12.
NARROW = 16
_no_device = contextvars.ContextVar("_no_device", default=False)
_in_loop = contextvars.ContextVar("_in_loop", default=False)


def no_device() -> contextlib.AbstractContextManager[None]:
    """While shapes alone are wanted, no layer asks for the device: a launcher must not take it from its nodes."""
    return _is_set(_no_device)


def in_loop() -> contextlib.AbstractContextManager[None]:
    """While what is traced becomes the body of a loop, or of a branch: XLA on CPU is slow at convolutions there."""
    return _is_set(_in_loop)


@contextlib.contextmanager
def _is_set(variable: contextvars.ContextVar[bool]) -> Iterator[None]:
    token = variable.set(True)
    try:
        yield
    finally:
        variable.reset(token)


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
        if _on_cpu():
            # In a loop XLA on CPU takes 10 to 55 times as long for a convolution, and longer yet in a population. A
            # product takes twice the convolution's time out of loops; of a board so little that it is always computed.
            if x[0].size <= BOARD or _in_loop.get():
                return convolve_windows(x, w, self._stride) + b
            # It differentiates a strided convolution by its input in a kernel that is slow and uses one core. Without a
            # stride it is four times as fast, and a whole Nature-network gradient 1.4 times.
            if self._input_gradient and kernel % self._stride == 0:
                return convolve_unstrided(x, w, self._stride) + b
        return convolve(x, w, self._stride) + b


class PaddedConvolution(hk.Conv2D):
    """`hk.Conv2D` of a square window with padding "SAME", which XLA on CPU is fast at in a loop, too."""

    def __call__(self, x: jax.Array) -> jax.Array:  # type: ignore[override]
        """Convolves: float32 [N, H, W, C] -> [N, H / stride, W / stride, channels], rounded up."""
        if not (_in_loop.get() and _on_cpu()) or hk.running_init():
            return super().__call__(x)
        chex.assert_rank(x, 4)
        kernel, stride = self.kernel_shape, self.stride
        pads = jax.lax.padtype_to_pads(x.shape[1:3], kernel, stride, "SAME")
        w = hk.get_parameter("w", (*kernel, x.shape[-1], self.output_channels), x.dtype)
        y = convolve_windows(jnp.pad(x, [(0, 0), *pads, (0, 0)]), w, stride[0])
        return y + hk.get_parameter("b", (self.output_channels,), x.dtype) if self.with_bias else y


def _on_cpu() -> bool:
    return not _no_device.get() and jax.default_backend() == "cpu"


def convolve(x: jax.Array, w: jax.Array, stride: int) -> jax.Array:
    """Convolves x [N, H, W, C] with w [k, k, C, D], without padding: [N, H', W', D]."""
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "VALID", dimension_numbers=dimensions)


def convolve_windows(x: jax.Array, w: jax.Array, stride: int) -> jax.Array:
    """Computes `convolve` as matrix products over copies of all windows, which take k²/s² times the memory of x.

    Args:
      x: [N, H, W, C].
      w: [k, k, C, D].
      stride: s.

    Returns:
      [N, H', W', D].
    """
    if w.shape[0] % stride == 0:  # Windows of a few blocks are copied sooner than those of many pixels.
        x, w = in_blocks(x, w, stride)
        stride = 1
    k, _, channels, outputs = w.shape
    height, width = (size - k + 1 for size in x.shape[1:3])  # Of the corners that a window may have.
    windows = [x[:, i : i + height : stride, j : j + width : stride] for i in range(k) for j in range(k)]
    if channels < NARROW:
        return _product(jnp.concatenate(windows, axis=-1), w.reshape(-1, outputs))
    products = [_product(pixels, w[i // k, i % k]) for i, pixels in enumerate(windows)]
    return sum(products[1:], products[0])


def _product(x: jax.Array, w: jax.Array) -> jax.Array:
    # Of two matrices: with more axes XLA on CPU takes up to three times as long.
    return (x.reshape(-1, x.shape[-1]) @ w).reshape(*x.shape[:-1], w.shape[-1])


def convolve_unstrided(x: jax.Array, w: jax.Array, stride: int) -> jax.Array:
    """Computes `convolve` with blocks of stride x stride pixels moved into channels, so that no stride is left.

    Args:
      x: [N, H, W, C].
      w: [k, k, C, D]; the stride divides k.
      stride: s.

    Returns:
      [N, H', W', D].
    """
    return convolve(*in_blocks(x, w, stride), 1)


def in_blocks(x: jax.Array, w: jax.Array, stride: int) -> tuple[jax.Array, jax.Array]:
    """Moves blocks of stride x stride pixels of an image, and of windows, into channels, so that no stride is left.

    Args:
      x: [N, H, W, C].
      w: [k, k, C, D]; the stride divides k.
      stride: s.

    Returns:
      Those parts of the image that windows cover, [N, H/s, W/s, s*s*C], and the windows [k/s, k/s, s*s*C, D].
    """
    if stride == 1:
        return x, w
    k, s = w.shape[0], stride
    height, width = ((size - k) // s * s + k for size in x.shape[1:3])
    return space_to_depth(x[:, :height, :width], s), space_to_depth(w.transpose(3, 0, 1, 2), s).transpose(1, 2, 3, 0)


def space_to_depth(x: jax.Array, block: int) -> jax.Array:
    """Moves blocks of pixels into channels: [N, H, W, C] -> [N, H/block, W/block, block*block*C]."""
    n, h, w, c = x.shape
    x = x.reshape(n, h // block, block, w // block, block, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(n, h // block, w // block, block * block * c)
