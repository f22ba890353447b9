"""R2D2: targets and priorities by hand and by rlax, the stored state, the burn-in, and what it refuses."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import r2d2
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.config import replaced
from boonta.agents.light_rlax import rlax
from boonta.agents.optimisation import Context
from boonta.agents.r2d2.loss import r2d2_loss
from boonta.agents.r2d2.networks import make_network
from boonta.agents.recurrence import Core
from boonta.envs.base import FIRST, LAST, MID, BoardView, TimeStep
from boonta.envs.catch import Catch
from boonta.envs.open_spiel import OpenSpiel
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
A = 3
SPEC = Catch().spec
KEY = jax.random.PRNGKey(0)
BASE = replaced(
    r2d2.CATCH,
    {
        "torso.widths": (6,),
        "lstm_size": 4,
        "head_width": 0,
        "roots": 3,
        "period": 2,
        "burn_in": 0,
        "bootstrap_length": 2,
        "discount": 0.5,
        "priority_mix": 0.9,
        "replay.batch_size": 4,
    },
)


def counting(inputs_seen=None):
    """A network whose values are params by state, [S, A], and whose core counts rows; a state is a frame's number."""

    def unroll(params, inputs, core):
        if inputs_seen is not None:
            inputs_seen.append((inputs, core))
        values = params[inputs.stack[..., -1].astype(jnp.int32)]
        return values, core + len(inputs.step_type)

    return r2d2.Network(lambda key: jnp.zeros((9, A)), lambda size: jnp.zeros(size), unroll)


def batch_of(rows):
    """Steps [T, 1] of rows (step type, reward, discount, state, action); the core before them has counted 100."""
    step_type, reward, discount, state, action = (np.array(column)[:, None] for column in zip(*rows))
    core = Core(np.full((1, 1), 100.0, np.float32), np.full((1, 1), 2, np.int32))
    integers = (x.astype(np.int32) for x in (step_type, action))
    step_type, action = integers
    floats = (x.astype(np.float32) for x in (state, reward, discount))
    state, reward, discount = floats
    steps = Steps(state, step_type, reward, discount, action, (), np.zeros_like(step_type), core)
    return Batch(steps, np.ones(1, np.float32))


def loss_of(batch, config, params, target, network=None):
    context = Context(np.float32(target), KEY, jnp.int32(0))
    loss = functools.partial(r2d2_loss, network=network or counting(), config=config)
    return (loss if network else jax.jit(loss))(params.astype(np.float32), context, batch)


ROWS = [(MID, 0, 1, 0, 1), (MID, 1, 1, 1, 0), (LAST, 2, 1, 2, 0), (FIRST, 0, 1, 3, 2), (MID, 4, 1, 4, 0)]
PARAMS = np.arange(27).reshape(9, A) / 10
TARGET = PARAMS[:, ::-1] + 1  # The learned network's best action is this one's worst.


def test_targets_by_hand():
    """Roots 0 and 1 bootstrap from the truncated row 2, whose best action by the params is worth 1.6 to the target."""
    plain = replaced(BASE, {"rescale": False})
    loss, outcome = loss_of(batch_of(ROWS), plain, PARAMS, TARGET)
    targets = np.array([1 + 2 / 2 + 1.6 / 4, 2 + 1.6 / 2])
    errors = np.abs(targets - [0.1, 0.3])
    assert float(outcome.priorities[0]) == pytest.approx(0.9 * errors.max() + 0.1 * errors.mean(), rel=1e-5)
    assert float(loss) == pytest.approx(np.mean(errors**2) / 2, rel=1e-5)
    assert float(outcome.metrics["value_target"]) == pytest.approx(targets.mean(), rel=1e-5)


def test_rescaled_targets_are_rlaxs():
    """Within an episode; rlax has no truncations."""
    rng = np.random.default_rng(0)
    reward = rng.normal(size=8).astype(np.float32) * 20
    state, action = rng.integers(0, 9, 8), rng.integers(0, A, 8)
    params, target = rng.normal(size=(2, 9, A)).astype(np.float32)
    rows = list(zip([MID] * 8, reward, [1] * 8, state, action))
    config = replaced(BASE, {"roots": 6, "period": 6})
    _, outcome = loss_of(batch_of(rows), config, params, target)
    learned = functools.partial(rlax.transformed_n_step_q_learning, n=2, tx_pair=rlax.SIGNED_HYPERBOLIC_PAIR)
    wanted = jax.jit(learned)(
        params[state[:-1]],
        action[:-1],
        target[state[1:]],
        np.argmax(params[state[1:]], axis=-1),
        reward[1:],
        np.full(7, 0.5, np.float32),
    )
    errors = np.abs(np.asarray(wanted))[:6]
    assert float(outcome.priorities[0]) == pytest.approx(0.9 * errors.max() + 0.1 * errors.mean(), rel=1e-3)


