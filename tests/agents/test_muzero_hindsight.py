"""Hindsight over recorded steps, with a model whose every prediction is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Steps
from boonta.agents.heads import make_support
from boonta.agents.muzero import Config
from boonta.agents.muzero.hindsight import look_back
from boonta.agents.muzero.networks import Model, Prediction
from boonta.agents.muzero.policy import Extras
from boonta.envs.base import FIRST, LAST, MID

pytestmark = pytest.mark.once

CONFIG = Config(unroll_length=2, frame_stack=2, discount=0.5, support_bins=51, support_limit=100.0)


def logits_of(value):
    return jnp.log(make_support(CONFIG.support_limit, CONFIG.support_bins).apply(value) + 1e-9)


# A hidden state is (frame before, frame); the value is 10 * frame before + frame; action a adds a + 1 to the frame, and
# the reward is what the frame then is.
MODEL = Model(
    init=lambda key: (),
    represent=lambda params, stack: stack,
    predict=lambda params, x: Prediction(jnp.zeros((len(x), 3)), logits_of(10 * x[:, 0] + x[:, 1])),
    dynamics=lambda params, x, choice: (
        x.at[:, 1].add(choice @ jnp.array([1.0, 2.0, 0.0])),
        logits_of(x[:, 1] + choice @ jnp.array([1.0, 2.0, 0.0])),
    ),
    project=lambda params, x: x,
    foresee=lambda params, x: x,
)


def record(step_type, discount):
    """Five rows, that is an episode of three and what there is of the next; action 1 in row 0 only."""
    column = np.arange(1.0, 6.0, dtype=np.float32)[:, None]  # [M, B]
    action = np.array([1, 0, 0, 0, 0], np.int32)[:, None]
    extras = Extras(np.full((5, 1, 2), 0.5, np.float32), np.zeros((5, 1), np.float32))
    reward = np.where(np.array(step_type)[:, None] == FIRST, 0, column)
    return Steps(
        column,
        np.array(step_type, np.int32)[:, None],
        reward.astype(np.float32),
        np.array(discount, np.float32)[:, None],
        action,
        extras,
        np.zeros((5, 1), np.int32),
    )


@pytest.fixture(scope="module")
def looking():
    return jax.jit(lambda steps: look_back((), steps, model=MODEL, config=CONFIG))


def test_the_model_follows_what_was_done_and_stacks_only_frames_of_the_episode(looking):
    found = looking(record([FIRST, MID, LAST, FIRST, MID], [1, 1, 0, 1, 1]))
    np.testing.assert_allclose(found.hidden[0], [[0, 1], [0, 3], [0, 4]])
    np.testing.assert_allclose(found.hidden[:, 0], [[0, 1], [1, 2], [2, 3], [0, 4], [4, 5]])
    np.testing.assert_allclose(found.value[0], [1, 3, 4], atol=1e-2)
    np.testing.assert_allclose(found.value[1, :2], [12, 13], rtol=1e-3)
    np.testing.assert_allclose(found.reward[:2], [[3, 4], [3, 4]], atol=1e-2)


def test_returns_go_to_the_end_of_the_episode_or_of_the_rows(looking):
    """Rewards are 2 and 3 of the first episode, 5 of the second, whose last row has the value 45."""
    found = looking(record([FIRST, MID, LAST, FIRST, MID], [1, 1, 0, 1, 1]))
    np.testing.assert_allclose(found.returns, [2 + 0.5 * 3, 3, 0, 5 + 0.5 * 45, 45], rtol=1e-3)


def test_after_a_truncation_the_network_is_believed(looking):
    """The value of the LAST row is 23."""
    found = looking(record([FIRST, MID, LAST, FIRST, MID], [1, 1, 1, 1, 1]))
    np.testing.assert_allclose(found.returns[:3], [2 + 0.5 * (3 + 0.5 * 23), 3 + 0.5 * 23, 23], rtol=1e-3)
