"""Vector environments of Gymnasium's API, whose slots are stepped by code of their own.

See "Gymnasium: A Standard Interface for Reinforcement Learning Environments" (https://arxiv.org/abs/2407.17032) and
https://gymnasium.farama.org/api/vector/.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tree
from dm_env import specs
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from boonta.envs import base, spaces
from boonta.envs.actions import check_action, check_legal
from boonta.envs.episode_metrics import chosen
from boonta.envs.step_check import as_specified

MODE = "autoreset_mode"  # The name of the auto-reset in a vector environment's metadata.


class VectorBatch(base.BatchedEnv):
    """A vector environment as a batch of ours.

    It must reset a slot in the step after the one that ended an episode, ignoring the action, as our contract has it;
    Gymnasium calls that NEXT_STEP. With SAME_STEP a slot would have to wait for a step while others go on.

    Args:
      env: the vector environment, or anything with its `reset`, `step` and `close`.
      spec: the specs of one slot.
      seed: the seed of all slots, given to the first `reset`; None if it has been seeded.
      metrics: names of numbers in `info` that episodes have besides their return.

    Raises:
      ValueError: it resets at another time.
    """

    def __init__(self, env: Any, spec: base.EnvSpec, seed: int | None, metrics: Sequence[str] = ()):
        mode = env.metadata.get(MODE)
        if mode != AutoresetMode.NEXT_STEP:
            env.close()
            raise ValueError(f"its {MODE} is {mode}; allowed: {AutoresetMode.NEXT_STEP}")
        self.num_envs, self.spec = env.num_envs, spec
        self.steps_per_s = env.metadata.get("render_fps")
        self._env = env
        self._metrics = metrics
        self._seeding = {} if seed is None else {"seed": _seeds(env, seed)}
        self._last = np.zeros(self.num_envs, bool)  # Whether the slot's last step was LAST, [B].
        self._shown: base.TimeStep | None = None  # The last step.
        self._tracker = base.EpisodeTracker(self.num_envs)

    def reset(self) -> base.TimeStep:
        observation, _ = self._env.reset(**self._seeding)
        self._seeding = {}  # Later resets go on with the environment's own generators.
        no = np.zeros(self.num_envs, bool)
        return self._timestep(observation, no, ~no, no, no, {})

    def step(self, action: np.ndarray) -> base.TimeStep:
        action = check_action(action, self.spec.actions, self.num_envs)
        check_legal(action, self._shown)
        action = spaces.to_spaces(self._env.single_action_space, action)
        observation, reward, terminated, truncated, info = self._env.step(action)
        ends = np.array(terminated, bool), np.array(truncated, bool)
        return self._timestep(observation, reward, self._last, *ends, info)

    def episodes(self) -> list[base.Episode]:
        return self._tracker.take()

    def render(self) -> np.ndarray | None:
        pictures = self._env.render() if getattr(self._env, "render_mode", None) == "rgb_array" else None
        return np.stack(pictures).astype(np.uint8) if pictures is not None and len(pictures) == self.num_envs else None

    def close(self) -> None:
        self._env.close()

    def _timestep(
        self,
        observation: Any,
        reward: np.ndarray,
        first: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        info: Mapping[str, Any],
    ) -> base.TimeStep:
        """The time step [B] with what the environment gave; some environments go on writing into those arrays."""
        self._last = (terminated | truncated) & ~first
        reward = np.where(first, 0, reward).astype(np.float32)
        self._tracker.update(reward, first, self._last, lambda slot: self._metrics_of(slot, info))
        own = self._env.single_observation_space, self._env.single_action_space
        observation = spaces.observed(*own, observation, self._last)
        self._shown = base.TimeStep(
            step_type=base.step_types(first, self._last),
            reward=reward,
            discount=np.where(terminated & ~first, 0, 1).astype(np.float32),
            observation=tree.map_structure(_copied, self.spec.observations, observation),
        )
        return self._shown

    def _metrics_of(self, slot: int, info: Mapping[str, Any]) -> dict[str, float]:
        """The numbers of a slot's episode; where the array `_name` is beside `name`, it says which slots have that."""
        if not self._metrics:
            return {}
        arrays = {name: values for name, values in info.items() if getattr(values, "shape", ())[:1] == (self.num_envs,)}
        masks = {f"_{name}" for name in arrays}
        own = {
            name: values[slot]
            for name, values in arrays.items()
            if name not in masks and (f"_{name}" not in arrays or arrays[f"_{name}"][slot])
        }
        return chosen(self._metrics, own)


def _copied(spec: specs.Array, leaf: Any) -> np.ndarray:
    """A copy of a leaf in the dtype of its spec."""
    given = np.asarray(leaf)
    made = as_specified(spec, given)
    return made.copy() if made is given else made


def _seeds(env: Any, seed: int) -> int | list[int]:
    """A seed for each slot, or one for all in environments that take no more."""
    each = isinstance(env.unwrapped, (SyncVectorEnv, AsyncVectorEnv))
    seeds = base.slot_seeds(env.num_envs if each else 1, seed).tolist()
    return seeds if each else seeds[0]
