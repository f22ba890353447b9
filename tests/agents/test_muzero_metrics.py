"""What MuZero's metrics say of a batch."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Batch, Steps
from boonta.agents.muzero import Config
from boonta.agents.muzero.loss import muzero_loss
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
