"""Replayed transitions of real-valued actions: their settings, their table, and what a batch of them is.

A sequence of T + N rows, after the context for stacking frames, has T transitions of N steps each.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax

from boonta.agents import sequences
from boonta.agents.base import Batch, Nest, Table
from boonta.agents.config import check, documented, field, require
from boonta.agents.heads import Box
from boonta.agents.n_step import ahead_of_roots, n_step


@documented
@dataclasses.dataclass(frozen=True)
class TransitionReplay:
    """A replay table of transitions, see `make_table`.

    Sources: [SAC] https://arxiv.org/abs/1812.05905, [D4PG] https://arxiv.org/abs/1804.08617, [REDQ]
    https://arxiv.org/abs/2101.05982.
    """

    batch_size: int = field(
        256,
        "Transitions in an update, over all learner devices.",
        unit="transitions",
        source="[SAC], Appendix D",
        at_least=1,
    )
    size: int = field(
        1_000_000,
        "Transitions kept; the oldest goes first.",
        unit="transitions",
        source="[SAC], Appendix D",
        at_least=1,
    )
    min_size: int = field(
        1_000,
        "Transitions before learning starts; until then actions are uniformly random.",
        unit="transitions",
        source="own choice; for MuJoCo 10,000: TD3 (https://arxiv.org/abs/1802.09477), section 6.1, for HalfCheetah",
        at_least=1,
    )
    updates_per_env_step: float = field(
        1.0,
        "Updates for each env step of a slot, on average; actors and learner wait for each other to keep it. The "
        "table's samples_per_insert is this times batch_size.",
        unit="updates",
        source="[SAC], Appendix D, 1; [REDQ], section 3, 20",
        above=0,
    )
    unroll_length: int = field(
        1,
        "T, transitions that are stored and drawn together. More make replay through Reverb faster, and a batch less "
        "diverse.",
        unit="transitions",
        source="own choice",
        at_least=1,
    )
    bootstrap_length: int = field(
        1,
        "N, env steps of a transition. SAC's targets then have the entropy at their end, and not those of the steps in "
        "between.",
        unit="env steps",
        source="[SAC], Eq. 3; [D4PG], section 3, up to 5",
        at_least=1,
    )

    def __post_init__(self) -> None:
        check(self)
        require(self, "min_size", self.min_size <= self.size, f"at most size, {self.size}")
        whole = self.batch_size % self.unroll_length == 0
        require(self, "batch_size", whole, f"a multiple of unroll_length, {self.unroll_length}")


# For Gymnasium's MuJoCo. Of SAC's seeds on HalfCheetah each that was run with both earned more than with 1,000.
MUJOCO = TransitionReplay(min_size=10_000)
# For pictures, which take more memory and time: the size is that of DrQ (https://arxiv.org/abs/2004.13649), the ratio
# that of DrQ-v2 (https://arxiv.org/abs/2107.09645), which updates at every second step.
PIXELS = TransitionReplay(size=100_000, updates_per_env_step=0.5)


class Transition(NamedTuple):
    """Transitions of a batch, T of each sequence: M of them.

    Attributes:
      stack_tm1: nest of frames [M, ..., L], in which the action was chosen.
      action_tm1: float32 [M, D], scaled to [-1, 1].
      reward_t: float32 [M], the discounted sum of N rewards, or of those until the episode's end.
      discount_t: float32 [M], of the value of what followed.
      stack_t: nest of frames [M, ..., L], N steps later, or at the episode's end.
      mask_tm1: float32 [M], 0 where an episode had ended and the env ignored the action.
    """

    stack_tm1: Nest
    action_tm1: jax.Array
    reward_t: jax.Array
    discount_t: jax.Array
    stack_t: Nest
    mask_tm1: jax.Array


def transitions_of(batch: Batch, box: Box, data: TransitionReplay, frame_stack: int, discount: float) -> Transition:
    """The transitions of a batch.

    Args:
      batch: steps with leaves [L-1+T+N, B, ...].
      box: the bounds of the actions.
      data: has T and N.
      frame_stack: L.
      discount: the agent's discount, which multiplies the env's.
    """
    t = data.unroll_length
    stack = sequences.stack(batch.steps.observation, batch.steps.step_type, frame_stack)  # [T+N, B, ..., L]
    steps = sequences.drop_context(batch.steps, frame_stack)
    moved = n_step(steps.step_type, steps.reward, steps.discount, discount, data.bootstrap_length)  # [T, B]
    later = functools.partial(ahead_of_roots, ahead=moved.ahead, length=data.bootstrap_length)
    whole = Transition(
        stack_tm1=jax.tree.map(lambda x: x[:t], stack),
        action_tm1=box.scale(steps.action[:t]),
        reward_t=moved.reward,
        discount_t=moved.discount,
        stack_t=jax.tree.map(later, stack),
        mask_tm1=moved.mask,
    )
    return sequences.folded(whole)


def make_table(data: TransitionReplay, frame_stack: int) -> Table:
    """The table "transitions", which keeps the ratio of updates to env steps."""
    return Table(
        name="transitions",
        kind="replay",
        sequence_length=frame_stack - 1 + data.unroll_length + data.bootstrap_length,
        period=data.unroll_length,
        batch_size=data.batch_size // data.unroll_length,
        size=data.size // data.unroll_length,
        sampler="uniform",
        samples_per_insert=data.updates_per_env_step * data.batch_size,
        min_size=max(1, data.min_size // data.unroll_length),
    )
