"""MuZero's searches over hand-made models, where the best action is known."""

import concurrent.futures
import dataclasses
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.heads import make_support
from boonta.agents.muzero import Config
from boonta.agents.muzero.networks import ChanceModel, Model, Prediction
from boonta.agents.muzero.search import add_noise, make_search, switch_dummy

pytestmark = pytest.mark.once

A = 3
CONFIG = Config(num_simulations=24, support_bins=21, support_limit=2.0, discount=0.9, chance_codes=2)
ALL = np.ones((2, A), bool)
SEARCHES = ["gumbel", "puct"]


def logits_of(value):
    """Logits over the support whose expectation is `value` [B]."""
    return jnp.log(make_support(CONFIG.support_limit, CONFIG.support_bins).apply(value) + 1e-8)


def make_game(rewards, values):
    """A tree of positions by number: action a leads from position p to A * p + a + 1.

    Args:
      rewards: dict of positions, the reward for coming there; 0 elsewhere.
      values: dict of positions, the network's values of them; 0 elsewhere.
    """

    def table(entries):
        array = np.zeros(200, np.float32)
        for position, value in entries.items():
            array[position] = value
        return jnp.asarray(array)

    rewards, values = table(rewards), table(values)

    def predict(params, hidden):
        return Prediction(jnp.zeros((*hidden.shape, A + 1)), logits_of(values[hidden.astype(int)]))

    def dynamics(params, hidden, choice):
        position = jnp.minimum(A * hidden + jnp.argmax(choice[:, :A], axis=-1) + 1, 199)
        return position, logits_of(rewards[position.astype(int)])

    return Model(
        init=lambda key: (),
        represent=lambda params, stack: stack[:, 0],
        predict=predict,
        dynamics=dynamics,
        project=lambda params, hidden: hidden,
        foresee=lambda params, x: x,
    )


def plan(config, model, legal=ALL, explore=False, seed=0):
    search = jax.jit(make_search(config, model, A, explore))
    return jax.device_get(search((), jax.random.PRNGKey(seed), np.zeros((len(legal), 1), np.float32), legal))


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", SEARCHES)
def test_finds_the_reward_and_respects_the_mask(name):
    config = dataclasses.replace(CONFIG, search=name)
    model = make_game(rewards={2: 1.0, 3: 0.5}, values={})
    legal = np.array([[True, True, True], [True, False, True]])
    planned = plan(config, model, legal)
    np.testing.assert_array_equal(planned.action, [1, 2])
    np.testing.assert_allclose(np.sum(planned.policy, -1), 1, rtol=1e-5)
    assert np.argmax(planned.policy[0]) == 1 and np.argmax(planned.policy[1]) == 2
    assert planned.policy[1, 1] == 0
    assert 0 < planned.value[1] < planned.value[0] <= 1


@pytest.mark.parametrize("name", SEARCHES)
def test_two_players_want_opposite_things(name):
    """After action 0 the other player wins with every move.

    Compiled with optimisations: without, puct's search takes another action in one of two equal rows (jax 0.12).
    """
    model = make_game(rewards={4: 1.0, 5: 1.0, 6: 1.0}, values={})
    config = dataclasses.replace(CONFIG, search=name, discount=-1.0)
    planned = plan(config, model)
    assert 0 not in planned.action and planned.policy[0, 0] < 1 / A
    # A single player would choose it.
    alone = plan(dataclasses.replace(config, discount=1.0), model)
    np.testing.assert_array_equal(alone.action, [0, 0])


