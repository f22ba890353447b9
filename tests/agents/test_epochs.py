"""Updates of several steps: epochs, minibatches, what is prepared for them, and statistics of the whole batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import optimisation
from boonta.agents.base import Batch, Steps
from boonta.agents.groups import Optimiser

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def sequences_of(rewards):
    """A batch of sequences of one step."""
    reward = jnp.asarray([rewards], jnp.float32)
    return Batch(Steps(reward, reward, reward, reward, reward, (), reward), jnp.ones(len(rewards)))


def learn_sum(epochs, minibatches, rewards, statistics=None, further=None, **settings):
    """Descends on `param * sum(rewards)`; priorities are the rewards themselves, statistics their sum."""

    def loss(params, context, batch):
        reward = batch.steps.reward[0]
        metrics = {"size": jnp.float32(reward.size), "known": context.statistics if statistics else 0.0}
        metrics |= {"first": reward[0]}
        return params * jnp.sum(reward), optimisation.Outcome(reward + 0 * params, metrics, jnp.sum(reward))

    optimiser = Optimiser("sgd", 0.1, max_grad_norm=1e9, **settings)
    update = optimisation.make_update(
        lambda key: jnp.float32(0.0),
        loss,
        optimiser,
        statistics=statistics,
        epochs=epochs,
        minibatches=minibatches,
        further=further,
    )
    state = update.init(jax.random.PRNGKey(0))
    return *jax.jit(update.step)(state, sequences_of(rewards)), update


def test_each_epoch_sees_each_sequence_once():
    rewards = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    state, priorities, metrics, _ = learn_sum(3, 2, rewards)
    np.testing.assert_allclose(state.params, -0.1 * 3 * 63, rtol=1e-6)
    np.testing.assert_array_equal(priorities, rewards)
    assert float(metrics["size"]) == 3 and int(state.updates) == 1
    assert float(metrics["grad_norm"]) == pytest.approx(63 / 2)


def test_minibatches_are_dealt_anew_in_each_epoch_and_update():
    """Rewards are powers of two, so that the sum of the first ones of two minibatches identifies them."""
    rewards = [1.0, 2.0, 4.0, 8.0]
    for epochs in (1, 2):
        state, _, metrics, update = learn_sum(epochs, 2, rewards)
        sums = [2 * float(metrics["first"])]  # Over two minibatches, and the mean over epochs.
        for _ in range(9):
            state, _, metrics = update.step(state, sequences_of(rewards))
            sums.append(2 * float(metrics["first"]))
        assert len(set(sums)) > 3
        assert any(value % 1 for value in sums) == (epochs == 2)  # A fraction, where the epochs' deals differ.


def test_the_learning_rate_falls_by_updates_not_by_steps():
    rewards = [1.0, 1.0]
    state, _, metrics, update = learn_sum(2, 2, rewards, anneal_updates=2)
    np.testing.assert_allclose(state.params, -0.1 * 4, rtol=1e-5)  # Four steps of gradient 1 at the first rate.
    state, _, metrics = update.step(state, sequences_of(rewards))
    np.testing.assert_allclose(metrics["learning_rate"], 0.05, rtol=1e-6)
    np.testing.assert_allclose(state.params, -0.1 * 4 - 0.05 * 4, rtol=1e-5)


def test_epochs_that_are_left_out_do_not_slow_the_fall_of_the_learning_rate():
    rewards = [1.0, 1.0]
    state, _, metrics, update = learn_sum(
        3, 1, rewards, further=lambda metrics: metrics["loss"] > 1e9, anneal_updates=2
    )
    state, _, metrics = update.step(state, sequences_of(rewards))
    assert float(metrics["epochs"]) == 1
    np.testing.assert_allclose(metrics["learning_rate"], 0.05, rtol=1e-6)
    np.testing.assert_allclose(state.params, -0.1 * 2 - 0.05 * 2, rtol=1e-5)


def test_statistics_count_each_sequence_once_and_hold_still_within_an_update():
    statistics = optimisation.Statistics(lambda: jnp.float32(100.0), lambda known, new: known + new)
    for epochs, minibatches in ((1, 1), (3, 2)):
        state, _, metrics, update = learn_sum(epochs, minibatches, [1.0, 2.0, 3.0, 4.0], statistics)
        assert float(state.statistics) == 110 and float(metrics["known"]) == 100
        _, _, metrics = update.step(state, sequences_of([1.0, 2.0, 3.0, 4.0]))
        assert float(metrics["known"]) == 110


def test_minibatches_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="minibatches is 4; it must divide a batch of 6 sequences"):
        learn_sum(1, 4, [1.0] * 6)
    with pytest.raises(ValueError, match="epochs is 0, minibatches is 1; they must be at least 1"):
        learn_sum(0, 1, [1.0])


def test_what_is_prepared_and_the_loss_have_keys_of_their_own():
    """Of one key both would draw the same numbers."""

    def loss(params, context, units):
        metrics = {"prepared": units[0], "drawn": jax.random.uniform(context.key)}
        return params * 0.0, optimisation.Outcome(None, metrics)

    update = optimisation.make_update(
        lambda key: jnp.float32(0.0),
        loss,
        Optimiser("sgd", 0.1),
        prepare=lambda params, context, batch: jax.random.uniform(context.key)[None],
    )
    metrics = update.step(update.init(jax.random.PRNGKey(0)), ())[2]
    assert float(metrics["prepared"]) != float(metrics["drawn"])
