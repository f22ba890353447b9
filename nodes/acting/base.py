"""Ways of acting: with a policy in the actor's own process, or by an inference node that serves many actors.

An actor holds a `GroupAct` for each of its groups of environments; its handle decides which way that acts. This module
doesn't import JAX, so that a process that uses an inference node loads neither JAX nor the agent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import tree

from boonta.agents.base import Agent, Nest, Slots, Table
from boonta.envs.base import BatchedEnv, TimeStep
from boonta.nodes.base import Node
from boonta.nodes.tables.freshness import bounded
from boonta.nodes.watch.calls import answered
from boonta.nodes.watch.means import EPISODE

if TYPE_CHECKING:
    from boonta.nodes.variables import Colocated  # It would import JAX.


class Acted(NamedTuple):
    """A policy's output for a time step of B slots.

    Attributes:
      version: version of the params that acted.
      action: [B, ...].
      extras: nest [B, ...]. From an inference node it is a tuple of the nest's leaves in order: importing the agents'
        own classes would import JAX, and tables store only leaves.
      core: what the policy's recurrent core remembered before the time step, a nest [B, ...] in the same form.
    """

    version: int
    action: np.ndarray
    extras: Nest
    core: Nest = ()


class GroupAct(Protocol):
    """Acts for one group of environments."""

    def __call__(self, timestep: TimeStep) -> Acted:
        """The output for a time step; it must be called for every one."""
        ...

    def executed(self, action: np.ndarray) -> None:
        """Tells the policy that the environments take this action [B, ...] in place of the one that it returned."""
        ...

    def ready(self) -> bool:
        """Whether the next call can run without waiting for another node."""
        ...


OpenAct = Callable[[int, Slots, int], GroupAct]  # Takes the group's number, its slots and a seed.


class VariablesHandle(Protocol):
    """The variable server as nodes call it: a `VariableServer` itself, or a client of one; that describes the calls."""

    def put(self, version: int, packed: bytes) -> None: ...

    def newest(self, have: int, wait_s: float) -> int: ...

    def get(self, have: int) -> tuple[int, bytes]: ...


class InferenceHandle(Protocol):
    """An inference node as actors call it: an `Inference` itself, or a client of one; that describes the calls."""

    def register(self, name: str, slots: Sequence[Any], seed: int, timeout_s: float) -> bool | None: ...

    def act(
        self, name: str, t: int, leaves: Sequence[np.ndarray], executed: np.ndarray | None, timeout_s: float
    ) -> list[Any] | None: ...


class Remote(NamedTuple):
    """Replaces the handle of the variable server for an actor or a reanalyzer for which another node acts.

    Attributes:
      inference: handle of an `Inference` node.
    """

    inference: InferenceHandle


if TYPE_CHECKING:  # Where a node gets its params, and how it acts.
    ParamsHandle: TypeAlias = VariablesHandle | Colocated
    ActingHandle: TypeAlias = VariablesHandle | Colocated | Remote
else:
    ParamsHandle = ActingHandle = Any  # Annotations can be evaluated all the same.


def open_acting(
    node: Node, agent: Agent, variables: ActingHandle, table: Table, refresh_every: int | None = None
) -> OpenAct:
    """How a node acts, decided by its handle.

    Args:
      node: the node that acts.
      agent: its policy acts in this process; unused with `Remote`.
      variables: handle of the variable server, `nodes.variables.Colocated`, or `Remote`.
      table: the table at whose sequences' ends local params may change.
      refresh_every: env steps of a slot between two looks for newer params; None takes
        `nodes.acting.local.refresh_rows`.

    Raises:
      ValueError: refresh_every is given, but params change in lock-step.
    """
    if isinstance(variables, Remote):
        return functools.partial(RemoteAct, node, variables)
    from boonta.nodes.acting.local import open_local_acting

    return open_local_acting(node, agent, variables, table, refresh_every)


def require_steady(who: str, tables: Sequence[Table], variables: ActingHandle, refresh_every: int | None) -> None:
    """Refuses a `refresh_every` where an inference node acts, and params that change within a sequence of fresh data.

    The first steps of such a sequence would soon be too old.

    Raises:
      ValueError: names the setting, or the table and what changes its params.
    """
    if isinstance(variables, Remote) and refresh_every is not None:
        raise ValueError(
            f"{who}: refresh_every is {refresh_every}, but an inference node acts for it, with the newest params at "
            "any step: leave it out"
        )
    table = bounded(tables)
    if table is None or (refresh_every is None and not isinstance(variables, Remote)):
        return
    given = f"refresh_every is {refresh_every}" if refresh_every is not None else "an inference node acts for it"
    raise ValueError(
        f"{who}: {given}, so that params change within a sequence, but table {table.name!r} has max_staleness "
        f"{table.max_staleness}: leave it out, or allow any staleness (for PPO, --config.correction v_trace "
        "--config.max-staleness None)"
    )


def count_episodes(node: Node, env: BatchedEnv) -> None:
    """Counts the episodes that have finished since the last call, and samples what is measured of them."""
    for episode in env.episodes():
        node.count(episodes=1)
        node.sample("return", episode.episode_return)
        node.sample("episode_steps", episode.env_steps)
        for name, value in episode.metrics.items():
            node.sample(EPISODE + name, value)


def tables_only(agent: Agent) -> Agent:
    """Reduces an agent to what an actor needs when another node acts for it; unpickling it doesn't import JAX."""
    nothing: Any = None
    return Agent(nothing, nothing, nothing, agent.tables)


