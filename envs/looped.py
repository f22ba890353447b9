"""Environments that are stepped one after another.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dm_env
import numpy as np
import tree
from dm_env import specs

from boonta.envs import base
from boonta.envs.actions import check_action, check_legal
from boonta.envs.episode_metrics import checked
from boonta.envs.spec_check import name_of
from boonta.envs.step_check import as_specified


class LoopedEnv(base.BatchedEnv):
    """Steps B dm_env environments one after another: the easiest base for an environment without its own batching."""

    def __init__(self, envs: Sequence[dm_env.Environment], spec: base.EnvSpec):
        """Takes B environments, each already seeded, and the spec that they share.

        They may have a method `render`, which returns uint8 [H, W, 3] or None, and an attribute `steps_per_s`; and a
        method `episode_metrics() -> Mapping[str, float]`, which is asked after each step that is LAST for numbers of
        that episode, such as whether it was a success. All episodes must have the same ones.
        """
        self.num_envs = len(envs)
        self.spec = spec
        self._envs = envs
        self._last = np.zeros(len(envs), bool)  # Whether the slot's last step was LAST, [B].
        self._shown: base.TimeStep | None = None  # The last step.
        self._tracker = base.EpisodeTracker(len(envs))
        self.steps_per_s = getattr(envs[0], "steps_per_s", None)

    def reset(self) -> base.TimeStep:
        return self._batch([env.reset() for env in self._envs])

    def step(self, action: np.ndarray) -> base.TimeStep:
        action = check_action(action, self.spec.actions, self.num_envs)
        check_legal(action, self._shown)
        return self._batch(
            [env.reset() if last else env.step(a) for env, a, last in zip(self._envs, action, self._last)]
        )

    def episodes(self) -> list[base.Episode]:
        return self._tracker.take()

    def render(self) -> np.ndarray | None:
        drawn = [getattr(env, "render", lambda: None)() for env in self._envs]
        pictures = [picture for picture in drawn if picture is not None]
        return np.stack(pictures) if len(pictures) == self.num_envs else None

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _batch(self, steps: list[dm_env.TimeStep]) -> base.TimeStep:
        step_type = np.array([step.step_type for step in steps], np.int32)
        # dm_env sets the reward and discount of FIRST to None.
        reward = np.array([0.0 if step.first() else _number(step.reward) for step in steps], np.float32)
        if reward.shape != step_type.shape:
            raise ValueError(f"the environment's reward has the shape {list(reward.shape[1:])}; it must be one number")
        discount = np.array([1.0 if step.first() else step.discount for step in steps], np.float32)
        try:
            observation = tree.map_structure(_stacked, self.spec.observations, *[step.observation for step in steps])
        except (TypeError, ValueError) as error:
            cause = _misfit(self.spec.observations, [step.observation for step in steps]) or error
            raise ValueError(f"the environment's observations are not as its spec says: {cause}") from error
        self._last = step_type == base.LAST
        self._tracker.update(reward, step_type == base.FIRST, self._last, self._metrics)
        self._shown = base.TimeStep(step_type, reward, discount, observation)
        return self._shown

    def _metrics(self, slot: int) -> dict[str, float]:
        """The numbers of a slot's episode, which has ended."""
        return checked(getattr(self._envs[slot], "episode_metrics", dict)())


def _stacked(spec: specs.Array, *leaves: Any) -> np.ndarray:
    """A leaf of all slots, [B, ...], in the dtype of its spec."""
    if spec.dtype.kind not in "iu":
        return np.stack(leaves, dtype=spec.dtype)
    return as_specified(spec, np.stack(leaves))


def _misfit(wanted: Any, observations: Sequence[Any]) -> str:
    """The first leaf whose shape isn't the spec's, and its slot; empty if there is none, or if nests differ."""
    for slot, observation in enumerate(observations):
        try:
            leaves = tree.flatten_up_to(wanted, observation)
        except (TypeError, ValueError):
            return ""
        for (path, spec), leaf in zip(tree.flatten_with_path(wanted), leaves):
            if np.shape(leaf) != spec.shape:
                found, must = list(np.shape(leaf)), list(spec.shape)
                return f"{name_of(path)} of slot {slot} has the shape {found}; it must be {must}"
    return ""


def _number(reward: Any) -> Any:
    """A reward, which may be an array of one number. Numbers stay as they are: making arrays of them takes longer."""
    if reward is None:
        raise ValueError("the environment's reward is None; it must be one number")
    return reward if isinstance(reward, (float, int)) else np.squeeze(reward)
