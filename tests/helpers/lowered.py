"""Programs as XLA is given them: where they are the same, word by word, the same arguments give the same bits."""

from __future__ import annotations

import jax
import numpy as np

from boonta.agents.base import Agent, Slots
from boonta.envs.base import FIRST, EnvSpec, TimeStep


def arguments(agent: Agent, spec: EnvSpec) -> tuple:
    """Those of the policy's first step, the params by their shapes alone."""
    params = jax.eval_shape(lambda key: agent.update.params(agent.update.init(key)), jax.random.PRNGKey(0))
    shown = np.ones((2, *spec.observations.shape), spec.observations.dtype)
    timestep = TimeStep(np.full(2, FIRST, np.int32), np.zeros(2, np.float32), np.ones(2, np.float32), shown)
    return params, jax.random.PRNGKey(1), timestep, agent.policy.initial_state(Slots(2))


def programs(agent: Agent, spec: EnvSpec) -> tuple[str, str]:
    """Those of the policy's step and of the update's `init`."""
    step, init = jax.jit(agent.policy.step), jax.jit(agent.update.init)
    return step.lower(*arguments(agent, spec)).as_text(), init.lower(jax.random.PRNGKey(0)).as_text()