def with_chance(model, afterstate):
    """The model with a step by chance that changes nothing."""
    return model._replace(
        chance=ChanceModel(
            afterstate=afterstate,
            predict=lambda params, hidden: Prediction(jnp.zeros((*hidden.shape, 2)), logits_of(0 * hidden)),
            encode=lambda params, stack: None,
        ),
        dynamics=lambda params, hidden, code: (hidden, logits_of(0 * hidden)),
    )


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", SEARCHES)
def test_noise_is_for_actors_only(name):
    config = dataclasses.replace(CONFIG, search=name, num_simulations=4)

    def actions(model, explore):
        search = jax.jit(make_search(config, model, A, explore))
        return {int(search((), jax.random.PRNGKey(i), jnp.zeros((1, 1)), ALL[:1]).action[0]) for i in range(16)}

    assert len(actions(make_game(rewards={}, values={}), explore=True)) > 1
    assert actions(make_game(rewards={1: 0.5}, values={}), explore=False) == {0}


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", ["puct", "stochastic"])
def test_the_noise_has_its_share_of_the_prior_over_the_legal_actions(name):
    """All of the prior over them is on action 0: first when it has all, then beside an illegal and the dummy action."""
    priors = jnp.log(jnp.array([[1.0, 0.0, 0.0, 0.0], [0.1, 0.0, 0.2, 0.7]]) + 1e-30)
    model = make_game(rewards={}, values={})
    value = model.predict((), jnp.zeros(1)).value[0]

    def predict(params, hidden):
        return Prediction(priors[hidden.astype(int)], jnp.broadcast_to(value, (len(hidden), len(value))))

    model = model._replace(predict=predict)
    if name == "stochastic":
        model = with_chance(model, lambda params, hidden, choice: hidden)
    config = dataclasses.replace(CONFIG, search=name, num_simulations=1)
    stack, legal = jnp.repeat(jnp.arange(2.0), 2000)[:, None], np.tile([True, True, False], (4000, 1))
    tree = jax.jit(make_search(config, model, A, explore=True))((), jax.random.PRNGKey(0), stack, legal).tree
    prior = np.asarray(jax.nn.softmax(tree.children_prior_logits[:, 0], axis=-1)).reshape(2, 2000, -1)
    alpha, share = config.puct.dirichlet_alpha, config.puct.dirichlet_fraction
    assert np.all(prior[..., 2:] == 0)
    assert prior[..., 0].min() >= 1 - share - 1e-6  # The rest is the noise of action 0.
    # Dirichlet's means are 1 / 2 for two actions, and their variances 1 / 4 / (2 alpha + 1).
    np.testing.assert_allclose(prior[..., 1].mean(axis=1), share / 2, atol=0.01)
    np.testing.assert_allclose(prior[..., 1].std(axis=1), share / 2 / (2 * alpha + 1) ** 0.5, atol=0.01)


@pytest.mark.unoptimised
@pytest.mark.parametrize("name", [*SEARCHES, "stochastic"])
def test_without_exploration_the_key_does_not_break_ties(name):
    """All actions are worth the same, and with as many simulations as actions all are tried as often."""
    config = dataclasses.replace(CONFIG, search=name, num_simulations=A)
    model = make_game(rewards={}, values={})
    if name == "stochastic":
        model = with_chance(model, lambda params, hidden, choice: hidden)
    search = jax.jit(make_search(config, model, A, explore=False))
    found = [search((), jax.random.PRNGKey(seed), jnp.zeros((8, 1)), np.ones((8, A), bool)) for seed in range(4)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].action, other.action)
        np.testing.assert_array_equal(found[0].policy, other.policy)


@pytest.mark.unoptimised
def test_stochastic_search_weighs_outcomes():
    """Action 0 wins 1 with one code of two, and loses 1 with the other; action 1 always gets 0.3."""

    def happen(params, hidden, code):
        lucky = code[:, 0] > 0.5
        reward = jnp.where(hidden == 1, jnp.where(lucky, 1.0, -1.0), jnp.where(hidden == 2, 0.3, -0.5))
        return jnp.zeros_like(hidden) + 9, logits_of(jnp.where(hidden < 9, reward, 0.0))

    game = make_game({}, {})
    chance = ChanceModel(
        afterstate=lambda params, hidden, choice: jnp.where(hidden < 1, jnp.argmax(choice, -1) + 1.0, 9.0),
        predict=lambda params, hidden: Prediction(jnp.zeros((*hidden.shape, 2)), logits_of(0 * hidden)),
        encode=lambda params, stack: None,
    )
    model = game._replace(dynamics=happen, chance=chance)
    config = dataclasses.replace(CONFIG, search="stochastic", num_simulations=60)
    planned = plan(config, model)
    np.testing.assert_array_equal(planned.action, [1, 1])
    assert planned.policy.shape == (2, A)


