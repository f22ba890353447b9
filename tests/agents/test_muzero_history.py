"""What MuZero's network sees: acting and learning see the same rows, with the actions that led to them and without."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import muzero
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.exploration import ActingParams
from boonta.agents.groups import Torso
from boonta.agents.muzero.agent import make_tables
from boonta.agents.muzero.hindsight import look_back
from boonta.agents.muzero.history import Seen, recall
from boonta.agents.muzero.loss import muzero_loss
from boonta.agents.muzero.networks import Model, Prediction, make_model
from boonta.agents.muzero.policy import Extras, Planner, make_policy
from boonta.agents.optimisation import Context
from boonta.envs.base import FIRST, LAST, MID, BoardView, EnvSpec, TimeStep
from boonta.nodes.tables.contract import first_row

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

ROWS, B, A = 40, 3, 3
SPEC = EnvSpec(specs.Array((2,), np.float32), specs.DiscreteArray(A))
CONFIG = muzero.Config(
    num_simulations=2, roots=3, unroll_length=2, bootstrap_length=2, search="puct", consistency_cost=0.0
)
KEY = jax.random.PRNGKey(0)


def flat(stack):
    """All that is seen, leaf beside leaf: float32 [N, D]."""
    return jnp.concatenate([x.reshape(len(x), -1).astype(jnp.float32) for x in jax.tree.leaves(stack)], axis=-1)


# A model whose hidden state is what it sees.
MODEL = Model(
    init=lambda key: (),
    represent=lambda params, stack: flat(stack),
    predict=lambda params, x: Prediction(jnp.zeros((len(x), A + 1)), jnp.zeros((len(x), CONFIG.support_bins))),
    dynamics=lambda params, x, choice: (x, jnp.zeros((len(x), CONFIG.support_bins))),
)


def play(config) -> tuple[Steps, np.ndarray]:
    """Episodes of random lengths, as the policy acts in them: the steps [T, B, ...], and what it saw, [T, B, D]."""
    policy = make_policy(Planner(config, MODEL, SPEC, explore=True, remember=lambda planned: planned))
    rng, params, step = np.random.default_rng(0), ActingParams((), jnp.int32(0)), jax.jit(policy.step)
    state, step_type, rows, seen = policy.initial_state(Slots(B)), np.full(B, FIRST, np.int32), [], []
    for t in range(ROWS):
        observation = rng.normal(size=(B, 2)).astype(np.float32)
        shown = TimeStep(step_type, np.zeros(B, np.float32), np.ones(B, np.float32), observation)
        action, planned, state = step(params, jax.random.fold_in(KEY, t), shown, state)
        extras = Extras(planned.policy, planned.value)
        rows.append(Steps(observation, *shown[:3], action, extras, np.zeros(B, np.int32)))
        seen.append(planned.tree.embeddings[:, 0])  # The root's.
        step_type = np.where(step_type == LAST, FIRST, np.where(rng.random(B) < 0.3, LAST, MID)).astype(np.int32)
    return jax.tree.map(lambda *x: np.stack(x), *rows), np.stack(seen)


@pytest.mark.parametrize("action_history", [False, True])
@pytest.mark.parametrize("frame_stack", [1, 3])
def test_sequences_are_learned_from_as_they_were_acted(frame_stack, action_history):
    """Row by row, in every sequence that the table cuts from the stream, and in what the loss represents."""
    config = dataclasses.replace(CONFIG, frame_stack=frame_stack, action_history=action_history)
    steps, acted = play(config)
    assert acted.shape[-1] == frame_stack * (2 + action_history) and len(np.unique(steps.action)) == A
    (table,) = make_tables(config)
    assert table.sequence_length == frame_stack - 1 + action_history + 3 + 2 + 2
    assert table.errors.context == config.context == frame_stack - 1 + action_history
    represented = []
    model = MODEL._replace(represent=lambda params, stack: represented.append(flat(stack)) or represented[-1])

    @jax.jit
    def learned_from(sequence):
        """What the loss represents: the rows that targets bootstrap from, and the roots."""
        represented.clear()
        batch = Batch(sequence, jnp.ones(B))
        muzero_loss((), Context((), KEY, jnp.int32(0)), batch, model=model, config=config)
        return tuple(represented)

    @jax.jit
    def recalled(sequence):
        stack, rest = recall(config, sequence)
        return jax.vmap(flat)(stack), rest.action

    cut = 0
    while (start := first_row(table, cut)) + table.sequence_length <= ROWS:
        sequence = jax.tree.map(lambda x, s=start: x[s : s + table.sequence_length], steps)
        expected = acted[start + config.context : start + table.sequence_length]
        stack, action = recalled(sequence)
        np.testing.assert_array_equal(stack, expected)
        np.testing.assert_array_equal(action, sequence.action[config.context :])
        values, roots = learned_from(sequence)  # [B * M, D] and [B * R, D].
        np.testing.assert_array_equal(values, expected.swapaxes(0, 1).reshape(values.shape))
        np.testing.assert_array_equal(roots, expected[: config.roots].swapaxes(0, 1).reshape(roots.shape))
        cut += 1
    assert cut > 8 and (steps.step_type[table.sequence_length :] == FIRST).sum() > 10


def test_an_episode_begins_with_no_action_and_rows_before_it_have_none():
    step_type = np.array([[MID], [MID], [LAST], [FIRST], [MID]], np.int32)
    action = np.array([[2], [0], [1], [1], [0]], np.int32)
    ones = np.ones((5, 1), np.float32)
    steps = Steps(np.arange(1.0, 6.0)[:, None], step_type, ones, ones, action, (), action)
    stack, rest = recall(dataclasses.replace(CONFIG, frame_stack=2, action_history=True), steps)
    np.testing.assert_array_equal(stack.view[:, 0], [[2, 3], [0, 4], [4, 5]])
    np.testing.assert_array_equal(stack.action[:, 0], [[3, 1], [0, 0], [0, 2]])  # The action before, plus 1.
    assert rest.action[:, 0].tolist() == [1, 1, 0]


def test_hindsight_sees_what_was_acted():
    """From the beginning of an episode on, whose context was never played."""
    config = dataclasses.replace(CONFIG, frame_stack=2, action_history=True)
    steps, acted = play(config)
    one = jax.tree.map(lambda x: x[:, :1], steps)
    hidden = jax.jit(lambda steps: look_back((), steps, model=MODEL, config=config).hidden)(one)
    np.testing.assert_array_equal(hidden[:, 0], acted[:, 0])


def test_the_policy_remembers_what_was_executed():
    policy = make_policy(Planner(dataclasses.replace(CONFIG, action_history=True), MODEL, SPEC, explore=True))
    state = policy.executed(policy.initial_state(Slots(B)), np.array([2, 0, 1], np.int32))
    shown = TimeStep(np.array([MID, MID, FIRST], np.int32), np.zeros(B), np.ones(B), np.zeros((B, 2), np.float32))
    planner = dataclasses.replace(policy.step, remember=lambda planned: planned.tree.embeddings[:, 0, -1])
    assert jax.jit(planner)(ActingParams((), np.int32(0)), KEY, shown, state)[1].tolist() == [3, 1, 0]


def test_a_tower_sees_actions_as_planes_over_their_number_and_a_perceptron_one_hot():
    """A network that is a sum shows it: the planes of one action sum to 1 / (A+1) in each cell."""
    config = muzero.Config(Torso("tower", channels=(4,), blocks=0), frame_stack=2, action_history=True)
    model, seen = make_model(config, specs.Array((4, 5, 2), np.float32), A), []

    def planes(stack):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("boonta.agents.muzero.networks.tower", lambda x, *_: seen.append(x) or x)
            model.represent({}, stack)
        return seen[-1]

    frames = np.random.default_rng(0).normal(size=(1, 4, 5, 2, 2)).astype(np.float32)
    image = planes(Seen(frames, np.array([[0, 3]], np.int32)))  # None, then action 2.
    np.testing.assert_array_equal(image[..., :4], frames.reshape(1, 4, 5, 4))
    expected = np.array([1, 0, 0, 0, 0, 0, 0, 1]) / (A + 1)
    np.testing.assert_allclose(image[..., 4:], np.broadcast_to(expected, (1, 4, 5, 8)))
    config = dataclasses.replace(config, torso=Torso("mlp", widths=(6,)))
    params = jax.eval_shape(make_model(config, SPEC.observations, A).init, KEY)
    assert params["representation_0"]["w"].shape == (2 * 2 + 2 * (A + 1), 6)


@pytest.mark.parametrize("search", ["gumbel", "stochastic"])
def test_a_network_of_ones_own_is_shown_actions_too(search):
    config = dataclasses.replace(CONFIG, search=search, action_history=True, torso=Torso("mlp", widths=(8,)))
    shown = []

    def torso(name):
        return lambda stack: shown.append(stack) or flat(stack)

    muzero.make(config, SPEC, torso)
    assert {(x.view.shape[1:], x.action.shape[1:], str(x.action.dtype)) for x in shown} == {((2, 1), (1,), "int32")}
    whole = make_model(config, SPEC.observations, A)
    muzero.make(config, SPEC, whole)
    with pytest.raises(ValueError, match="represent failed .*Seen"):
        blind = make_model(dataclasses.replace(config, action_history=False), SPEC.observations, A)
        muzero.make(config, SPEC, blind)


def test_games_of_two_are_refused():
    board = BoardView(SPEC.observations, specs.Array((A,), bool), specs.BoundedArray((), np.int32, 0, 1))
    spec = EnvSpec(board, SPEC.actions, num_players=2)
    config = dataclasses.replace(CONFIG, discount=-1.0, action_history=True)
    with pytest.raises(ValueError, match="muzero.Config: action_history is True; it must be False for a game of two"):
        muzero.make(config, spec)