def test_recorded_actions_are_worth_more_than_others():
    plain, conservative = (
        loss_of(batch_of(ROWS), replaced(BASE, {"conservative_cost": c}), PARAMS, TARGET)[0] for c in (0.0, 4.0)
    )
    above = [np.log(np.sum(np.exp(PARAMS[state]))) - PARAMS[state][action] for state, action in ((0, 1), (1, 0))]
    assert conservative - plain == pytest.approx(4 * np.mean(above), rel=1e-4)


def test_sequences_that_are_drawn_more_often_count_less():
    """The one whose only root is LAST was drawn least of all, but has no error by which others could be weighed."""
    config = replaced(
        BASE, {"rescale": False, "roots": 1, "period": 1, "bootstrap_length": 1, "replay.importance_exponent": 1.0}
    )
    rows = [
        [(MID, 0, 1, 0, 0), (MID, 1, 1, 1, 0)],
        [(MID, 0, 1, 0, 0), (MID, 2, 1, 1, 0)],
        [(LAST, 0, 1, 0, 0), (FIRST, 0, 1, 1, 0)],
    ]
    steps = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *(batch_of(each).steps for each in rows))
    batch = Batch(steps, np.array([1, 4, 0.01], np.float32))
    loss, outcome = loss_of(batch, config, np.zeros((9, A)), np.zeros((9, A)))
    assert float(loss) == pytest.approx((0.5 * 1 + 0.5 * 4 / 4) / 2, rel=1e-5)
    assert outcome.priorities.tolist() == pytest.approx([1, 2, 0])


def test_illegal_actions_are_neither_bootstrapped_from_nor_held_to_be_worth_less():
    """Of both states the last action is illegal, which by the params would be the best one."""

    def unroll(params, inputs, core):
        return params[inputs.stack.view[..., -1].astype(jnp.int32)], core

    config = replaced(BASE, {"rescale": False, "roots": 1, "period": 1, "bootstrap_length": 1})
    batch = batch_of([(MID, 0, 1, 0, 0), (MID, 0, 1, 1, 0)])
    legal = np.broadcast_to(np.array([True, True, False]), (2, 1, A))
    board = BoardView(batch.steps.observation, legal, np.zeros((2, 1), np.int32))
    batch = batch._replace(steps=batch.steps._replace(observation=board))
    network = counting()._replace(unroll=unroll)
    plain, conservative = (
        loss_of(batch, replaced(config, {"conservative_cost": c}), PARAMS, TARGET, network) for c in (0.0, 4.0)
    )
    assert float(plain[1].priorities[0]) == pytest.approx(0.5 * 1.4)  # Action 1 of state 1.
    assert conservative[0] - plain[0] == pytest.approx(4 * (np.log(1 + np.exp(0.1)) - 0.0), rel=1e-4)


def test_the_core_remembers_the_action_that_was_executed():
    """As where recorded steps are replayed; the next values differ by it."""
    agent = r2d2.make(BASE, SPEC)
    params, step = agent.update.params(jax.jit(agent.update.init)(KEY)), jax.jit(agent.policy.step)
    timestep, state = Catch()(4, 0).reset(), agent.policy.initial_state(Slots(4))
    action, _, state = step(params, KEY, timestep, state)
    other = (np.asarray(action) + 1) % A
    renewed = agent.policy.executed(state, other)
    assert agent.policy.core(renewed).action_tm1.tolist() == other.tolist()
    later = timestep._replace(step_type=np.full(4, MID, np.int32))
    values = [step(params, KEY, later, each)[1].best for each in (state, renewed)]
    assert np.all(values[0] != values[1])


