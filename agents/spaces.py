"""Spaces of actions in words, for the messages of agents that are for another one."""

from __future__ import annotations

import math

import numpy as np
from dm_env import specs


def in_words(actions: specs.Array) -> str:
    """What an environment takes, and which agents are for it."""
    number = math.prod(actions.shape)
    if isinstance(actions, specs.DiscreteArray):
        return f"one of {actions.num_values} discrete actions, for which there are IMPALA, PPO, MuZero, DQN and R2D2"
    if number and np.issubdtype(actions.dtype, np.floating):
        return f"{number} real numbers, for which there are IMPALA, PPO, SAC and TD3"
    if number and isinstance(actions, specs.BoundedArray):
        return f"{number} choices at once, for which there are IMPALA and PPO"
    return str(actions)
