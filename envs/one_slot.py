"""One slot of an environment of ours as a `dm_env.Environment`. The reverse is `envs/dm_env.py`."""

from __future__ import annotations

from typing import Any

import dm_env
import numpy as np
import tree
from dm_env import specs

from boonta.envs import base


class OneSlot(dm_env.Environment):
    """One slot of an environment of ours, for whoever takes dm_env's: Acme's loops, agents and wrappers.

    Specs are those of the slot, so that `acme.specs.make_environment_spec` has what an agent is made from. A `reset`
    after LAST goes on with the slot's stream, and so does not begin the seed's episodes again.

    Args:
      env: makes the slot.
      seed: its seed, at least 0.

    Attributes:
      batch: the slot as a batch of one, for its `episodes()` and `render()`.
    """

    def __init__(self, env: base.Env, seed: int = 0):
        self.batch = env(1, seed)
        self._spec = self.batch.spec
        actions = self._spec.actions
        zeros = np.zeros((1, *actions.shape), actions.dtype)
        bounded = isinstance(actions, specs.BoundedArray)
        # The action after LAST is ignored, but it must be a valid one.
        self._ignored = np.clip(zeros, actions.minimum, actions.maximum) if bounded else zeros
        self._last = False

    def reset(self) -> dm_env.TimeStep:
        return self._one(self.batch.step(self._ignored) if self._last else self.batch.reset())

    def step(self, action: Any) -> dm_env.TimeStep:
        """Steps the slot; after LAST, where dm_env asks for it, this is `reset`.

        Raises:
          ValueError: the action doesn't have the shape of the spec, or is out of range.
        """
        if self._last:
            return self.reset()
        return self._one(self.batch.step(np.asarray(action)[None].astype(self._ignored.dtype, casting="same_kind")))

    def observation_spec(self) -> Any:
        return self._spec.observations

    def action_spec(self) -> specs.Array:
        return self._spec.actions

    def reward_spec(self) -> specs.Array:
        return self._spec.rewards

    def discount_spec(self) -> specs.BoundedArray:
        return self._spec.discounts

    def close(self) -> None:
        self.batch.close()

    def _one(self, timestep: base.TimeStep) -> dm_env.TimeStep:
        step_type, reward, discount, observation = tree.map_structure(lambda leaf: np.asarray(leaf)[0], timestep)
        self._last = step_type == base.LAST
        if step_type == base.FIRST:
            return dm_env.restart(observation)
        return dm_env.TimeStep(dm_env.StepType(step_type), reward, discount, observation)
