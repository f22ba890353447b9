"""Acting for several groups of environments at once, each with its own state and key.

Glossary of shapes: G groups of a batch, B slots of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from boonta.agents.base import Nest, Policy
from boonta.envs.base import TimeStep
from boonta.nodes.acting.local import jit_policy

ActForGroups = Callable[[Nest, Any, Any, TimeStep, Sequence[Nest]], tuple[Any, Nest, Nest, list[Nest]]]


def jit_for_groups(policy: Policy) -> ActForGroups:
    """Compiles `policy.step` for several groups at once, each with its own state and key.

    Returns:
      `(params, seeds [G], t [G], time step [G, B, ...], states G x [B, ...]) -> (action [G, B, ...],
      extras [G, B, ...], core before the step [G, B, ...], states)`. A group's key in step t is that of
      `nodes.acting.local.Acting` with its seed.
    """

    step = jit_policy(policy).step

    def act_alone(params: Nest, seed: Any, t: Any, timestep: TimeStep, state: Nest) -> tuple[Any, Nest, Nest, Nest]:
        return step(params, jax.random.PRNGKey(seed), t, timestep, state)

    def act(
        params: Nest, seeds: Any, t: Any, timestep: TimeStep, states: Sequence[Nest]
    ) -> tuple[Any, Nest, Nest, list[Nest]]:
        together = jax.tree.map(lambda *rows: jnp.stack(rows), *states)  # [G, B, ...]
        action, extras, core, together = jax.vmap(act_alone, (None, 0, 0, 0, 0))(params, seeds, t, timestep, together)
        return action, extras, core, [jax.tree.map(lambda leaf, i=i: leaf[i], together) for i in range(len(states))]

    return jax.jit(act)


def padded(groups: int, most: int) -> int:
    """Returns the next power of two, or `most` if that is smaller."""
    return min(1 << (groups - 1).bit_length(), most)
