"""Params drawn by numpy, for tests that need some: compiling a network's `init` takes longer than many a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def drawn(init: Callable[[jax.Array], Any], seed: int = 0) -> Any:
    """Arrays of the shapes of `init(key)`, none of them 0; the outputs of a layer are about as large as its inputs."""
    rng = np.random.default_rng(seed)

    def draw(leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        inputs = np.prod(leaf.shape[:-1]) if len(leaf.shape) > 1 else 100
        return rng.normal(scale=inputs**-0.5, size=leaf.shape).astype(leaf.dtype)

    return jax.tree.map(draw, jax.eval_shape(init, jax.random.PRNGKey(0)))