def test_burn_in_rows_only_bring_the_state_up_to_date():
    seen: list = []
    config = replaced(BASE, {"burn_in": 2, "roots": 2, "bootstrap_length": 1})
    before = [(MID, 0, 1, 7, 1), (MID, 50, 1, 8, 1)]
    network = counting(seen)
    with_burn_in = loss_of(batch_of([*before, *ROWS[:3]]), config, PARAMS, TARGET, network)
    assert [len(inputs.step_type) for inputs, _ in seen] == [2, 3, 2, 3]  # Of each network, burn-in and the rest.
    assert [float(core[0]) for _, core in seen] == [100, 102, 100, 102]
    assert np.asarray(seen[0][0].action_tm1)[:, 0].tolist() == [2, 1]  # The first is the one that the core remembers.
    without = loss_of(batch_of(ROWS[:3]), replaced(config, {"burn_in": 0}), PARAMS, TARGET)
    assert float(with_burn_in[0]) == pytest.approx(float(without[0]), rel=1e-4)
    assert float(with_burn_in[1].priorities[0]) == pytest.approx(float(without[1].priorities[0]), rel=1e-4)
    slope = jax.jit(jax.grad(lambda params: loss_of(batch_of([*before, *ROWS[:3]]), config, params, TARGET)[0]))
    gradient = np.asarray(slope(PARAMS))
    assert not np.any(gradient[7:]) and np.any(gradient[0])


def acted(agent, rows, batch=4):
    """Rows that the policy acts in, as the writer stores them: leaves [T, B, ...], every core included."""
    params = agent.update.params(jax.jit(agent.update.init)(KEY))
    env, step = Catch()(batch, 0), jax.jit(agent.policy.step)
    shown, state, kept = env.reset(), agent.policy.initial_state(Slots(batch)), []
    for t in range(rows):
        core = agent.policy.core(state)
        action, extras, state = step(params, jax.random.fold_in(KEY, t), shown, state)
        version = np.zeros(batch, np.int32)
        kept.append(Steps(shown.observation, *shown[:3], np.asarray(action), extras, version, core))
        shown = env.step(np.asarray(action))
    return params, jax.tree.map(lambda *leaves: np.stack(leaves), *kept)


@pytest.mark.parametrize("burn_in", [0, 3])
def test_learning_sees_the_values_that_acting_had(burn_in):
    """From the stored state on, with or without a burn-in, across the ends of episodes: the errors are the actors'."""
    config = replaced(
        BASE, {"frame_stack": 2, "burn_in": burn_in, "roots": 12, "period": 12, "discount": 0.9, "target_period": 1}
    )
    agent = r2d2.make(config, SPEC)
    (table,) = agent.tables
    params, steps = acted(agent, table.sequence_length + 5)
    steps = jax.tree.map(lambda x: x[5:], steps)
    core = jax.tree.map(lambda x: x[table.core_row : table.core_row + 1], steps.core)
    assert np.any(core.lstm.hidden)
    network = make_network(config, SPEC)
    batch = Batch(steps._replace(core=core), np.ones(4, np.float32))
    context = Context(params.params, KEY, jnp.int32(0))
    loss = jax.jit(functools.partial(r2d2_loss, network=network, config=config))
    _, outcome = loss(params.params, context, batch)
    np.testing.assert_allclose(outcome.priorities, jax.jit(table.errors)(steps), rtol=2e-3, atol=1e-4)


def test_what_can_not_be_is_refused():
    with pytest.raises(ValueError, match=r"r2d2.Config: period is 4; it must be at most roots, 3"):
        dataclasses.replace(BASE, period=4)
    with pytest.raises(ValueError, match="R2D2 plays alone"):
        r2d2.make(BASE, OpenSpiel("tic_tac_toe").spec)
    with pytest.raises(ValueError, match=r"network: unroll's values must be float32\[T=3, B=2, A=3\], but is"):
        r2d2.make(BASE, SPEC, counting()._replace(unroll=lambda params, inputs, core: (jnp.zeros((3, 2, 2)), core)))
    with pytest.raises(ValueError, match=r"network: initial_state must return arrays \[B=2, ...\], but .*\[4, 2\]"):
        r2d2.make(BASE, SPEC, counting()._replace(initial_state=lambda size: jnp.zeros((4, size))))


def test_it_takes_a_torso_or_a_network_of_ones_own():
    agent = r2d2.make(BASE, SPEC, counting()._replace(unroll=lambda p, i, c: (jnp.zeros((*i.step_type.shape, A)), c)))
    shown = np.zeros((2, *SPEC.observations.shape), np.float32)
    time_step = TimeStep(np.full(2, FIRST, np.int32), np.zeros(2, np.float32), np.ones(2, np.float32), shown)
    params = agent.update.params(drawn(agent.update.init))
    action, _, _ = jax.jit(agent.policy.step)(params, KEY, time_step, agent.policy.initial_state(Slots(2)))
    assert action.shape == (2,)
