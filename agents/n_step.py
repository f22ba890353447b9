"""N-step returns across the ends of episodes, and the errors of fresh sequences that actors compute with them.

All functions work on arrays of numpy and of JAX alike, and this module imports neither JAX nor the agents: actors
whose actions another node computes have no JAX.

Glossary of shapes: a sequence's M = R + N rows; R roots, from each of which a return of N rewards starts; B batch.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import Any, NamedTuple

import numpy as np
import tree

from boonta.agents.base import Steps
from boonta.envs.base import LAST

Array = Any  # Of numpy, or of JAX.
RESCALING = 1e-3  # epsilon of `rescaled`, as in R2D2.


class NStep(NamedTuple):
    """N-step transitions from R consecutive roots. The target of a root is reward + discount * value ahead.

    Attributes:
      reward: float32 [R, B], the discounted sum of the rewards until the row to bootstrap from.
      discount: float32 [R, B], the factor of that row's value; 0 where the episode terminated before.
      ahead: int32 [R, B], how many rows after the root that row is: N, or fewer if the episode ended.
      mask: float32 [R, B]; 0 where the root is LAST, so that no transition starts there.
    """

    reward: Array
    discount: Array
    ahead: Array
    mask: Array


def n_step(step_type: Array, reward: Array, discount: Array, agent_discount: Any, length: int) -> NStep:
    """Adds up N rewards from each root, or those until its episode ends.

    After a truncation the value of the LAST observation stands for what would have followed.
    See "Rainbow: Combining Improvements in Deep Reinforcement Learning" (https://arxiv.org/abs/1710.02298), section 3,
    R_t^(n).

    Args:
      step_type: int32 [R+N, B].
      reward: float32 [R+N, B]; a row's was earned by the action of the row before.
      discount: float32 [R+N, B], the environment's.
      agent_discount: the agent's, which multiplies the environment's; below 0 where two players take turns.
      length: N.
    """
    rows = len(reward) - length
    last = (step_type == LAST).astype(np.float32)
    goes_on = factor = np.ones((rows, *reward.shape[1:]), np.float32)
    total = ahead = np.zeros_like(goes_on)
    for k in range(1, length + 1):
        row = slice(k, k + rows)
        total = total + goes_on * factor * reward[row]
        factor = factor * (1 - goes_on * (1 - agent_discount * discount[row]))
        ahead = ahead + goes_on
        goes_on = goes_on * (1 - last[row])
    return NStep(total, factor, ahead.astype(np.int32), 1 - last[:rows])


def ahead_of_roots(x: Array, ahead: Array, length: int) -> Array:
    """The rows that roots bootstrap from: x [R+N, B, ...] -> [R, B, ...].

    It selects without a gather, so that a batch that is split over devices stays so.
    """
    rows = len(ahead)
    chosen = [(ahead == k).reshape(*ahead.shape, *(1,) * (x.ndim - 2)) * x[k : k + rows] for k in range(1, length + 1)]
    return functools.reduce(operator.add, chosen)


def sequence_error(errors: Array, mask: Array, largest_share: float) -> Array:
    """The error of each sequence, [B], by those of its roots: eta * largest + (1 - eta) * mean.

    See "Recurrent Experience Replay in Distributed Reinforcement Learning" (R2D2,
    https://openreview.net/forum?id=r1lyTjAqYX), section 2.3.

    Args:
      errors: float32 [R, B], at least 0.
      mask: float32 [R, B]; where it is 0, the root doesn't count.
      largest_share: eta, in [0, 1].
    """
    counted, number = mask * errors, mask.sum(axis=0)
    mean = counted.sum(axis=0) / (number + (number == 0))
    return largest_share * counted.max(axis=0) + (1 - largest_share) * mean


def rescaled(x: Array) -> Array:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x, which brings values of any size near each other.

    See "Observe and Look Further: Achieving Consistent Performance on Atari" (https://arxiv.org/abs/1805.11593),
    Proposition A.2.
    """
    return x / ((abs(x) + 1) ** 0.5 + 1) + RESCALING * x


def unscaled(x: Array) -> Array:
    """The inverse of `rescaled`: sign(x) (z^2 - 1), where z = (sqrt(1 + 4 e (|x| + 1 + e)) - 1) / (2 e), e = 0.001.

    Written so, the difference of two numbers near 500 would cost float32 four of its seven digits. Here z - 1 is |x|
    times a slope, without differences of numbers that are nearly equal.
    """
    root = (1 + 4 * RESCALING * (abs(x) + 1 + RESCALING)) ** 0.5
    slope = (2 - 4 * RESCALING / (root + 1 + 2 * RESCALING)) / (1 + root)
    return x * slope * (2 + abs(x) * slope)


@dataclasses.dataclass(frozen=True)
class FreshErrors:
    """`Table.errors` of an agent that stores two numbers with each step: |N-step target - estimate|.

    See "Distributed Prioritized Experience Replay" (Ape-X, https://arxiv.org/abs/1803.00933), section 3.

    Attributes:
      discount: the agent's discount.
      length: N.
      roots: R.
      context: rows of a sequence before its first root.
      estimate: place, among the leaves of the extras, of the step's own estimate, float32 [B].
      value: place of the value that targets bootstrap from, float32 [B].
      clip: whether rewards are clipped to [-1, 1].
      rescale: whether estimates are `rescaled` values.
      unit: error that counts as 1.
      largest_share: eta, see `sequence_error`.
    """

    discount: float
    length: int
    roots: int = 1
    context: int = 0
    estimate: int = 0
    value: int = 1
    clip: bool = False
    rescale: bool = False
    unit: float = 1.0
    largest_share: float = 0.0

    def __call__(self, steps: Steps) -> Array:
        """The errors [B] of sequences, leaves [T, B, ...]."""
        rows = slice(self.context, self.context + self.roots + self.length)
        extras = tree.flatten(steps.extras)
        estimate, value = extras[self.estimate][rows], extras[self.value][rows]
        reward = steps.reward[rows].clip(-1, 1) if self.clip else steps.reward[rows]
        found = n_step(steps.step_type[rows], reward, steps.discount[rows], self.discount, self.length)
        target = found.reward + found.discount * ahead_of_roots(value, found.ahead, self.length)
        target = rescaled(target) if self.rescale else target
        errors = abs(target - estimate[: self.roots]) / self.unit
        return sequence_error(errors, found.mask, self.largest_share)
