"""DQN's loss on whole batches: roots, masks, weights, double Q-learning, legal actions and frames, by hand."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import dqn
from boonta.agents.base import Batch, Steps
from boonta.agents.config import replaced
from boonta.agents.dqn.loss import dqn_loss
from boonta.agents.optimisation import Context
from boonta.envs.base import FIRST, LAST, MID, BoardView

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
A = 3
CONFIG = replaced(
    dqn.CATCH, {"double": False, "bootstrap_length": 2, "roots": 1, "discount": 0.5, "replay.importance_exponent": 1.0}
)


def table_network():
    """A network whose params are its values by state, [S, A]; a state is the newest frame's number."""

    def apply(params, key, stack):
        state = stack[..., -1].astype(jnp.int32)
        return dqn.Outputs(params[state][..., None], jnp.zeros((len(state), 1)))

    return dqn.Network(lambda key: jnp.zeros((9, A)), apply)


def batch_of(rows, probability=(1.0,), legal=None):
    """Steps [T, B] of rows (step type, reward, discount, state, action), one list of rows for each sequence."""
    columns = [np.array(column).T for column in zip(*[zip(*row) for row in rows])]
    step_type, reward, discount, state, action = columns
    observation = state.astype(np.float32)
    if legal is not None:
        observation = BoardView(observation, legal, np.zeros_like(step_type, np.int32))
    step_type, action = step_type.astype(np.int32), action.astype(np.int32)
    reward, discount = reward.astype(np.float32), discount.astype(np.float32)
    steps = Steps(observation, step_type, reward, discount, action, (), np.zeros_like(step_type))
    return Batch(steps, np.array(probability, np.float32))


@functools.cache
def compiled_loss(config):
    """Compiled once for all tests."""
    return jax.jit(functools.partial(dqn_loss, network=table_network(), num_actions=A, config=config))


def loss_of(batch, config=CONFIG, params=None, target=None):
    params = np.arange(27, dtype=np.float32).reshape(9, A) / 10 if params is None else np.float32(params)
    context = Context(params if target is None else np.float32(target), jax.random.PRNGKey(0), np.int32(0))
    loss, outcome = compiled_loss(config)(params, context, batch)
    return float(loss), np.asarray(outcome.priorities), outcome.metrics


def test_an_error_by_hand():
    """State 0, action 1 is worth 0.1; the target is 1 + 2 / 2 + 0.25 * 0.8, the best of state 2."""
    rows = [(MID, 0, 1, 0, 1), (MID, 1, 1, 1, 0), (MID, 2, 1, 2, 0)]
    loss, priorities, metrics = loss_of(batch_of([rows]))
    assert loss == pytest.approx(2.1 - 0.5) and priorities == pytest.approx([2.1])
    assert float(metrics["value"]) == pytest.approx(0.1) and float(metrics["value_target"]) == pytest.approx(2.2)


def test_rewards_are_clipped_where_the_config_says_so():
    rows = [(MID, 0, 1, 0, 1), (MID, 1, 1, 1, 0), (MID, 2, 1, 2, 0)]
    _, priorities, _ = loss_of(batch_of([rows]), replaced(CONFIG, {"reward_clip": "abs_one"}))
    assert priorities == pytest.approx([1.7 - 0.1])


def test_ends_and_weights():
    """One sequence goes on, one terminates, one is truncated, one starts at LAST and doesn't count."""
    rows = [
        [(MID, 0, 1, 0, 0), (MID, 0, 1, 1, 0), (MID, 0, 1, 2, 0)],
        [(MID, 0, 1, 0, 0), (LAST, 1, 0, 1, 0), (FIRST, 0, 1, 2, 0)],
        [(MID, 0, 1, 0, 0), (LAST, 1, 1, 1, 0), (FIRST, 0, 1, 2, 0)],
        [(LAST, 0, 1, 0, 0), (FIRST, 0, 1, 1, 0), (MID, 5, 1, 2, 0)],
    ]
    errors = np.array([0.25 * 0.8, 1.0, 1 + 0.5 * 0.5, 0.0])
    loss, priorities, metrics = loss_of(batch_of(rows, probability=[1, 2, 1, 0.01]))
    np.testing.assert_allclose(priorities, errors, rtol=1e-5)
    losses = [0.2**2 / 2, 0.5 * 0.5, 1.25 - 0.5]  # The second was drawn twice as often as the others.
    assert loss == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert float(metrics["importance_exponent"]) == 1


def test_roots_follow_each_other():
    rows = [(MID, 0, 1, 0, 0), (MID, 1, 1, 1, 1), (LAST, 2, 0, 2, 0), (FIRST, 0, 1, 3, 0), (MID, 7, 1, 4, 0)]
    _, priorities, _ = loss_of(batch_of([rows]), replaced(CONFIG, {"roots": 3}))
    assert priorities == pytest.approx([(2.0 + abs(2 - 0.4)) / 2])  # The third root is LAST.


