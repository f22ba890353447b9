"""What a policy of a user's own returns is refused where it doesn't fit, by name, wherever the policy runs."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Slots
from boonta.envs.base import TimeStep
from boonta.envs.catch import Catch
from boonta.envs.jax.catch import Catch as JaxCatch
from boonta.nodes.acting.local import acting_params, jit_policy, step_shapes
from boonta.nodes.acting.outputs import OutputError
from boonta.nodes.fused.learners import check_fits
from boonta.tests.helpers import tiny

SPEC = Catch().spec
B = 4
MISTAKES = {
    "extras['x'] is float32[3]; it must be an array [B, ...] with a row": lambda a, e, s: (a, {"x": jnp.zeros(3)}, s),
    "extras['x'] is 1.0; it must be an array [B, ...]": lambda a, e, s: (a, {"x": 1.0}, s),
    "extras['x'] is 'left'; it must be an array [B, ...]": lambda a, e, s: (a, {"x": "left"}, s),
    "action is int32[]; it must be an array [B, ...]": lambda a, e, s: (a[0], e, s),
    "action is 1; it must be an array [B, ...]": lambda a, e, s: (1, e, s),
    "step returns 2 values; it must return (action, extras, state)": lambda a, e, s: (a, e),
    "step returns list; it must return (action, extras, state)": lambda a, e, s: [a, e, s],
    "state['frames'] is int32[1, ": lambda a, e, s: (a, e, {**s, "frames": s["frames"][None]}),
    'state has other leaves after a step, ["the policy\'s state"]; it must have': lambda a, e, s: (a, e, s["frames"]),
}


def agent_with(change, state=lambda slots: {"frames": jnp.zeros(slots.size, jnp.int32)}):
    agent = tiny.make(SPEC)

    def step(params, key, timestep, state):
        return change(*agent.policy.step(params, key, timestep, state))

    return agent._replace(policy=agent.policy._replace(initial_state=state, step=step))


def act_once(agent):
    zero = jnp.zeros(B)
    observation = jnp.zeros((B, *SPEC.observations.shape), SPEC.observations.dtype)
    timestep = TimeStep(zero.astype(jnp.int32), zero, zero, observation)
    state = agent.policy.initial_state(Slots(B))
    return jax.eval_shape(
        jit_policy(agent.policy).step, acting_params(agent), jax.random.PRNGKey(0), 0, timestep, state
    )


@pytest.mark.parametrize("message", MISTAKES)
@pytest.mark.parametrize(
    "run", [act_once, lambda agent: step_shapes(agent, SPEC), lambda agent: check_fits(agent, JaxCatch())]
)
def test_what_a_step_returns_is_refused_by_name(message, run):
    with pytest.raises(OutputError, match="^the policy's " + re.escape(message)):
        run(agent_with(MISTAKES[message]))


@pytest.mark.parametrize("change", [lambda a: a.astype(jnp.float32), lambda a: a[:, None]], ids=["real", "shape"])
@pytest.mark.parametrize("run", [lambda agent: step_shapes(agent, SPEC), lambda agent: check_fits(agent, JaxCatch())])
def test_actions_that_the_environment_would_refuse_are_refused_before_the_first_step(change, run):
    with pytest.raises(
        OutputError, match=r"^the agent's actions are \w+\[1?\], those of the environment are int32\[\]; "
    ):
        run(agent_with(lambda a, e, s: (change(a), e, s)))


@pytest.mark.parametrize("part", ["update.init", "update.params", "policy.initial_state"])
def test_a_part_that_fails_by_itself_is_not_blamed_on_the_environment(part):
    agent, (whole, field) = tiny.make(SPEC), part.split(".")
    changed = agent._replace(**{whole: getattr(agent, whole)._replace(**{field: lambda given: (given,).parameters})})
    place = re.escape(f"the agent's {part} fails at test_outputs.py:")
    with pytest.raises(ValueError, match=rf"^{place}\d+, in <lambda>, .*: AttributeError: 'tuple' object has no attr"):
        check_fits(changed, JaxCatch())


def test_a_policy_that_is_no_function_of_jax_is_not_blamed_on_the_environment():
    with pytest.raises(jax.errors.TracerArrayConversionError, match="__array__"):
        check_fits(agent_with(lambda action, extras, state: (np.asarray(action), extras, state)), JaxCatch())


@pytest.mark.parametrize("run", [lambda agent: step_shapes(agent, SPEC), lambda agent: check_fits(agent, JaxCatch())])
def test_none_is_refused_where_it_would_be_stored_and_nowhere_else(run):
    """A policy that isn't an actor's may have it, such as one that explains a search by its tree."""
    agent = agent_with(lambda action, extras, state: (action, {"x": None}, state))
    assert act_once(agent)[1] == {"x": None}
    with pytest.raises(OutputError, match=re.escape("the policy's extras['x'] is None; it must be an array [B, ...]")):
        run(agent)


def test_an_initial_state_without_a_row_for_each_slot_is_refused():
    agent = agent_with(lambda *out: out, state=lambda slots: {"frames": jnp.zeros(1)})
    with pytest.raises(OutputError, match=re.escape("initial_state['frames'] is float32[1]; it must be an array [B")):
        act_once(agent)


def test_none_is_a_state_without_leaves():
    stateless = agent_with(lambda action, extras, _: (action, extras, None), state=lambda slots: None)
    assert jax.tree.map(jnp.shape, act_once(stateless)[2:]) == ((), None)
