"""PPO's advantages, loss, schedules and units, against numbers made by hand and against rlax."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import ppo
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.config import replaced
from boonta.agents.groups import Torso
from boonta.agents.heads import make_action_head
from boonta.agents.light_rlax import rlax
from boonta.agents.metrics import expanded
from boonta.agents.normalisation import Moments
from boonta.agents.optimisation import Context
from boonta.agents.policy_value import make_network
from boonta.agents.ppo.loss import Gathered, entropy_cost, ppo_loss, prepare_units, scaled
from boonta.agents.returns import generalised_advantages
from boonta.envs.base import FIRST, LAST, MID, BoardView, EnvSpec, TimeStep

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
SPEC = EnvSpec(specs.Array((3,), np.float32), specs.DiscreteArray(4))
SMALL = replaced(
    ppo.CARTPOLE,
    {"torso": Torso("mlp", widths=(8,)), "unroll_length": 5, "batch_size": 4, "minibatches": 2, "epochs": 2},
)
T, B = 5, 4


def acted(agent, spec=SPEC, config=SMALL, state=None):
    """A batch that the agent's own policy acted, with an end and a cut in it, and the learner's state."""
    state = jax.jit(agent.update.init)(jax.random.PRNGKey(0)) if state is None else state
    params, rng = agent.update.params(state), np.random.default_rng(0)
    memory, step, rows = agent.policy.initial_state(Slots(B)), jax.jit(agent.policy.step), []
    kinds = [FIRST, MID, LAST, FIRST, MID, MID][: T + 1]
    for t, kind in enumerate(kinds):
        observation = jax.tree.map(lambda x: rng.normal(size=(B, *x.shape)).astype(x.dtype), spec.observations)
        if isinstance(observation, BoardView):
            observation = observation._replace(legal=np.tile(np.arange(4) != t % 4, (B, 1)))
        reward = np.float32(0 if kind == FIRST else rng.normal()) * np.ones(B, np.float32)
        discount = np.where((kind == LAST) & (np.arange(B) < 2), 0, 1).astype(np.float32)  # The others are cut.
        timestep = TimeStep(np.full(B, kind, np.int32), reward, discount, observation)
        core = agent.policy.core(memory)
        action, extras, memory = step(params, jax.random.PRNGKey(t), timestep, memory)
        version = np.zeros(B, np.int32)
        rows.append(Steps(observation, timestep.step_type, reward, discount, action, extras, version, core))
    steps = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
    return state, Batch(steps._replace(core=jax.tree.map(lambda x: x[:1], steps.core)), np.ones(B, np.float32))


def test_advantages_by_hand_at_ends_and_truncations():
    value = jnp.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]])
    reward = jnp.array([[1.0, 1.0], [9.0, 9.0], [2.0, 2.0]])
    discount = 0.5 * jnp.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])  # The first ends, the second is cut.
    mask = jnp.array([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])  # Row 1 is LAST: no transition leads away.
    found = generalised_advantages(value, reward, discount, mask, 0.8)
    # r - V; r + 0.5 V(LAST) - V, and nothing from beyond; then 2 + 0.5 * 4 - 3.
    np.testing.assert_allclose(found, [[0.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    ones = jnp.ones_like(mask)
    own = generalised_advantages(value, reward, discount, ones, 0.8)
    theirs = rlax.truncated_generalized_advantage_estimation(reward[:, 1], discount[:, 1], 0.8, value[:, 1])
    np.testing.assert_allclose(own[:, 1], theirs, rtol=1e-6)


def of_minibatch(config, agent_config=None, params_of=lambda params: params):
    agent = ppo.make(config, SPEC)
    state, batch = acted(agent, config=config)
    head = make_action_head(SPEC.actions, "PPO")
    parts = {"network": make_network(config, SPEC, head), "head": head, "config": config}
    context = Context((), jax.random.PRNGKey(0), jnp.int32(0), ())
    prepare = jax.jit(functools.partial(prepare_units, whole=False, **parts))
    units = jax.device_get(prepare(state.params, context, batch))
    loss, outcome = jax.jit(functools.partial(ppo_loss, **parts))(params_of(state.params), context, units)
    return units, loss, outcome.metrics, parts, state.params


def test_the_first_ratio_is_one_and_data_is_that_of_the_params():
    units, _, metrics, *_ = of_minibatch(SMALL)
    assert float(metrics["rho_error"]) < 1e-6
    assert float(metrics["kl"]) < 1e-6 and float(metrics["ratio_clipped"]) == 0
    assert units.mask.sum() == (T - 1) * B  # One transition of each slot leads from LAST to FIRST.


def test_surrogate_is_that_of_rlax():
    config = dataclasses.replace(SMALL, normalise_advantages=False)
    moved = lambda params: jax.tree.map(lambda x: np.asarray(x) + np.float32(0.3), params)  # noqa: E731
    units, _, metrics, parts, params = of_minibatch(config, params_of=moved)
    rows = units.mask[:, 0] > 0
    outputs, _ = parts["network"].unroll(moved(params), jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), units.inputs), ())
    log_prob = jax.nn.log_softmax(outputs.logits[0])[jnp.arange(len(rows)), units.action[:, 0]]
    ratio = jnp.exp(log_prob - units.log_prob[:, 0])
    theirs = rlax.clipped_surrogate_pg_loss(ratio[rows], units.advantage[:, 0][rows], config.clip)
    np.testing.assert_allclose(metrics["policy_loss"], theirs, rtol=1e-5)
    assert float(metrics["ratio_clipped"]) > 0


def test_value_clip_by_hand():
    moved = lambda params: jax.tree.map(lambda x: np.asarray(x) + np.float32(0.3), params)  # noqa: E731
    units, _, metrics, parts, params = of_minibatch(dataclasses.replace(SMALL, value_clip=0.1), params_of=moved)
    outputs, _ = parts["network"].unroll(moved(params), jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), units.inputs), ())
    value, old, target = np.asarray(outputs.value[0]), units.value[:, 0], units.target[:, 0]
    near = np.where(value > old + 0.1, old + 0.1, np.where(value < old - 0.1, old - 0.1, value))
    rows = units.mask[:, 0] > 0
    plain, clipped = (value - target)[rows] ** 2, (near - target)[rows] ** 2
    assert np.any(clipped > plain) and np.any(clipped < plain)  # The larger of the two counts, and each is it once.
    assert float(metrics["baseline_loss"]) == pytest.approx(0.5 * np.mean(np.maximum(plain, clipped)), rel=1e-5)


def test_what_is_no_transition_shifts_no_advantage():
    units, loss, _, parts, params = of_minibatch(SMALL)
    assert SMALL.normalise_advantages and not units.mask.all()
    others = units._replace(advantage=np.where(units.mask > 0, units.advantage, np.float32(50)))
    context = Context((), jax.random.PRNGKey(0), jnp.int32(0), ())
    assert float(jax.jit(functools.partial(ppo_loss, **parts))(params, context, others)[0]) == float(loss)


def test_a2c_is_the_plain_policy_gradient():
    config = replaced(SMALL, {"epochs": 1, "minibatches": 1, "normalise_advantages": False, "trace_lambda": 1.0})
    units, _, _, parts, params = of_minibatch(config)
    context = Context((), jax.random.PRNGKey(0), jnp.int32(0), ())

    def plain(params):
        outputs, _ = parts["network"].unroll(params, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), units.inputs), ())
        log_pi = jax.nn.log_softmax(outputs.logits[0])
        chosen = log_pi[jnp.arange(len(log_pi)), units.action[:, 0]]
        mask, entropy = units.mask[:, 0], -jnp.sum(jnp.exp(log_pi) * log_pi, -1)
        each = -chosen * units.advantage[:, 0] + 0.25 * (outputs.value[0] - units.target[:, 0]) ** 2 - 0.01 * entropy
        return jnp.sum(mask * each) / jnp.sum(mask)

    ours, plains = (jax.jit(jax.grad(f))(params) for f in (lambda p: ppo_loss(p, context, units, **parts)[0], plain))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6), ours, plains)


@pytest.mark.parametrize("changes", [{"lstm_size": 6, "value_torso": "shared"}, {"correction": "v_trace"}])
def test_updates_and_metrics_are_finite(changes):
    config = replaced(SMALL, changes)
    agent = ppo.make(config, SPEC)
    state, batch = acted(agent, config=config)
    after, priorities, metrics = jax.jit(agent.update.step)(state, batch)
    assert priorities is None and all(np.isfinite(value) for value in expanded(metrics).values())
    assert float(metrics["histogram/ratio"].sum()) == pytest.approx(1, abs=1e-3)
    assert float(metrics["rho_error"]) < 1e-5
    assert any((x != y).any() for x, y in zip(jax.tree.leaves(state.params), jax.tree.leaves(after.params)))


def test_a_target_divergence_ends_the_epochs():
    once = replaced(SMALL, {"epochs": 1})
    stopped = replaced(SMALL, {"epochs": 4, "target_kl": 1e-12})
    state, batch = acted(ppo.make(once, SPEC))  # They differ in the update alone.
    made = []
    for config in (once, stopped, replaced(stopped, {"target_kl": 1e9})):
        after, _, metrics = jax.jit(ppo.make(config, SPEC).update.step)(state, batch)
        made.append((float(metrics.get("epochs", 1)), after))
    assert [number for number, _ in made] == [1, 1, 4]
    counts = [max(int(x) for x in jax.tree.leaves(after.opt_state) if x.dtype == jnp.int32) for _, after in made]
    assert counts == [2, 2, 8]  # Steps of the optimiser.


@pytest.mark.parametrize("normalise", [False, True])
def test_illegal_actions_are_not_taken_and_the_ratio_stays_one(normalise):
    board = BoardView(specs.Array((3,), np.float32), specs.Array((4,), bool), specs.Array((), np.int32))
    spec = EnvSpec(board, specs.DiscreteArray(4))
    agent = ppo.make(replaced(SMALL, {"normalise_observations": normalise}), spec)
    state, batch = acted(agent, spec)
    state = jax.jit(agent.update.step)(state, batch)[0]  # From now on there are moments.
    state, batch = acted(agent, spec, state=state)
    legal = np.take_along_axis(batch.steps.observation.legal, np.asarray(batch.steps.action)[..., None], -1)
    assert legal.all()
    metrics = jax.jit(agent.update.step)(state, batch)[2]
    assert float(metrics["rho_error"]) < 1e-6 and np.isfinite(metrics["loss"])


def test_statistics_are_those_of_the_batch_and_published():
    config = replaced(SMALL, {"normalise_observations": True, "normalise_rewards": True})
    agent = ppo.make(config, SPEC)
    state, batch = acted(agent, config=config)
    after, _, metrics = jax.jit(agent.update.step)(state, batch)
    frames = np.asarray(batch.steps.observation[:T]).reshape(-1, 3)
    _, moments = agent.update.params(after)
    assert float(moments.rows) == T * B
    np.testing.assert_allclose(moments.mean, [frames.mean(0)], atol=1e-6)
    np.testing.assert_allclose(moments.variance, [frames.var(0)], rtol=1e-5)
    earned = np.zeros(B, np.float32)
    rows = []
    for t in range(T):
        first = np.asarray(batch.steps.step_type[t]) == FIRST
        earned = np.where(first, 0, 0.99 * earned + np.asarray(batch.steps.reward[t]))
        rows.append(earned)
    np.testing.assert_allclose(after.statistics.returns.variance, np.var(rows), rtol=1e-4)
    state, batch = acted(agent, config=config, state=after)  # Acting and learning normalise alike.
    assert float(jax.jit(agent.update.step)(state, batch)[2]["rho_error"]) < 1e-5


def test_rewards_are_measured_in_deviations_of_returns_and_cut_at_ten():
    returns = Moments(jnp.float32(9.0), jnp.float32(100.0), jnp.float32(4.0))
    reward, config = jnp.array([6.0, -1.0, 50.0, -50.0]), replaced(SMALL, {"normalise_rewards": True})
    np.testing.assert_allclose(scaled(reward, Gathered((), returns), config), [3.0, -0.5, 10.0, -10.0], rtol=1e-6)


@pytest.mark.parametrize("correction", ["none", "v_trace"])
def test_the_next_episode_does_not_leak_into_the_last(correction):
    """Rows from the third on are another episode's; two of the slots end before it, and two are cut."""
    config = replaced(SMALL, {"correction": correction})
    state, batch = acted(ppo.make(config, SPEC), config=config)
    head = make_action_head(SPEC.actions, "PPO")
    network = make_network(config, SPEC, head)
    prepare = functools.partial(prepare_units, network=network, head=head, config=config, whole=True)
    context = Context((), jax.random.PRNGKey(0), jnp.int32(0), ())
    steps, units = batch.steps, []
    for scale in (1.0, 5.0):
        late = (np.arange(T + 1) > 2)[:, None]
        moved = steps._replace(
            observation=np.where(late[..., None], scale * steps.observation, steps.observation),
            reward=np.where(late, scale * steps.reward, steps.reward),
        )
        units.append(jax.device_get(jax.jit(prepare)(state.params, context, batch._replace(steps=moved))))
    for name in ("advantage", "target"):
        one, other = (getattr(each, name) for each in units)
        np.testing.assert_array_equal(one[:, :2], other[:, :2])
        assert (one[:, 3:] != other[:, 3:]).all()


