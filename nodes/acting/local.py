"""A policy in this process: as actors, evaluators, arenas and `boonta play` have it act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents.base import Agent, Nest, Policy, Slots, Steps, Table
from boonta.envs.base import BatchedEnv, EnvSpec, TimeStep
from boonta.envs.step_check import StepCheck
from boonta.nodes.acting.base import Acted, OpenAct, ParamsHandle
from boonta.nodes.acting.outputs import checked_step, require_played, require_stored
from boonta.nodes.acting.refresh import Refresh, allowance_of
from boonta.nodes.base import Node
from boonta.nodes.tables import contract
from boonta.nodes.variables import Colocated, VariableClient
from boonta.nodes.watch.stopwatch import Stopwatch

REFRESH_ROWS = 4  # Env steps of a slot that share a look for newer params.


class CompiledPolicy(NamedTuple):
    """What `jit_policy` makes of an `agents.base.Policy`: its step is compiled once for all streams that share it.

    Attributes:
      initial_state: as the policy's.
      step: `(params, key, t, time step, state) -> (action, extras, core before the step, state)`. The key of step t is
        folded in inside, which saves a dispatch.
      executed: as the policy's.
    """

    initial_state: Callable[[Slots], Nest]
    step: Callable[[Nest, Any, int, TimeStep, Nest], tuple[Any, Nest, Nest, Nest]]
    executed: Callable[[Nest, Any], Nest]


class Acting:
    """A policy with its state and its randomness in a stream of time steps, every one of which it must see.

    Args:
      policy: the policy, which several streams may share.
      slots: the slots of each time step.
      seed: the seed of the policy's randomness.
      stopwatch: measures the time of acting.
      device: the device that acts, and keeps extras and core; None acts where the params are, and brings both to the
        host.
    """

    def __init__(
        self,
        policy: CompiledPolicy,
        slots: Slots,
        seed: int,
        stopwatch: Stopwatch,
        device: jax.Device | None = None,
    ):
        self._policy = policy
        self._stopwatch = stopwatch
        self._key, self._state = jax.random.PRNGKey(seed), policy.initial_state(slots)
        self._device = device
        if device is not None:
            self._key, self._state = jax.device_put((self._key, self._state), device)
        self._steps = 0

    def __call__(self, params: Nest, timestep: TimeStep) -> tuple[np.ndarray, Nest, Nest]:
        """The action in this time step [B], its extras, and the policy's core before it."""
        compiles = not self._steps and "compiling" not in self._stopwatch.finished
        with self._stopwatch("compiling" if compiles else "acting"):
            *out, self._state = self._policy.step(params, self._key, self._steps, timestep, self._state)
            if self._device is None:
                action, extras, core = jax.device_get(out)
            else:
                action, extras, core = jax.device_get(out[0]), *out[1:]
        self._steps += 1
        return action, extras, core

    def executed(self, action: np.ndarray) -> None:
        """See `nodes.acting.base.GroupAct`."""
        self._state = self._policy.executed(self._state, action)


class RefreshingAct:
    """The policy of a group of environments, which takes newer params where they are due.

    Args:
      acting: the policy in the group's stream.
      refresh: when to look for newer params.
      fetch: `(timeout_s) -> (version, params)`, or None if they aren't there within that time.
      wait_for: the node's `wait_for`.
      ready: whether the next call would not wait.
    """

    def __init__(
        self,
        acting: Acting,
        refresh: Refresh,
        fetch: Callable[[float], tuple[int, Nest] | None],
        wait_for: Callable[..., Any],
        ready: Callable[[], bool] = lambda: True,
    ):
        self._acting = acting
        self.executed = acting.executed
        self._refresh = refresh
        self._fetch = fetch
        self._wait_for = wait_for
        self.ready = ready

    def __call__(self, timestep: TimeStep) -> Acted:
        if self._refresh.due:
            self._version, self._params = self._wait_for(self._refresh.waits_for, self._poll)
        self._refresh.rows += 1
        return Acted(self._version, *self._acting(self._params, timestep))

    def _poll(self, timeout_s: float) -> tuple[int, Nest] | None:
        found = self._fetch(timeout_s)
        return None if found is None else self._refresh.allowed(found, timeout_s)


