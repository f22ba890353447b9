"""What an agent sees of an observation: the part for its network, and the legal actions."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from boonta.agents.base import Nest
from boonta.envs.base import BoardView


def view_of(observation: Nest) -> Nest:
    """The part of an observation, or of its spec, that the network sees."""
    return observation.view if isinstance(observation, BoardView) else observation


def with_view(observation: Nest, view: Nest) -> Nest:
    """The same observation, of which the network sees another view."""
    return observation._replace(view=view) if isinstance(observation, BoardView) else view


def legal_of(observation: Nest, shape: tuple[int, ...]) -> jax.Array:
    """The legal actions, bool [..., A]: the observation's, if it has them, otherwise all, in this shape."""
    return observation.legal if isinstance(observation, BoardView) else jnp.ones(shape, bool)
