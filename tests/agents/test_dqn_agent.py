"""DQN as an agent: its parts, its noise, its epsilons by slot and by env steps, and what it refuses."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import dqn
from boonta.agents.base import Batch, Slots
from boonta.agents.config import replaced, with_values
from boonta.agents.dqn.config import RAINBOWS_PARTS
from boonta.agents.dqn.networks import NoisyLinear, make_network
from boonta.agents.exploration import ActingParams
from boonta.envs.base import FIRST, BoardView, EnvSpec, TimeStep
from boonta.envs.catch import Catch
from boonta.envs.open_spiel import OpenSpiel
from boonta.nodes.acting.local import step_shapes
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
SPEC = Catch().spec
TINY = replaced(dqn.CATCH, {"torso.widths": (8,), "replay.batch_size": 4})
KEY = jax.random.PRNGKey(0)


def timestep(batch, observation=None):
    shown = np.zeros((batch, *SPEC.observations.shape), np.float32) if observation is None else observation
    return TimeStep(np.full(batch, FIRST, np.int32), np.zeros(batch, np.float32), np.ones(batch, np.float32), shown)


@pytest.mark.parametrize("parts", [{}, {"distribution": "implicit", "quantiles": 5}, RAINBOWS_PARTS])
def test_params_depend_on_the_parts_and_values_on_their_key(parts):
    config = replaced(TINY, {**parts, "head_width": 6})
    network = make_network(config, SPEC.observations, 3)
    params = drawn(network.init)
    stack = np.random.default_rng(0).normal(size=(4, *SPEC.observations.shape, 1)).astype(np.float32)
    apply = jax.jit(network.apply)
    one, same, other = apply(params, KEY, stack), apply(params, KEY, stack), apply(params, jax.random.PRNGKey(1), stack)
    assert one.values.shape == (4, 3, config.numbers)
    assert np.array_equal(one.values, same.values)
    random = config.noisy > 0 or config.distribution == "implicit"
    assert np.array_equal(one.values, other.values) != random
    assert np.all(np.isfinite(apply(params, None, stack).values))
    assert ("state_value" in params) == config.dueling


@pytest.mark.parametrize("parts", [{}, {"dueling": True}, RAINBOWS_PARTS], ids=["one stream", "dueling", "rainbow"])
def test_a_distribution_begins_narrow_around_0_whatever_the_support(parts):
    parts = {**parts, "distribution": "categorical", "narrow_start": True, "support_bins": 51, "support_limit": 100.0}
    config = replaced(TINY, parts)
    network = make_network(config, SPEC.observations, 3)
    stack = np.random.default_rng(0).normal(size=(4, *SPEC.observations.shape, 1)).astype(np.float32)
    params = jax.jit(network.init)(KEY)
    apply = jax.jit(network.apply)
    p, bins = np.asarray(jax.nn.softmax(apply(params, None, 0 * stack).values)), np.arange(-25, 26)
    assert p[..., 25].min() > 0.3 and np.all(np.argmax(p, axis=-1) == 25)  # (e - 1) / (e + 1) is 0.46.
    deviation = np.sqrt(np.sum(p * bins**2, axis=-1))
    assert deviation.max() < 2.0  # Of an even spread it is 14.7 bins.
    assert np.all(np.isfinite(apply(params, KEY, stack).values))


def test_noise_is_factorised_and_of_its_own_in_each_row():
    noisy = hk.transform(lambda x: NoisyLinear(2, 0.5, "layer")(x))
    apply = jax.jit(noisy.apply)
    x = np.ones((3, 4), np.float32)
    params = jax.device_get(jax.jit(noisy.init)(KEY, x))
    assert float(params["layer"]["noisy_w"][0, 0]) == 0.25  # Half of 1 / sqrt(4).
    outputs = apply(params, KEY, x)
    assert len(np.unique(np.asarray(outputs).round(5), axis=0)) == 3
    plain = np.asarray(apply(params, None, x))
    np.testing.assert_allclose(plain, x @ params["layer"]["w"] + params["layer"]["b"], rtol=1e-6)
    # Over many draws the noise has mean 0, and the variance of a product of two: S^2 (4 E|e| E|e'| + E|e'|).
    many = np.asarray(apply(params, KEY, np.ones((20_000, 4), np.float32)))
    np.testing.assert_allclose(np.mean(many, axis=0), plain[0], atol=0.03)
    share = np.sqrt(2 / np.pi)
    np.testing.assert_allclose(np.var(many, axis=0), 0.25**2 * (4 * share**2 + share), rtol=0.1)


def explores(agent, updates, slots, draws=400):
    """The share of random actions in each slot, where action 0 is best."""
    params = jax.tree.map(np.zeros_like, agent.update.params(drawn(agent.update.init)))
    acting = ActingParams(params.params, np.int32(updates))
    state = agent.policy.initial_state(slots)

    def act(key):
        return agent.policy.step(acting, key, timestep(slots.size), state)[0]

    actions = jax.jit(jax.vmap(act))(jax.random.split(KEY, draws))
    return np.mean(np.asarray(actions) != 0, axis=0) * 1.5  # Two thirds of random actions aren't the best.


@pytest.mark.parametrize(("samples_per_insert", "per_update"), [(4.0, 2), (16.0, 0.5)])
def test_epsilon_falls_with_env_steps_however_many_updates_there_are(samples_per_insert, per_update):
    """A batch of 4 sequences, with 2 new steps each."""
    falling = {"exploration.anneal_steps": 100, "exploration.epsilon": 0.2}
    config = replaced(TINY, {**falling, "roots": 2, "replay.samples_per_insert": samples_per_insert})
    agent = dqn.make(config, SPEC)
    assert agent.tables[0].env_steps_per_update == per_update
    for env_steps, epsilon in ((0, 1.0), (50, 0.6), (100, 0.2), (10**6, 0.2)):
        assert np.mean(explores(agent, env_steps / per_update, Slots(8))) == pytest.approx(epsilon, abs=0.06)


def test_a_falling_epsilon_needs_a_ratio():
    with pytest.raises(ValueError, match="replay.samples_per_insert is None; it must be a number, by which epsilon"):
        replaced(TINY, {"replay.samples_per_insert": None})
    free = replaced(TINY, {"replay.samples_per_insert": None, "exploration.epsilon_start": 0.05})
    assert np.mean(explores(dqn.make(free, SPEC), 0, Slots(8), 2000)) == pytest.approx(0.05, abs=0.02)


def test_the_number_of_updates_comes_with_the_params():
    """So a schedule goes on wherever params go: in actors that start again, and in runs that are resumed."""
    agent = dqn.make(TINY, SPEC)
    (table,) = agent.tables
    steps = jax.tree.map(
        lambda leaf: np.zeros((table.sequence_length, table.batch_size, *leaf.shape), leaf.dtype),
        step_shapes(agent, SPEC),
    )
    state, step = jax.jit(agent.update.init)(KEY), jax.jit(agent.update.step)
    for updates in (1, 2):
        state, priorities, _ = step(state, Batch(steps, np.ones(table.batch_size, np.float32)))
        assert int(agent.update.params(state).updates) == updates and priorities.shape == (table.batch_size,)


def test_epsilon_by_slot_is_that_of_all_actors():
    agent = dqn.make(replaced(TINY, {"exploration": dqn.APEX.exploration}), SPEC)
    ladder = 0.4 ** (1 + 7 * np.arange(8) / 7)
    np.testing.assert_allclose(explores(agent, 0, Slots(8), 4000), ladder, atol=0.04)
    parts = [explores(agent, 0, Slots(2, first, 8), 4000) for first in (0, 2, 4, 6)]
    np.testing.assert_allclose(np.concatenate(parts), ladder, atol=0.04)


def test_evaluation_is_greedy_without_noise():
    agent = dqn.make(replaced(TINY, {**RAINBOWS_PARTS, "exploration.epsilon": 1.0}), SPEC)
    assert agent.eval_policy.deterministic and not agent.policy.deterministic
    params = agent.update.params(drawn(agent.update.init))
    shown = np.random.default_rng(0).normal(size=(64, *SPEC.observations.shape)).astype(np.float32)
    state = agent.eval_policy.initial_state(Slots(64))
    act = jax.jit(agent.eval_policy.step)
    one, other = (act(params, jax.random.PRNGKey(i), timestep(64, shown), state)[0] for i in (0, 1))
    assert np.array_equal(one, other)


def test_only_legal_actions_are_taken():
    spec = OpenSpiel("tic_tac_toe").spec
    agent = dqn.make(replaced(TINY, {"discount": -1.0}), spec)
    params = agent.update.params(drawn(agent.update.init))
    legal = np.tile(np.arange(9) == 4, (64, 1))
    view = np.zeros((64, *spec.observations.view.shape), spec.observations.view.dtype)
    shown = timestep(64, BoardView(view, legal, np.zeros(64, np.int32)))
    for policy in (agent.policy, agent.eval_policy):
        action, estimates, _ = jax.jit(policy.step)(params, KEY, shown, policy.initial_state(Slots(64)))
        assert set(np.asarray(action)) == {4}
        np.testing.assert_array_equal(estimates.chosen, estimates.best)


def test_presets():
    assert dqn.Config.preset("atari") == dqn.DQN and dqn.Config.preset("unknown") == dqn.Config.preset("default")
    rainbow, apex = dqn.Rainbow.preset("catch"), dqn.ApeX.preset("catch")
    assert rainbow.distribution == "categorical" and rainbow.noisy and rainbow.exploration.epsilon_start == 0
    assert rainbow.torso == dqn.CATCH.torso and rainbow.double and rainbow.dueling
    assert apex.exploration.ladder == 7 and apex.replay.sampler == "proportional"
    assert dqn.make(apex, SPEC).tables[0].errors is not None and dqn.make(rainbow, SPEC).tables[0].errors is None


def test_what_can_not_be_is_refused():
    board = OpenSpiel("tic_tac_toe").spec
    with pytest.raises(ValueError, match=r"discount is 0.99; for a game of 2 player\(s\) it must be below 0"):
        dqn.make(TINY, board)
    with pytest.raises(ValueError, match=r"discount is -1.0; for a game of 1 player\(s\) it must be at least 0"):
        dqn.make(replaced(TINY, {"discount": -1.0}), SPEC)
    with pytest.raises(ValueError, match="DQN chooses among discrete actions"):
        dqn.make(TINY, EnvSpec(SPEC.observations, specs.BoundedArray((2,), np.float32, -1, 1)))
    with pytest.raises(ValueError, match="apply's values must be float32"):
        wrong = dqn.Network(lambda key: {}, lambda params, key, stack: dqn.Outputs(jnp.zeros((2, 2, 1)), jnp.zeros(2)))
        dqn.make(TINY, SPEC, wrong)
    with pytest.raises(ValueError, match="noisy is 0.5; it must be 0 where network is a whole one"):
        dqn.make(replaced(TINY, {"noisy": 0.5}), SPEC, wrong)


def test_a_population_may_vary_the_discount():
    """Its values are traced where the members are made."""

    def start(discount):
        return dqn.make(with_values(TINY, {"discount": discount}), SPEC).update.init(KEY)

    assert jax.eval_shape(jax.vmap(start), jnp.array([0.9, 0.99])).updates.shape == (2,)