def test_roots_stay_with_their_sequence():
    """All values are 0, so that a root's error is its return: [LAST, 3], [1, LAST] and [0, 4].

    The sequences were drawn once, twice and four times as often. Errors above 1 are linear.
    """
    rows = [
        [(LAST, 0, 0, 0, 0), (FIRST, 0, 1, 0, 0), (MID, 3, 1, 0, 0), (MID, 0, 1, 0, 0)],
        [(MID, 0, 1, 0, 0), (LAST, 1, 0, 0, 0), (FIRST, 0, 1, 0, 0), (MID, 0, 1, 0, 0)],
        [(MID, 0, 1, 0, 0), (MID, 0, 1, 0, 0), (MID, 0, 1, 0, 0), (MID, 8, 1, 0, 0)],
    ]
    config = replaced(CONFIG, {"roots": 2})
    loss, priorities, _ = loss_of(batch_of(rows, probability=[1, 2, 4]), config, np.zeros((9, A)))
    np.testing.assert_allclose(priorities, [3, 1, 2])
    assert loss == pytest.approx((2.5 + 0.5 / 2 + 3.5 / 4) / 4)


def test_double_q_learning():
    """The learned network prefers action 0, which the target network values less than its own best."""
    rows = [(MID, 0, 1, 0, 0), (MID, 0, 1, 0, 0), (MID, 0, 1, 1, 0)]
    params, target = np.zeros((9, A)), np.zeros((9, A))
    params[1], target[1] = [3, 2, 1], [4, 8, 12]
    single = loss_of(batch_of([rows]), CONFIG, params, target)[1]
    double = loss_of(batch_of([rows]), replaced(CONFIG, {"double": True}), params, target)[1]
    assert (single, double) == (pytest.approx([3.0]), pytest.approx([1.0]))


def test_illegal_actions_are_not_bootstrapped_from():
    rows = [(MID, 0, 1, 0, 0), (MID, 0, 1, 1, 0), (MID, 0, 1, 2, 0)]
    legal = np.array([[[True] * 3], [[True] * 3], [[True, False, False]]])
    _, priorities, _ = loss_of(batch_of([rows], legal=legal))
    assert priorities == pytest.approx([0.25 * 0.6])


def test_recorded_actions_are_worth_more_than_others():
    rows = [(MID, 0, 1, 0, 1), (MID, 0, 1, 1, 0), (MID, 0, 1, 2, 0)]
    plain, conservative = (loss_of(batch_of([rows]), replaced(CONFIG, {"conservative_cost": c}))[0] for c in (0.0, 4.0))
    assert conservative - plain == pytest.approx(4 * (np.log(np.sum(np.exp([0, 0.1, 0.2]))) - 0.1), rel=1e-4)


def test_no_illegal_action_is_held_to_be_worth_less_than_the_recorded_one():
    rows = [(MID, 0, 1, 0, 1), (MID, 0, 1, 1, 0), (MID, 0, 1, 2, 0)]
    legal = np.array([[[True, True, False]], [[True] * 3], [[True] * 3]])
    batch = batch_of([rows], legal=legal)
    plain, conservative = (loss_of(batch, replaced(CONFIG, {"conservative_cost": c}))[0] for c in (0.0, 4.0))
    assert conservative - plain == pytest.approx(4 * (np.log(np.sum(np.exp([0, 0.1]))) - 0.1), rel=1e-4)


def test_two_players_take_turns():
    """What the other player can win, after one move, is lost."""
    rows = [(MID, 0, 1, 0, 0), (MID, 1, 1, 1, 0)]
    config = replaced(CONFIG, {"discount": -1.0, "bootstrap_length": 1})
    assert loss_of(batch_of([rows]), config)[1] == pytest.approx([1 - 0.5])


def test_frames_are_stacked_up_to_the_start_of_an_episode():
    seen: list = []

    def apply(params, key, stack):
        seen.append(stack)
        return dqn.Outputs(jnp.zeros((len(stack), A, 1)), jnp.zeros((len(stack), 1)))

    @jax.jit
    def stacks(batch):
        context = Context((), jax.random.PRNGKey(0), jnp.int32(0))
        network = dqn.Network(lambda key: (), apply)
        dqn_loss((), context, batch, network=network, num_actions=A, config=config)
        return seen[:2]

    rows = [(MID, 0, 1, 5, 0), (MID, 0, 1, 6, 0), (LAST, 0, 1, 7, 0), (FIRST, 0, 1, 8, 0), (MID, 0, 1, 1, 0)]
    config = replaced(CONFIG, {"frame_stack": 3, "bootstrap_length": 1, "roots": 2})
    roots, later = (np.asarray(stack).tolist() for stack in stacks(batch_of([rows])))
    assert roots == [[5, 6, 7], [0, 0, 8]] and later == [[0, 0, 8], [0, 8, 1]]


def test_a_support_that_targets_leave_is_measured():
    config = replaced(CONFIG, {"distribution": "categorical", "support_bins": 3, "support_limit": 1.0})

    def apply(params, key, stack):
        return dqn.Outputs(jnp.zeros((len(stack), A, 3)), jnp.zeros((len(stack), 3)))

    rows = [[(MID, 0, 1, 0, 0), (MID, 3, 1, 1, 0), (MID, 0, 1, 2, 0)], [(MID, 0, 1, 0, 0)] * 3]
    context = Context((), jax.random.PRNGKey(0), jnp.int32(0))
    network = dqn.Network(lambda key: (), apply)
    compiled = jax.jit(functools.partial(dqn_loss, network=network, num_actions=A, config=config))
    _, outcome = compiled((), context, batch_of(rows, [1.0, 1.0]))
    assert float(outcome.metrics["largest_target_share"]) == pytest.approx(3)
    assert float(outcome.metrics["outside_support"]) == 0.5
