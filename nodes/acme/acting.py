"""A policy of ours as an Acme actor, and where it gets its params."""

from __future__ import annotations

from collections.abc import Sequence

import dm_env
import jax
import numpy as np
from acme import core
from acme.adders import base as adders

from boonta.agents.base import Agent, Nest, Policy, Slots
from boonta.envs.base import FIRST, TimeStep
from boonta.nodes.acting.base import VariablesHandle
from boonta.nodes.acting.local import Acting, acting_params, jit_policy
from boonta.nodes.base import Node
from boonta.nodes.variables import VariableClient

PARAMS = "policy"  # The name by which a source of ours has the params that a policy acts with.


class Fixed(core.VariableSource):
    """Params that never change, such as a checkpoint's.

    Args:
      params: what the agent's policy acts with.
    """

    def __init__(self, params: Nest):
        self._params = jax.device_get(params)

    def get_variables(self, names: Sequence[str]) -> list[Nest]:
        """Returns the params for each of the names, all of which must be `PARAMS`."""
        return [self._params for name in names if _is_known(name)]


class Published(core.VariableSource):
    """The newest params of a program's variable server, for any Acme actor.

    Args:
      server: handle of the variable server, or a `nodes.rpc.client.Client` of it.
      agent: knows the shapes of the params.
      node: waits for the first params; a node of its own, which nothing stops, unless given.

    Attributes:
      version: the learner's number of updates when the params that were fetched last were published; -1 before.
    """

    def __init__(self, server: VariablesHandle, agent: Agent, node: Node | None = None):
        self._client = VariableClient(server, acting_params(agent))
        self._wait_for = (node or Node("acme")).wait_for
        self.version = -1
        self._params: Nest = None

    def get_variables(self, names: Sequence[str]) -> list[Nest]:
        """Fetches the newest params, waiting for the first; returns them, as numpy arrays, for each of the names.

        Raises:
          KeyError: a name isn't `PARAMS`.
          TimeoutError: there are none within an hour.
        """
        known = [name for name in names if _is_known(name)]
        version, params = self._wait_for("params", self._client.fetch)
        if version != self.version:
            self.version, self._params = version, jax.device_get(params)
        return [self._params for _ in known]


class PolicyActor(core.Actor):
    """A policy of ours in an unmodified `acme.EnvironmentLoop`.

    It acts as an actor or an evaluator does, with the policy's own state, in one environment, which `OneSlot` makes.

    Args:
      policy: an agent's `policy` or `eval_policy`.
      source: a learner's params; `update` fetches them, and so does the first action.
      adder: gets each step with the policy's extras; None records nothing.
      seed: the seed of the policy's randomness.
    """

    def __init__(
        self, policy: Policy, source: core.VariableSource, adder: adders.Adder | None = None, *, seed: int = 0
    ):
        self._source = source
        self._adder = adder
        self._acting = Acting(jit_policy(policy), Slots(1), seed, Node("acme").stopwatch)
        self._params: Nest = None

    def select_action(self, observation: Nest) -> np.ndarray:
        """Acts in the time step that was observed last, whose observation this is."""
        if self._params is None:
            self.update()
        timestep = self._timestep._replace(observation=jax.tree.map(lambda leaf: np.asarray(leaf)[None], observation))
        action, extras, _ = self._acting(self._params, timestep)
        self._extras = jax.tree.map(lambda leaf: leaf[0], extras)
        return action[0]

    def observe_first(self, timestep: dm_env.TimeStep) -> None:
        self._see(timestep)
        if self._adder is not None:
            self._adder.add_first(timestep)

    def observe(self, action: Nest, next_timestep: dm_env.TimeStep) -> None:
        self._see(next_timestep)
        if self._adder is not None:
            self._adder.add(action, next_timestep, self._extras)

    def update(self, wait: bool = False) -> None:
        (self._params,) = self._source.get_variables([PARAMS])

    def _see(self, timestep: dm_env.TimeStep) -> None:
        self._timestep = row_of(timestep)


def row_of(timestep: dm_env.TimeStep) -> TimeStep:
    """Our time step for dm_env's, [1] except the observation; dm_env's FIRST has no reward and no discount."""
    first = timestep.first()
    return TimeStep(
        np.array([FIRST if first else timestep.step_type], np.int32),
        np.array([0.0 if first else timestep.reward], np.float32),
        np.array([1.0 if first else timestep.discount], np.float32),
        timestep.observation,
    )


def _is_known(name: str) -> bool:
    if name != PARAMS:
        raise KeyError(f"there are no variables {name!r}; the params that the policy acts with are {PARAMS!r}")
    return True
