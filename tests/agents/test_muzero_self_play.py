"""How MuZero's actors explore: temperatures by env steps, and less of everything from slot to slot."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import muzero
from boonta.agents.base import Slots
from boonta.agents.config import replaced
from boonta.agents.exploration import ActingParams, rungs
from boonta.agents.heads import make_support
from boonta.agents.muzero.agent import make_tables
from boonta.agents.muzero.groups import SelfPlay
from boonta.agents.muzero.networks import Model, Prediction
from boonta.agents.muzero.policy import Planner, env_steps_per_update, make_policy
from boonta.agents.muzero.search import noise_of
from boonta.envs.base import FIRST, EnvSpec, TimeStep
from boonta.nodes.fused.schedule import make_schedule
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

A = 3
SPEC = EnvSpec(specs.Array((), np.float32), specs.DiscreteArray(A))
CONFIG = muzero.Config(num_simulations=24, support_bins=21, support_limit=2.0, discount=0.9)
PARTS = SelfPlay(temperature=(1.0, 0.5, 0.25), temperature_steps=(640, 1280))


def game(*rewards: float) -> Model:
    """One move, which earns its reward; nothing comes after it."""

    def logits_of(value):
        return jnp.log(make_support(CONFIG.support_limit, CONFIG.support_bins).apply(value) + 1e-8)

    def dynamics(params, hidden, choice):
        reward = jnp.where(hidden[:, 0] == 0, choice @ jnp.array([*rewards, 0.0]), 0.0)
        return jnp.ones_like(hidden), logits_of(reward)

    return Model(
        init=lambda key: (),
        represent=lambda params, stack: stack,
        predict=lambda params, hidden: Prediction(jnp.zeros((len(hidden), A + 1)), logits_of(jnp.zeros(len(hidden)))),
        dynamics=dynamics,
    )


def searching(config, model):
    """`(rung [B], updates) -> what the policy's searches of one situation find`, leaves [B, ...]; compiled once."""
    policy = make_policy(Planner(config, model, SPEC, explore=True, remember=lambda planned: planned))

    def act(rung, updates):
        shown = TimeStep(*(jnp.full(len(rung), x) for x in (FIRST, 0.0, 1.0, 0.0)))
        state = policy.initial_state(Slots(len(rung)))._replace(rung=rung)
        return policy.step(ActingParams((), updates), jax.random.PRNGKey(0), shown, state)[1]

    compiled = jax.jit(act)
    return lambda rung, updates=0: jax.device_get(compiled(jnp.asarray(rung, jnp.float32), jnp.int32(updates)))


def test_the_temperature_is_that_of_the_part_of_training():
    for env_steps, expected in ((0, 1.0), (639, 1.0), (640, 0.5), (1279, 0.5), (1280, 0.25), (10**9, 0.25)):
        assert noise_of(PARTS, jnp.float32(env_steps), jnp.zeros(2)).temperature.tolist() == [expected, expected]
    assert noise_of(SelfPlay(), jnp.float32(10**9), jnp.zeros(1)).temperature.tolist() == [1.0]


@pytest.mark.parametrize("ratio", [4.0, 8.0])
@pytest.mark.parametrize(
    "reanalyze",
    [
        {},
        {"reanalyze_ratio": 0.5, "reanalyze": "update"},
        {"reanalyze_ratio": 0.5},
        {"reanalyze_ratio": 0.8},
        {"reanalyze_ratio": 0.99},
        {"reanalyze_ratio": 1.0},
    ],
    ids=[
        "fresh",
        "renewed within the update",
        "half of reanalyzers",
        "6 fresh ones",
        "1 fresh one",
        "all of reanalyzers",
    ],
)
def test_an_update_stands_for_as_many_env_steps_as_a_fused_program_makes(ratio, reanalyze):
    config = replaced(CONFIG, {"replay.samples_per_insert": ratio, **reanalyze})
    made = make_schedule(make_tables(config), num_envs=32, num_replayed=32, devices=1)
    assert env_steps_per_update(config) == 32 * made.period * made.rollouts / made.updates


def test_a_schedule_of_temperatures_needs_a_ratio():
    free = {"replay.samples_per_insert": None}
    with pytest.raises(ValueError, match="replay.samples_per_insert is None; it must be a number, unless"):
        replaced(CONFIG, {"self_play": PARTS, **free})
    replaced(CONFIG, free)


def test_each_slot_has_less_of_all_than_the_one_before():
    noise = noise_of(SelfPlay((1.0, 0.5), (10,), spread=0.5), jnp.float32(10), rungs(Slots(3)))
    assert noise.temperature.tolist() == [0.5, 0.375, 0.25] and noise.scale.tolist() == [1.0, 0.75, 0.5]
    parts = [noise_of(SelfPlay(spread=1.0), jnp.float32(0), rungs(Slots(2, first, 4))).scale for first in (0, 2)]
    np.testing.assert_allclose(np.concatenate(parts), [1, 2 / 3, 1 / 3, 0], atol=1e-6)


def test_actions_are_drawn_by_visits_to_the_power_of_one_over_the_temperature():
    config = replaced(CONFIG, {"search": "puct", "self_play": PARTS, "puct.dirichlet_fraction": 0.0})
    search, size = searching(replaced(config, {"puct.pb_c_init": 5.0}), game(1.0, 0.8, 0.0)), 2000
    for updates, power in ((0, 1), (10, 2), (20, 4)):  # Each stands for 64 env steps.
        found = search(np.zeros(size), updates)
        visits = found.policy.mean(axis=0)  # Ties are broken at random, so that slots differ by a visit.
        assert 0.1 < visits[2] < visits[1] - 0.05 < visits[0] - 0.1
        weights = found.policy**power
        expected = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
        np.testing.assert_allclose(np.bincount(found.action, minlength=A) / size, expected, atol=0.03)


@pytest.mark.parametrize("search", ["gumbel", "puct"])
def test_with_a_spread_of_one_the_first_slot_explores_and_the_last_takes_the_best(search):
    config = replaced(CONFIG, {"search": search, "self_play.random_actions": 0.6, "self_play.spread": 1.0})
    action = searching(config, game(0.0, 1.0, 0.0))([0.0] * 200 + [1.0] * 200).action
    assert np.mean(action[:200] != 1) > 0.3 and np.all(action[200:] == 1)


def test_noise_at_the_root_falls_too():
    """Gumbel's decides between moves that are alike, and Dirichlet's is in the root's prior."""
    config = replaced(CONFIG, {"num_simulations": 4, "self_play.spread": 1.0})
    action = searching(config, game(0.0, 0.0, 0.0))([0.0] * 50 + [1.0] * 50).action
    assert len(set(action[:50])) == A and len(set(action[50:])) == 1
    config = replaced(config, {"search": "puct", "puct.dirichlet_fraction": 0.1, "self_play.spread": 0.5})
    tree = searching(config, game(0.0, 0.0, 0.0))(np.repeat([0.0, 0.5, 1.0], 400)).tree
    prior = np.exp(tree.children_prior_logits[:, 0, :A])
    deviation = (prior / prior.sum(axis=-1, keepdims=True)).reshape(3, -1).std(axis=1)
    np.testing.assert_allclose(deviation / deviation[0], [1, 0.75, 0.5], atol=0.06)


