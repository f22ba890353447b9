"""Colours for boards whose channels each mark one kind of thing."""

from __future__ import annotations

import numpy as np


def palette(count: int) -> np.ndarray:
    """Colours between black and white that also differ in brightness: float [count, 3] in [0, 1].

    See "A colour scheme for the display of astronomical intensity images" (https://arxiv.org/abs/1108.5083).
    """
    import matplotlib  # a second that only those wait who draw

    return matplotlib.colormaps["cubehelix"](np.linspace(0, 1, count + 2)[1:-1])[:, :3]
