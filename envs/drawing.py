"""Pictures of boards in which each channel marks one kind of object."""

from __future__ import annotations

import numpy as np

_CELL = 12  # The side of a cell in pixels.


def palette(count: int) -> np.ndarray:
    """Returns colours between black and white that also differ in brightness: float [count, 3] in [0, 1].

    See "A colour scheme for the display of astronomical intensity images" (https://arxiv.org/abs/1108.5083).
    """
    import matplotlib  # The import takes a second, which only programs that draw should pay.

    return matplotlib.colormaps["cubehelix"](np.linspace(0, 1, count + 2)[1:-1])[:, :3]


def marks(boards: np.ndarray) -> np.ndarray:
    """Draws boards of 0 and 1, [B, H, W, C], as uint8 [B, H, W, 3]; the last channel that marks a cell colours it."""
    channels = boards.shape[-1]
    colours = np.concatenate([np.zeros((1, 3)), palette(channels)])
    last = (boards * np.arange(1, channels + 1)).max(axis=-1).astype(int)
    return (255 * colours[last]).astype(np.uint8)


def mixed(planes: np.ndarray) -> np.ndarray:
    """Draws planes [B, H, W, C] as uint8 [B, H * 12, W * 12, 3]; a cell has the mean colour of its planes."""
    amounts = np.log1p(planes.clip(min=0))  # The logarithm keeps small and large numbers apart.
    scale = np.maximum(amounts.sum(axis=-1, keepdims=True), amounts.max() + 1e-9)
    cells = amounts @ palette(planes.shape[-1]) / scale  # [B, H, W, 3]
    picture = np.repeat(np.repeat(255 * cells.clip(0, 1), _CELL, axis=1), _CELL, axis=2).astype(np.uint8)
    picture[:, ::_CELL] = picture[:, :, ::_CELL] = 0
    return picture