def test_a_thread_traces_a_stochastic_search_while_that_of_another_begins_and_ends():
    config = dataclasses.replace(CONFIG, search="stochastic", num_simulations=A)
    began, ended = threading.Event(), threading.Event()
    later = []  # The search that begins within the first.

    def trace(afterstate):
        search = make_search(config, with_chance(make_game({}, {}), afterstate), A, explore=True)
        return jax.eval_shape(search, (), jax.random.PRNGKey(0), jnp.zeros((2, 1)), ALL)

    def first(params, hidden, choice):
        if not later:
            later.append(executor.submit(trace, second))
            assert began.wait(60)
        return hidden

    def second(params, hidden, choice):
        began.set()
        assert ended.wait(60)
        return hidden

    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        one = trace(first)
        ended.set()
        assert later[0].result(60) == one


def test_noise_of_the_least_parameter_is_finite_also_where_no_action_is_valid():
    invalid = np.array([[False, False, True, True], [True, True, True, True]])
    mixed = jax.jit(add_noise)(jax.random.PRNGKey(0), jnp.zeros((2, A + 1)), invalid, 1e-6, 0.5)
    assert np.all(np.isfinite(mixed))
    np.testing.assert_allclose(np.sort(np.exp(mixed[0])), [0, 0, 0.25, 0.75], atol=1e-6)


def test_the_dummy_action_is_a_switch():
    logits = jnp.array([[0.0, 1.0, 2.0, 9.0], [0.0, 1.0, 2.0, 2.0]])
    lowest = np.finfo(np.float32).min
    np.testing.assert_array_equal(switch_dummy(logits), [[lowest, lowest, lowest, 9], [0, 1, 2, lowest]])


@pytest.mark.unoptimised
def test_nothing_is_found_beyond_an_end():
    """Position 1 has ended: the network's values of the positions after it must not count."""
    beyond = {position: 1.0 for position in (*range(4, 7), *range(13, 22), *range(40, 67), *range(121, 199))}
    model = make_game(rewards={2: 0.5, 4: 1.0, 5: 1.0, 6: 1.0}, values=beyond)
    plain = model.predict

    def predict(params, hidden):
        ended = (hidden == 1)[:, None] & (jnp.arange(A + 1) == A)
        return plain(params, hidden)._replace(logits=jnp.where(ended, 20.0, 0.0))

    def dynamics(params, hidden, choice):
        position, reward = model.dynamics(params, hidden, choice)
        return jnp.where(choice[:, A] > 0, 199.0, position), jnp.where(choice[:, A:] > 0, logits_of(0.0), reward)

    np.testing.assert_array_equal(plan(CONFIG, model._replace(dynamics=dynamics)).action, [0, 0])
    np.testing.assert_array_equal(plan(CONFIG, model._replace(dynamics=dynamics, predict=predict)).action, [1, 1])


@pytest.mark.unoptimised
def test_a_state_is_worth_what_its_improved_policy_gets():
    """Gumbel tries bad actions as often as good ones; they must not drag the value down."""
    planned = plan(CONFIG, make_game(rewards={2: 1.0}, values={}))
    mean_of_simulations = jax.jit(lambda tree: tree.summary().value)(planned.tree)
    assert np.all(planned.value > 0.95) and np.all(mean_of_simulations < 0.7)