def test_entropy_falls_on_schedule():
    config = replaced(SMALL, {"entropy_cost": 0.2, "entropy_anneal_updates": 10})
    assert [float(entropy_cost(jnp.int32(n), config)) for n in (0, 5, 10, 20)] == pytest.approx([0.2, 0.1, 0, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minibatches": 3}, "minibatches is 3; it must be a divisor of a batch's 20 transitions"),
        ({"lstm_size": 4, "value_torso": "shared", "minibatches": 8}, "divisor of a batch's 4 sequences"),
        ({"value_torso": "own", "lstm_size": 4}, "lstm_size is 4"),
        ({"normalise_rewards": True, "reward_clip": "abs_one"}, "reward_clip is 'abs_one'; it must be 'none' if norm"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replaced(SMALL, changes)


def test_of_mixed_observations_numbers_and_pixels_are_normalised():
    config = replaced(SMALL, {"normalise_observations": True})
    for observations, number in (
        ({"memory": specs.Array((4,), np.uint8), "speed": specs.Array((3,), np.float32)}, 2),
        (specs.Array((4,), np.int32), 0),
    ):
        spec = SPEC._replace(observations=observations)
        agent = ppo.make(config, spec)
        state, batch = acted(agent, spec)
        state = jax.jit(agent.update.step)(state, batch)[0]  # From now on there are moments.
        assert len(agent.update.params(state)[1].mean) == number
        state, batch = acted(agent, spec, state=state)
        metrics = jax.jit(agent.update.step)(state, batch)[2]
        assert float(metrics["rho_error"]) < 1e-6 and np.isfinite(metrics["loss"])