def test_slots_are_those_of_all_actors_and_a_reanalyzers_are_none_of_them():
    policy = make_policy(Planner(CONFIG, game(0.0, 0.0, 0.0), SPEC, explore=True))
    assert policy.initial_state(Slots(2, 1, 3)).rung.tolist() == [0.5, 1.0]
    assert policy.initial_state(Slots(2, 1, 3, alike=True)).rung.tolist() == [0.0, 0.0]


def test_the_number_of_updates_comes_with_the_params():
    config = replaced(muzero.CATCH, {"torso.widths": (4,), "head_width": 4})
    update = muzero.make(config, SPEC._replace(observations=specs.Array((2,), np.float32))).update
    state = drawn(update.init)
    for updates in (0, 5):
        acting = update.params(state._replace(updates=np.int32(updates)))
        assert int(acting.updates) == updates and acting.params is state.params


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": (1.0, 0.5)}, r"temperature is \(1.0, 0.5\); it must be of length 1, one more than .*_steps"),
        ({"temperature_steps": (5,)}, r"temperature is \(1.0,\); it must be of length 2, one .*_steps, \(5,\)"),
        (
            {"temperature": (1.0, 0.5, 0.2), "temperature_steps": (5, 5)},
            r"temperature_steps is \(5, 5\); it must be increasing numbers",
        ),
        ({"temperature": (-1.0,)}, r"temperature is \(-1.0,\); it must be each in \[0, 2\]"),
        ({"temperature": (np.inf,)}, r"temperature is \(inf,\); it must be each in \[0, 2\]"),
        ({"temperature_steps": (0,)}, r"temperature_steps is \(0,\); it must be each at least 1"),
        ({"spread": 1.5}, r"spread is 1.5; it must be in \[0, 1\]"),
        ({"random_actions": -0.1}, r"random_actions is -0.1; it must be in \[0, 1\]"),
    ],
)
def test_what_cannot_work_is_refused_by_name(settings, message):
    with pytest.raises(ValueError, match="muzero.SelfPlay: " + message):
        SelfPlay(**settings)
    with pytest.raises(ValueError, match="muzero.Puct: pb_c_base is 0.0; it must be above 0"):
        muzero.Puct(pb_c_base=0.0)
