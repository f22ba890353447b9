"""Pictures of environments whose observations aren't pictures: lines on a black background, drawn on the host.

Glossary of shapes: B batch, H height, W width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from boonta.envs import drawing

_PIXELS = 48  # Pixels per unit of length.


def cart_pole(state: Any) -> np.ndarray:
    """Draws the track, the cart and the pole of gymnax's states [B]: uint8 [B, H, W, 3]."""
    x, theta = np.asarray(state.x), np.asarray(state.theta)
    zero, high = np.zeros_like(x), np.full_like(x, 0.15)
    lines = [
        ((zero - 2.4, zero), (zero + 2.4, zero), 0.02),
        ((x - 0.2, zero + 0.05), (x + 0.2, zero + 0.05), 0.1),
        ((x, high), (x + np.sin(theta), high + np.cos(theta)), 0.04),
    ]
    return _draw(lines, left=-2.5, right=2.5, bottom=-0.2, top=1.3)


def pendulum(state: Any) -> np.ndarray:
    """Draws the pendulum of gymnax's states [B], upright where theta is 0: uint8 [B, H, W, 3]."""
    theta = np.asarray(state.theta)
    zero = np.zeros_like(theta)
    lines = [((zero, zero), (-np.sin(theta), np.cos(theta)), 0.08), ((zero, zero), (zero, zero), 0.06)]
    return _draw(lines, left=-1.2, right=1.2, bottom=-1.2, top=1.2)


def mountain_car(state: Any) -> np.ndarray:
    """Draws the valley, its goal and the car of gymnax's states [B]: uint8 [B, H, W, 3]."""
    x = np.asarray(state.position)
    zero = np.zeros_like(x)

    def height(at: np.ndarray) -> np.ndarray:
        return 0.45 * np.sin(3 * at) + 0.55

    ground = np.linspace(-1.2, 0.6, 37)
    lines = [((zero + a, height(zero + a)), (zero + b, height(zero + b)), 0.01) for a, b in zip(ground, ground[1:])]
    lines += [((zero + 0.45, height(zero + 0.45)), (zero + 0.45, height(zero + 0.45) + 0.2), 0.02)]
    return _draw(
        [*lines, ((x, height(x) + 0.05), (x, height(x) + 0.05), 0.06)], left=-1.2, right=0.6, bottom=0.0, top=1.3
    )


def _draw(lines: list, left: float, right: float, bottom: float, top: float) -> np.ndarray:
    """Draws lines, each in its own colour and later ones over earlier ones; uint8 [B, H, W, 3].

    Args:
      lines: two ends, each (x [B], y [B]), and half the thickness, per line; y points up.
      left, right, bottom, top: the visible section.
    """
    x = np.arange(left, right, 1 / _PIXELS)
    y = np.arange(top, bottom, -1 / _PIXELS)[:, None]
    picture = np.zeros((len(lines[0][0][0]), y.size, x.size, 3))
    for ((x0, y0), (x1, y1), thickness), colour in zip(lines, drawing.palette(len(lines))):
        x0, y0, dx, dy = (side[:, None, None] for side in (x0, y0, x1 - x0, y1 - y0))
        along = ((x - x0) * dx + (y - y0) * dy) / np.maximum(dx**2 + dy**2, 1e-9)  # 0 at one end, 1 at the other
        along = along.clip(0, 1)
        distance = np.hypot(x - x0 - along * dx, y - y0 - along * dy)  # [B, H, W]
        picture[distance <= thickness] = colour
    return (255 * picture).astype(np.uint8)
