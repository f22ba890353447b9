"""An inference node that tests call directly, and the time steps that they send."""

from __future__ import annotations

import threading

import numpy as np
import tree

from boonta.agents import impala, muzero
from boonta.agents.groups import Torso
from boonta.envs.base import TimeStep
from boonta.envs.catch import Catch
from boonta.nodes.inference import Inference
from boonta.nodes.variables import VariableServer, pack
from boonta.tests.helpers.params import drawn

ENV = Catch()
RECURRENT = "impala with frames and a core"
AGENTS = {
    RECURRENT: lambda: impala.make(
        impala.Config(Torso("mlp", widths=(8,)), frame_stack=2, lstm_size=8, unroll_length=4), ENV.spec
    ),
    "muzero with frames": lambda: muzero.make(
        muzero.Config(Torso("mlp", widths=(8,)), frame_stack=2, head_width=8, num_simulations=4), ENV.spec
    ),
}


def acting_params(agent, seed=0):
    return agent.update.params(drawn(agent.update.init, seed))


def inference(agent, **settings) -> Inference:
    """Started, with version 3; as among processes, calls come from another thread than the one that started it.

    The tests take its main thread's part and call `step` themselves.
    """
    variables = VariableServer("variables")
    variables.put(3, pack(acting_params(agent)))
    node = Inference("inference", agent, ENV, variables, **settings)
    thread = threading.Thread(target=node.start)
    thread.start()
    thread.join()
    node._params.fetch(0.0)
    return node


def leaves(timestep: TimeStep) -> list[np.ndarray]:
    return [*timestep[:3], *tree.flatten(timestep.observation)]


def frames(num_envs: int, step_type: int, value: float = 1.0) -> list[np.ndarray]:
    """A time step, as it is sent."""
    zero = np.zeros(num_envs, np.float32)
    observation = np.full((num_envs, *ENV.spec.observations.shape), value, ENV.spec.observations.dtype)
    return [np.full(num_envs, step_type, np.int32), zero, zero, observation]
