"""Ways of acting: with a policy in the actor's own process, or by an inference node that serves many actors.

An actor holds a `GroupAct` for each of its groups of environments and doesn't know which way it is; the handle that it
was given decides. Nothing here imports JAX before it must, so that a process that only asks an inference node holds
neither JAX nor the agent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tree

from boonta.agents.base import Agent, Table
from boonta.envs.base import TimeStep
from boonta.nodes.base import Node

Nest = Any

ANSWER_DEADLINE_S = 300.0  # an inference node compiles before its first answers


class Acted(NamedTuple):
    """What a policy did in a time step of B slots.

    Attributes:
      version: of the params that acted.
      action: [B, ...].
      extras: nest [B, ...]. From an inference node it is a tuple of the leaves, in the nest's order: the classes that
        agents make their nests of need JAX, and tables keep leaves.
    """

    version: int
    action: np.ndarray
    extras: Nest


GroupAct = Callable[[TimeStep], Acted]  # of one group of environments, in whose stream it must see every time step
OpenAct = Callable[[int, int, int], GroupAct]  # from the group's number, its slots, the seed of its randomness


class Remote(NamedTuple):
    """Given to an actor in the variable server's place: another node acts for it.

    Attributes:
      inference: handle of an `Inference` node.
    """

    inference: Any


def open_acting(node: Node, agent: Agent, variables: Any, table: Table, refresh_every: int | None = None) -> OpenAct:
    """How a node acts, decided by its handle.

    Args:
      node: that acts.
      agent: its policy acts, in this process; not used with `Remote`.
      variables: handle of the variable server, `nodes.variables.Colocated`, or `Remote`.
      table: whose sequences say where local params may change.
      refresh_every: env steps of a slot between two looks for newer params; None takes the table's period.

    Raises:
      ValueError: refresh_every is given, but it isn't this node that decides when params change.
    """
    if isinstance(variables, Remote):
        if refresh_every is not None:
            raise ValueError(
                f"{node.name}: refresh_every is {refresh_every}, but an inference node acts for it, with the newest "
                "params at any step: leave it out"
            )
        return functools.partial(RemoteAct, node, variables.inference)
    from boonta.nodes.acting.local import open_local_acting

    return open_local_acting(node, agent, variables, table, refresh_every)


def tables_only(agent: Agent) -> Agent:
    """All that an actor needs of an agent when another node acts for it; unpickling it imports no JAX."""
    nothing: Any = None
    return Agent(nothing, nothing, nothing, agent.tables)


class RemoteAct:
    """A group of environments as an inference node knows it: it asks with every time step, and waits for the answer.

    Params may change at any step, and each step says which acted. So it is in "SEED RL: Scalable and Efficient Deep-RL
    with Accelerated Central Inference" (https://arxiv.org/abs/1910.06591), section 3: agents whose learning allows
    for data of other params, step by step, allow for this.

    Args:
      node: that acts.
      inference: handle of the `Inference` node.
      group: number of the group.
      num_envs: B, slots of the group.
      seed: of the policy's randomness.
    """

    def __init__(self, node: Node, inference: Any, group: int, num_envs: int, seed: int):
        self._wait_for = functools.partial(node.wait_for, "inference", deadline_s=ANSWER_DEADLINE_S)
        self._inference = inference
        self._name = f"{node.name}/{group}"
        self._wait_for(lambda timeout: _ask(inference.register, self._name, num_envs, seed, timeout))
        self._t = 0

    def __call__(self, timestep: TimeStep) -> Acted:
        """What the inference node does in this time step.

        Raises:
          TimeoutError: it has not answered for minutes.
          ValueError, or what courier makes of it: the time step is not one of its environment's.
        """
        leaves = [*timestep[:3], *tree.flatten(timestep.observation)]
        ask = functools.partial(_ask, self._inference.act, self._name, self._t, leaves)
        version, action, *extras = self._wait_for(ask)
        self._t += 1
        return Acted(version, action, tuple(extras))


def _ask(call: Callable[..., Any], *arguments: Any) -> Any:
    """The answer; None if there is none within courier's deadline, because the server is starting or overloaded."""
    try:
        return call(*arguments)
    except Exception as error:  # courier's own class has no module that could be imported without courier
        if str(error) != "Deadline Exceeded":
            raise
        return None