class RemoteAct:
    """Acts for a group of environments by sending each time step to an inference node and waiting for its answer.

    Params may change at any step, as in "SEED RL: Scalable and Efficient Deep-RL with Accelerated Central Inference"
    (https://arxiv.org/abs/1910.06591), section 3; each step records the version that acted. An agent can be used in
    this way if its update corrects for params that differ from step to step.

    Args:
      node: the node that acts.
      remote: the handle of the `Inference` node.
      group: number of the group.
      slots: the group's.
      seed: seed of the policy.
    """

    def __init__(self, node: Node, remote: Remote, group: int, slots: Slots, seed: int):
        self._wait_for = functools.partial(node.wait_for, "inference")
        self._inference = remote.inference
        self._name = f"{node.name}/{group}"
        self._slots = slots
        self._seeds = np.random.SeedSequence(seed)
        self._executed: np.ndarray | None = None  # The action of the last step, if it isn't the one of the answer.
        self._register(seed)

    def __call__(self, timestep: TimeStep) -> Acted:
        """Returns the inference node's output for this time step.

        If the node doesn't know the group, it has been started again. Then the group goes on with a fresh state, and
        with another seed: the actions are not to be those of its first steps.

        Raises:
          TimeoutError: it has not answered within the deadline of `Node.wait_for`.
          ValueError, or `nodes.rpc.errors.Failed`: the time step doesn't match the environment's spec.
        """
        leaves = tree.flatten(timestep)
        while not (answer := self._wait_for(functools.partial(self._act, leaves))):
            self._register(int(self._seeds.spawn(1)[0].generate_state(1)[0]))
        version, action, extras, core = answer
        self._t += 1
        self._executed = None
        return Acted(version, action, tuple(extras), tuple(core))

    def executed(self, action: np.ndarray) -> None:
        self._executed = action  # It goes with the next time step.

    def ready(self) -> bool:
        return True

    def _register(self, seed: int) -> None:
        def register(timeout_s: float) -> bool | None:
            return answered(self._inference.register, self._name, self._slots, seed, timeout_s)

        self._wait_for(register)
        self._t = 0
        self._executed = None  # A fresh state remembers no action.

    def _act(self, leaves: Sequence[np.ndarray], timeout_s: float) -> Any:
        """The answer; empty if the group is unknown, None if there is none within the time."""
        return answered(self._inference.act, self._name, self._t, leaves, self._executed, timeout_s)
