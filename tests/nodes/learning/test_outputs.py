"""What an update of a user's own returns is refused where it doesn't fit, by name, in a learner and fused."""

from __future__ import annotations

import dataclasses
import re

import jax
import jax.numpy as jnp
import pytest

from boonta.agents.base import Batch, Table
from boonta.agents.groups import Optimiser
from boonta.agents.metrics import histogram
from boonta.agents.optimisation import Outcome, make_update
from boonta.envs.catch import Catch
from boonta.envs.jax.catch import Catch as JaxCatch
from boonta.nodes.acting.outputs import OutputError
from boonta.nodes.fused.fusion import fuse
from boonta.nodes.learner import Learner
from boonta.nodes.learning.outputs import checked_update
from boonta.nodes.variables import VariableServer
from boonta.tests.helpers import tiny
from boonta.tests.helpers.batches import BatchStore

AGENT = tiny.make(Catch().spec)
(QUEUE,) = AGENT.tables
B = QUEUE.batch_size
REPLAY = Table("kept", "replay", QUEUE.sequence_length, 1, B, size=100, sampler="uniform")
MISTAKES = {
    "the update's step returns 2 values; it must return (state, pri": lambda s, p, m: (s, m),
    "the learner's state.steps is float32[] after a step; it must be as before, int32[]": lambda s, p, m: (
        s._replace(steps=s.steps.astype(jnp.float32)),
        p,
        m,
    ),
    f"the update's priorities are float32[]; they must be float32[{B}]": lambda s, p, m: (s, jnp.zeros(()), m),
    f"the update's priorities are float32[3]; they must be float32[{B}]": lambda s, p, m: (s, jnp.zeros(3), m),
    "the update's metric 'q' is float32[4]; it must be a scalar": lambda s, p, m: (s, p, {**m, "q": jnp.zeros(4)}),
    "the update's metric 'return' has the name of one of the nodes' own": lambda s, p, m: (s, p, {**m, "return": 1.0}),
}


def agent_with(change, **fields):
    update = AGENT.update
    return AGENT._replace(
        update=update._replace(step=lambda state, batch: change(*update.step(state, batch))),
        tables=(dataclasses.replace(QUEUE, **fields),),
    )


@pytest.mark.parametrize("message", MISTAKES)
def test_a_learner_refuses_what_a_step_returns_before_any_data(message, tmp_path):
    agent = agent_with(MISTAKES[message])
    learner = Learner(
        "learner", agent, Catch().spec, BatchStore(), VariableServer("v"), folder=str(tmp_path), devices=1
    )
    with pytest.raises(OutputError, match="^" + re.escape(message)):
        learner.start()


@pytest.mark.parametrize("message", MISTAKES)
def test_a_fused_program_refuses_it(message):
    agent, key = agent_with(MISTAKES[message]), jax.random.PRNGKey(0)
    fusion = fuse(agent, JaxCatch(), B)
    with pytest.raises(OutputError, match="^" + re.escape(message)):
        jax.eval_shape(lambda: fusion.round(fusion.init(agent.update.init(key), 0, key)[0]))


@pytest.mark.parametrize("sampler", ["proportional", "rank"])
def test_priorities_must_not_be_forgotten_where_a_table_draws_by_them(sampler):
    table = dataclasses.replace(REPLAY, sampler=sampler)
    with pytest.raises(OutputError, match=f"priorities are None, but tables draw by them: .'kept': '{sampler}'"):
        checked(lambda *out: out, table)
    checked(lambda s, p, m: (s, jnp.ones(B), m), table)


def test_none_is_right_where_no_table_draws_by_priorities_and_histograms_are_metrics():
    checked(lambda s, p, m: (s, None, {**m, "histogram/error": histogram(jnp.ones(B))}), REPLAY)


def checked(change, table: Table) -> None:
    update = AGENT.update._replace(step=lambda state, batch: change(state, None, {"loss": jnp.zeros(())}))
    batch = Batch((), jax.ShapeDtypeStruct((B,), jnp.float32))
    state = jax.eval_shape(update.init, jax.random.PRNGKey(0))
    jax.eval_shape(lambda state: checked_update(update, state, batch, [table]), state)


@pytest.mark.parametrize("name", ["loss", "grad_norm", "learning_rate"])
def test_a_loss_must_not_name_a_metric_as_the_update_does(name):
    def loss(params, context, batch):
        return jnp.sum(params * batch), Outcome(None, {name: 0.0})

    update = make_update(lambda key: jnp.ones(2), loss, Optimiser("adam", 0.1))
    with pytest.raises(ValueError, match=f"the loss's metric '{name}' must have another name: the update adds"):
        update.step(update.init(jax.random.PRNGKey(0)), jnp.ones(2))


@pytest.mark.parametrize(
    ("returned", "named"), [(lambda value: value, "LinearizeTracer|JVPTracer"), (lambda value: (value, {}), "dict")]
)
def test_a_loss_must_return_its_value_and_an_outcome(returned, named):
    update = make_update(
        lambda key: jnp.ones(2), lambda params, context, batch: returned(jnp.sum(params)), Optimiser("adam", 0.1)
    )
    with pytest.raises(ValueError, match=f"the loss returns .*({named}).*; it must return a scalar and an Outcome"):
        update.step(update.init(jax.random.PRNGKey(0)), jnp.ones(2))
