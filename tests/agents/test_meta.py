"""Meta-gradients against a hand-made one, and a discount that is learned."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import impala, optimisation
from boonta.agents.base import Agent, Batch, Steps, Table
from boonta.agents.groups import Optimiser
from boonta.agents.meta import bounded, meta_gradient
from boonta.envs.jax.catch import Catch
from boonta.nodes.fused.fusion import fuse

pytestmark = pytest.mark.once

RATE = 0.1  # Learning rate of the inner gradient descent.


@dataclasses.dataclass(frozen=True)
class Config:
    weight: float = 3.0
    batch_size: int = 4


def make(config: Config) -> Agent:
    """A param that is drawn to the batch's mean reward, by gradient descent on weight * (param - reward)^2."""

    def loss(params, context, batch):
        return config.weight * (params - jnp.mean(batch.steps.reward)) ** 2, optimisation.Outcome(None, {})

    descent = Optimiser("sgd", RATE, max_grad_norm=math.inf)
    update = optimisation.make_update(lambda key: jnp.float32(2.0), loss, descent)
    table = Table("t", "queue", sequence_length=1, period=1, batch_size=config.batch_size, size=8)
    return Agent(None, None, update, (table,))  # The test doesn't act.


def batch(rewards) -> Batch:
    reward = np.asarray([rewards], np.float32)  # [1, B]
    return Batch(Steps(reward, reward, reward, reward, reward, (), reward), np.ones(len(rewards), np.float32))


def test_the_gradient_goes_through_the_update():
    start, judged_by = 0.5, 3.0
    agent = meta_gradient(make, Config(judged_by), {"weight": start}, learning_rate=0.01)
    state, priorities, metrics = agent.update.step(
        agent.update.init(jax.random.PRNGKey(0)), batch([1.0, 6.0, 1.0, 8.0])
    )
    first, second = 1.0, 7.0  # The mean rewards of the halves.
    after_first = 2.0 - RATE * 2 * start * (2.0 - first)
    gradient = judged_by * 2 * (after_first - second) * -RATE * 2 * (2.0 - first)  # The gradient by the weight.
    by_eta = gradient * start  # The gradient through the exponential.
    np.testing.assert_allclose(state.opt_state[0].mu["weight"], 0.1 * by_eta, rtol=1e-5)
    np.testing.assert_allclose(metrics["meta/loss"], judged_by * (after_first - second) ** 2, rtol=1e-5)
    weight = float(metrics["meta/weight"])
    np.testing.assert_allclose(weight, bounded(start, -0.01 * np.sign(by_eta), share=False), rtol=1e-4)
    # The update on the second half uses the new hyper-parameters.
    expected = after_first - RATE * 2 * weight * (after_first - second)
    np.testing.assert_allclose(agent.update.params(state), expected, rtol=1e-5)
    assert priorities is None
    assert state.learner.updates == 1  # Schedules count batches, not halves.


def test_priorities_are_those_of_the_batchs_own_sequences():
    """The halves are of every second sequence."""

    def make_prioritised(config: Config) -> Agent:
        agent = make(config)

        def step(state, batch):
            state, _, metrics = agent.update.step(state, batch)
            return state, batch.steps.reward[0], metrics

        return agent._replace(update=agent.update._replace(step=step))

    agent = meta_gradient(make_prioritised, Config(), {"weight": 0.5})
    rewards = [1.0, 6.0, 2.0, 8.0]
    _, priorities, _ = agent.update.step(agent.update.init(jax.random.PRNGKey(0)), batch(rewards))
    assert priorities.tolist() == rewards


def test_hyper_parameters_stay_within_their_bounds():
    x = jnp.linspace(-5, 5, 11)
    share, cost = bounded(0.9, x, share=True), bounded(0.5, x, share=False)
    assert np.all((share > 0) & (share < 1)) and np.all(cost > 0) and cost[-1] > 1
    np.testing.assert_allclose([share[5], cost[5]], [0.9, 0.5], rtol=1e-6)
    assert np.all(np.diff(share) > 0) and np.all(np.diff(cost) > 0)


@pytest.mark.unoptimised
def test_impala_learns_to_look_further_ahead():
    """The learned discount rises from 0.5, because 0.99 judges it and Catch's reward comes after nine steps."""
    env = Catch()
    config = dataclasses.replace(impala.CATCH, batch_size=32, unroll_length=16, discount=0.99)
    agent = meta_gradient(lambda config: impala.make(config, env.spec), config, {"discount": 0.5}, 0.05)
    fused = fuse(agent, env, 32)
    key = jax.random.PRNGKey(0)
    state, _ = jax.jit(fused.init)(agent.update.init(key), jnp.int32(0), key)
    _, outcome = jax.jit(fused.rounds)(state, 60)
    assert 0.6 < float(outcome.metrics["meta/discount"]) < 1
    assert np.isfinite(outcome.metrics["meta/loss"])


@pytest.mark.parametrize(
    ("config", "start", "message"),
    [
        (Config(), {}, "names no hyper-parameter"),
        (Config(), {"batch_size": 2.0}, "batch_size is no number's field of Config"),
        (Config(), {"wait": 2.0}, "wait is no number's field of Config"),
        (Config(), {"weight": 0.0}, "weight starts at 0.0; it must be above 0"),
        (Config(), {"weight": float("nan")}, "weight starts at nan; it must be above 0, and finite"),
        (Config(), {"weight": float("inf")}, "weight starts at inf; it must be"),
        (impala.CATCH, {"discount": 1.0}, "discount starts at 1.0; it must be above 0 and below 1"),
        (Config(batch_size=3), {"weight": 1.0}, "batch_size is 3; a meta-gradient needs two halves"),
    ],
)
def test_bad_input_is_refused(config, start, message):
    with pytest.raises(ValueError, match=message):
        meta_gradient(make, config, start)


@dataclasses.dataclass(frozen=True)
class Limited(Config):
    lag: float = 8.0
    unused: float = 1.0


def make_limited(config: Limited) -> Agent:
    """The same with a table that has a limit of its own."""
    agent = make(config)
    return agent._replace(tables=(dataclasses.replace(agent.tables[0], max_lag=config.lag),))


def test_a_field_whose_value_is_needed_before_anything_is_computed_is_refused():
    with pytest.raises(ValueError, match="^meta-gradient: lag can't be learned: the agent needs its value before"):
        meta_gradient(make_limited, Limited(), {"weight": 0.5, "lag": 9.0})


@pytest.mark.parametrize("stopped", [False, True])
def test_fields_that_no_gradient_reaches_are_refused_when_the_update_is_traced(stopped):
    """Whether the loss doesn't depend on them, or stops their gradient."""

    def make_stopped(config: Limited) -> Agent:
        return make(dataclasses.replace(config, weight=jax.lax.stop_gradient(config.weight)))

    start = {"weight": 0.5} if stopped else {"unused": 0.5, "weight": 0.5}
    agent = meta_gradient(make_stopped if stopped else make, Limited(), start)
    message = f"^meta-gradient: no gradient reaches {'weight' if stopped else 'unused'}, which would never change$"
    with pytest.raises(ValueError, match=message):
        agent.update.step(agent.update.init(jax.random.PRNGKey(0)), batch([1.0, 6.0]))
