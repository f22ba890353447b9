"""Pictures of boards whose channels each mark one kind of thing."""

from __future__ import annotations

import numpy as np

_CELL = 12  # pixels


def palette(count: int) -> np.ndarray:
    """Colours between black and white that also differ in brightness: float [count, 3] in [0, 1].

    See "A colour scheme for the display of astronomical intensity images" (https://arxiv.org/abs/1108.5083).
    """
    import matplotlib  # a second that only those wait who draw

    return matplotlib.colormaps["cubehelix"](np.linspace(0, 1, count + 2)[1:-1])[:, :3]


def marks(boards: np.ndarray) -> np.ndarray:
    """Draws boards [B, H, W, C], 0 or 1: the last channel that marks a cell gives its colour; uint8 [B, H, W, 3]."""
    channels = boards.shape[-1]
    colours = np.concatenate([np.zeros((1, 3)), palette(channels)])
    last = (boards * np.arange(1, channels + 1)).max(axis=-1).astype(int)
    return (255 * colours[last]).astype(np.uint8)


def mixed(planes: np.ndarray) -> np.ndarray:
    """Draws planes [B, H, W, C], at least 0: a cell in the mean colour of its planes; uint8 [B, H * 12, W * 12, 3]."""
    amounts = np.log1p(planes.clip(min=0))  # numbers of all sizes can then be told apart
    scale = np.maximum(amounts.sum(axis=-1, keepdims=True), amounts.max() + 1e-9)
    cells = amounts @ palette(planes.shape[-1]) / scale  # [B, H, W, 3]
    picture = np.repeat(np.repeat(255 * cells.clip(0, 1), _CELL, axis=1), _CELL, axis=2).astype(np.uint8)
    picture[:, ::_CELL] = picture[:, :, ::_CELL] = 0
    return picture