def open_local_acting(
    node: Node, agent: Agent, variables: ParamsHandle, table: Table, refresh_every: int | None = None
) -> OpenAct:
    """Acts in this process; the node's groups share params and compilation. See `nodes.acting.base.open_acting`."""
    policy = jit_policy(agent.policy)
    if isinstance(variables, Colocated):
        if variables.lock_step is not None and refresh_every is not None:
            raise ValueError(
                f"{node.name}: refresh_every is {refresh_every}; in lock-step params change where a sequence has ended"
            )

        def open_colocated(group: int, slots: Slots, seed: int) -> RefreshingAct:
            acting = Acting(policy, slots, seed, node.stopwatch, variables.device)
            lock_step = variables.lock_step
            # Lock-step bounds staleness by itself.
            refresh = Refresh(table, refresh_every, None if lock_step else allowance_of(node, table, slots))

            def fetch(timeout_s: float) -> tuple[int, Nest] | None:
                updates = lock_step and lock_step.updates(group, contract.completed(table, refresh.rows))
                return variables.variables.get(variables.device, updates, timeout_s)

            return RefreshingAct(acting, refresh, fetch, node.wait_for)

        return open_colocated
    params = VariableClient(variables, acting_params(agent))

    def open_act(group: int, slots: Slots, seed: int) -> RefreshingAct:
        del group
        acting = Acting(policy, slots, seed, node.stopwatch)
        allowance = allowance_of(node, table, slots)
        every = refresh_every or (refresh_rows(table) if allowance is None else None)
        refresh = Refresh(table, every, allowance)

        def ready() -> bool:
            if not refresh.due or allowance is None:
                return True
            found = params.fetch(0.0)
            return found is None or allowance.may_begin(found[0])

        return RefreshingAct(acting, refresh, params.fetch, node.wait_for, ready)

    return open_act


def refresh_rows(table: Table) -> int:
    """Env steps of a slot between two looks for newer params: whole periods, but not a call at each of a few steps."""
    return -(-REFRESH_ROWS // table.period) * table.period


class Play:
    """A policy and the environments it plays.

    Args:
      env: the environments, B slots.
      policy, seed, stopwatch: as for `Acting`; stepping is timed as well.

    Attributes:
      timestep: the time step to act on next.
      chosen: called with the action [B, ...] before the environments take it.
    """

    def __init__(self, env: BatchedEnv, policy: CompiledPolicy, seed: int, stopwatch: Stopwatch):
        self.env = env
        self._checked = StepCheck(env.spec, env.num_envs)
        self.timestep = self._checked(env.reset())
        self.chosen: Callable[[np.ndarray], None] = lambda action: None
        self._acting = Acting(policy, Slots(env.num_envs), seed, stopwatch)
        self._stopwatch = stopwatch

    def step(self, params: Nest) -> tuple[TimeStep, np.ndarray, Nest]:
        """Acts, and steps the environments; returns the time step acted on, the action taken and extras."""
        timestep = self.timestep
        action, extras, _ = self._acting(params, timestep)
        action = self.env.executed_action(action)
        self.chosen(action)
        with self._stopwatch("stepping environments"):
            self.timestep = self._checked(self.env.step(action))
        return timestep, action, extras


def jit_policy(policy: Policy) -> CompiledPolicy:
    """Returns the policy with a step that JAX compiles for each of the shapes it is called with."""

    def step(params: Nest, key: Any, t: Any, timestep: TimeStep, state: Nest) -> tuple[Any, Nest, Nest, Nest]:
        action, extras, after = checked_step(policy, params, jax.random.fold_in(key, t), timestep, state)
        return action, extras, policy.core(state), after

    return CompiledPolicy(policy.initial_state, jax.jit(step), policy.executed)


def evaluated_policy(agent: Agent, deterministic: bool | None) -> Policy:
    """The policy by which an agent is evaluated.

    Args:
      agent: the agent.
      deterministic: True for one that takes its best action, False for one that draws actions as actors do, None for
        the agent's own `eval_policy`, whichever it is.

    Raises:
      ValueError: the agent has no such policy.
    """
    if deterministic is None:
        return agent.eval_policy
    for policy in (agent.eval_policy, agent.policy):
        if policy.deterministic == deterministic:
            return policy
    raise ValueError(
        f"evaluation.deterministic is {deterministic}, but neither of the agent's policies is: where its config has an "
        "eval_mode, give 'greedy'"
    )


def acting_params(agent: Agent) -> Nest:
    """Shapes of the params that the policy acts with; nothing is computed."""
    return jax.eval_shape(lambda: agent.update.params(agent.update.init(jax.random.PRNGKey(0))))


class _Shapes(NamedTuple):
    """The shapes of one step of an agent in environments with this spec."""

    agent: Agent
    spec: EnvSpec
    steps: Steps


# Those that were asked for last: a learner and its tables ask for the same, and a trace takes long.
_shapes: _Shapes | None = None


def step_shapes(agent: Agent, spec: EnvSpec) -> Steps:
    """Shapes and dtypes of one raw step of one slot, as the writer stores it; nothing is computed."""
    global _shapes
    last = _shapes
    if last is None or last.agent != agent or last.spec != spec:
        last = _shapes = _Shapes(agent, spec, _traced_shapes(agent, spec))
    return last.steps


def _traced_shapes(agent: Agent, spec: EnvSpec) -> Steps:
    """See `step_shapes`."""

    def step(params: Nest) -> Steps:
        timestep = jax.tree.map(lambda leaf: jnp.zeros((1, *leaf.shape), leaf.dtype), spec.timestep)
        state = agent.policy.initial_state(Slots(1))
        action, extras, _ = checked_step(agent.policy, params, jax.random.PRNGKey(0), timestep, state)
        require_stored(extras)
        core = agent.policy.core(state)
        return Steps.of(timestep, action, extras, timestep.step_type, core)

    shapes = jax.eval_shape(step, acting_params(agent))
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), shapes)
    require_played(one.action, spec.actions)
    return one
