"""What MuZero's network sees of a row: its frame and, with `action_history`, the action that led to it.

See "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model" (https://arxiv.org/abs/1911.08265), Appendix
E, and MooZi, section 5.3.4. An action may have effects that no frame shows yet.

This module alone has the rule, so that acting and learning see the same: the policy calls `see` for a step, and the
loss, reanalyze and hindsight call `recall` for a sequence. Stacks follow `agents.sequences`: rows before the episode
are zeros, and so their actions are 0, no action.

Glossary of shapes: B batch, L rows of a stack, M rows of a sequence after its context, A actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from dm_env import specs

from boonta.agents import sequences
from boonta.agents.base import Nest, Steps
from boonta.agents.muzero.config import Config
from boonta.agents.views import view_of
from boonta.envs.base import FIRST


class Seen(NamedTuple):
    """What the network sees of rows where it sees actions, too; stacked, all leaves have a last axis L.

    Attributes:
      view: nest [...] of frames.
      action: int32 [...], 1 + the action that led to the frame; 0 where an episode begins.
    """

    view: Nest
    action: Any


def spec_of(config: Config, view: Nest, num_actions: int) -> Nest:
    """Specs of what the network sees of one row.

    Args:
      config: hyper-parameters.
      view: nest of specs of one frame.
      num_actions: A, the number of real actions.
    """
    return Seen(view, specs.DiscreteArray(num_actions + 1)) if config.action_history else view


def see(config: Config, observation: Nest, step_type: jax.Array, action_tm1: jax.Array) -> Nest:
    """What the network sees of rows [*S], of one step or of many.

    Args:
      config: hyper-parameters.
      observation: nest [*S, ...].
      step_type: int32 [*S].
      action_tm1: int32 [*S], the actions of the rows before.

    Returns:
      Nest [*S, ...]: the view, or `Seen`.
    """
    view = view_of(observation)
    return Seen(view, jnp.where(step_type == FIRST, 0, action_tm1 + 1)) if config.action_history else view


def recall(config: Config, steps: Steps) -> tuple[Nest, Steps]:
    """Stacks what the network saw in a sequence, exactly as the policy did one step at a time.

    Args:
      config: hyper-parameters.
      steps: leaves [`config.context` + M, B, ...].

    Returns:
      The stacks, a nest [M, B, ..., L], oldest row first, and the steps without the context, leaves [M, B, ...].
    """
    start = int(config.action_history)  # Nothing tells which action led to the first row.
    observation, step_type = jax.tree.map(lambda x: x[start:], (steps.observation, steps.step_type))
    seen = see(config, observation, step_type, steps.action[: len(step_type)])
    stack = sequences.stack(seen, step_type, config.frame_stack)
    return stack, sequences.drop_context(steps, config.context + 1)
