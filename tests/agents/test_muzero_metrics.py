"""What MuZero's metrics say of a batch, and what a model with chance learns."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Batch, Steps
from boonta.agents.heads import make_support
from boonta.agents.muzero import Config
from boonta.agents.muzero.loss import Chance, chance_loss, muzero_loss, unroll_model
from boonta.agents.muzero.networks import ChanceModel, Model, Prediction
from boonta.agents.muzero.policy import Extras
from boonta.agents.optimisation import Context
from boonta.envs.base import LAST, MID

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

CHANCES = np.array([0.8, 0.2], np.float32)
CONFIG = Config(roots=2, unroll_length=3, bootstrap_length=2, search="stochastic", chance_codes=2, consistency_cost=0.0)


def predicting(choices):
    """A prediction of these logits, and of all values alike."""
    return lambda params, hidden: Prediction(
        jnp.broadcast_to(choices, (len(hidden), len(choices))), jnp.zeros((len(hidden), CONFIG.support_bins))
    )


# Its policy is that of the searches, and the dummy action has none of it.
MODEL = Model(
    init=lambda key: (),
    represent=lambda params, stack: stack[:, :1],
    predict=predicting(jnp.log(jnp.append(CHANCES, 1e-30))),
    dynamics=lambda params, hidden, choice: (hidden, jnp.zeros((len(hidden), CONFIG.support_bins))),
    chance=ChanceModel(
        afterstate=lambda params, hidden, choice: hidden,
        predict=predicting(jnp.zeros(2)),
        encode=lambda params, stack: jnp.ones((len(stack), 2)) / 2,
    ),
)


def test_an_afterstates_value_is_that_of_the_state_before_it():
    """The searches' values are 0 and N is 1, so that a row's value is the next row's reward: 1, 2 and 3."""
    config = dataclasses.replace(CONFIG, roots=1, unroll_length=2, bootstrap_length=1, value_target="search")
    logits = jnp.linspace(-1.0, 1.0, config.support_bins)

    def judged(params, hidden):
        return Prediction(jnp.zeros((len(hidden), 2)), jnp.broadcast_to(logits, (len(hidden), len(logits))))

    model = MODEL._replace(chance=MODEL.chance._replace(predict=judged))
    ones, zeros = np.ones((4, 1), np.float32), np.zeros((4, 1), np.int32)
    reward = np.arange(4, dtype=np.float32)[:, None]
    extras = Extras(np.broadcast_to(CHANCES, (4, 1, 2)), 0 * ones)
    steps = Steps(ones, zeros + MID, reward, ones, zeros, extras, zeros)
    context = Context((), jax.random.PRNGKey(0), jnp.int32(0))
    loss = jax.jit(functools.partial(muzero_loss, model=model, config=config))
    metrics = loss((), context, Batch(steps, np.ones(1, np.float32)))[1].metrics
    wanted = make_support(config.support_limit, config.support_bins).apply(jnp.array([1.0, 2.0]))
    found = float(metrics["afterstate_loss"])
    assert found == pytest.approx(-float(jnp.mean(wanted @ jax.nn.log_softmax(logits))), rel=1e-4)


def test_a_model_that_predicts_its_targets_has_the_losses_that_the_page_tells():
    """The policy's is twice the entropy of the searches', and an afterstate's value has half of the value's loss.

    The last row is only bootstrapped from. Its policy is no target, and so no part of the entropy.
    """
    shape = (CONFIG.sequence_length, 3)
    last = np.zeros(shape, bool)
    last[-1] = True
    ones, zeros = np.ones(shape, np.float32), np.zeros(shape, np.int32)
    extras = Extras(np.where(last[..., None], np.float32(0.5), CHANCES), 0 * ones)
    steps = Steps(ones, np.where(last, LAST, MID).astype(np.int32), ones, 1 - last * ones, zeros, extras, zeros)
    context = Context((), jax.random.PRNGKey(0), jnp.int32(0))
    loss = jax.jit(functools.partial(muzero_loss, model=MODEL, config=CONFIG))
    metrics = loss((), context, Batch(steps, np.ones(3, np.float32)))[1].metrics
    entropy = -np.sum(CHANCES * np.log(CHANCES))
    assert float(metrics["search_entropy"]) == pytest.approx(entropy, rel=1e-5)
    assert float(metrics["policy_loss"]) == pytest.approx(2 * entropy, rel=1e-5)
    assert float(metrics["afterstate_loss"]) == pytest.approx(float(metrics["value_loss"]) / 2, rel=1e-5)


def test_a_code_is_one_hot_and_its_gradient_goes_straight_through_to_the_encoding():
    """The next hidden state is 1 for the first code and 3 for the second; the encoding moves from one to the other."""

    def hidden(share):
        encoding = jnp.stack([share, 1 - share])[None]
        model = MODEL._replace(
            chance=MODEL.chance._replace(encode=lambda params, stack: encoding),
            dynamics=lambda params, hidden, choice: (choice @ jnp.array([[1.0], [3.0]]), choice),
        )
        return unroll_model((), jnp.ones((2, 1, 1)), jnp.zeros((1, 1), jnp.int32), model, 2).hidden[0, 1, 0]

    value, slope = jax.value_and_grad(hidden)(0.8)
    np.testing.assert_allclose([value, slope], [1.0, -2.0], rtol=1e-5)


def test_codes_are_predicted_and_the_encoding_is_drawn_to_its_own_choice():
    def loss(code, encoding):
        return chance_loss(Chance(code, (), encoding))[0, 0]

    code, encoding = jnp.array([[[0.0, 2.0]]]), jnp.array([[[0.6, 0.4]]])
    value, (predicted, encoded) = jax.value_and_grad(loss, (0, 1))(code, encoding)
    likely = np.exp(2) / (1 + np.exp(2))  # The probability of the second code, which the encoder doesn't choose.
    assert value == pytest.approx(-np.log(1 - likely) + 2 * 0.4**2, rel=1e-5)
    np.testing.assert_allclose(predicted[0, 0], [-likely, likely], rtol=1e-5)
    np.testing.assert_allclose(encoded[0, 0], [-0.8, 0.8], rtol=1e-5)
