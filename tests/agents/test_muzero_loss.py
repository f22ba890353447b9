"""MuZero's loss against a second implementation: plain loops over batch, roots and steps, in numpy."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents.base import Batch, Steps
from boonta.agents.groups import Replay, Torso
from boonta.agents.heads import make_support
from boonta.agents.muzero import Config
from boonta.agents.muzero.loss import consistency_loss, muzero_loss, unroll_model
from boonta.agents.muzero.networks import ChanceModel, Model, Prediction, action_places, make_model
from boonta.agents.muzero.policy import Extras
from boonta.agents.optimisation import Context
from boonta.envs.base import FIRST, LAST, MID, BoardView
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
B, A, D = 3, 2, 4
CONFIG = Config(
    roots=2,
    unroll_length=3,
    bootstrap_length=2,
    discount=0.9,
    support_bins=11,
    support_limit=3.0,
    replay=Replay(batch_size=B),
)
SMALL_TOWER = Torso("tower", channels=(4,), blocks=0)
DUMMY = np.eye(A + 1)[A]
SUPPORT = (CONFIG.support_limit, CONFIG.support_bins)
TO_SUPPORT = jax.jit(make_support(*SUPPORT).apply)
FROM_SUPPORT = jax.jit(lambda logits: make_support(*SUPPORT).apply_inv(jax.nn.softmax(logits)))


@functools.cache
def compiled_loss(config):
    """The loss of the model of matrices, compiled once for all tests."""
    return jax.jit(functools.partial(muzero_loss, model=LINEAR, config=config))


def make_params(seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"h": (D, D), "g": (D + A + 1, D), "r": (D + A + 1, 11), "p": (D, A + 1), "v": (D, 11), "q": (D, D)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def _dynamics(params, hidden, choice):
    x = jnp.concatenate([hidden, choice], axis=-1)
    return jnp.tanh(x @ params["g"]), x @ params["r"]


# A model of one matrix a function, which the second implementation can do by hand.
LINEAR = Model(
    init=lambda key: make_params(),
    represent=lambda params, stack: jnp.tanh(stack[..., 0] @ params["h"]),
    predict=lambda params, hidden: Prediction(hidden @ params["p"], hidden @ params["v"]),
    dynamics=_dynamics,
    project=lambda params, hidden: hidden,
    foresee=lambda params, x: x @ params["q"],
)


def make_batch(seed=0, rows=7):
    """Random episodes of about four steps, one in two truncated."""
    rng = np.random.default_rng(seed)
    step_type = np.full((rows, B), MID, np.int32)
    for b in range(B):
        for t in range(rows):
            if t and step_type[t - 1, b] == LAST:
                step_type[t, b] = FIRST
            elif rng.random() < 0.25:
                step_type[t, b] = LAST
    truncated = rng.random((rows, B)) < 0.5
    policy = rng.dirichlet(np.ones(A), (rows, B)).astype(np.float32)
    steps = Steps(
        observation=rng.normal(size=(rows, B, D)).astype(np.float32),
        step_type=step_type,
        reward=np.where(step_type == FIRST, 0, rng.normal(size=(rows, B))).astype(np.float32),
        discount=np.where((step_type == LAST) & ~truncated, 0, 1).astype(np.float32),
        action=rng.integers(A, size=(rows, B)).astype(np.int32),
        extras=Extras(policy, rng.normal(size=(rows, B)).astype(np.float32)),
        version=np.zeros((rows, B), np.int32),
    )
    return Batch(steps, np.array([0.1, 0.4, 0.2], np.float32))


def cross_entropy(logits, target):
    return float(-np.sum(target * (logits - np.log(np.sum(np.exp(logits))))))


def plain_loss(params, target_params, batch, config):
    """Eq. 1 with loops, and the priorities."""
    s = jax.tree.map(np.asarray, batch.steps)
    two_hot = lambda x: np.asarray(TO_SUPPORT(jnp.float32(x)))  # noqa: E731
    scalar = lambda logits: float(FROM_SUPPORT(logits[None])[0])  # noqa: E731
    represent = lambda params, t, b: np.tanh(s.observation[t, b] @ params["h"])  # noqa: E731

    def bootstrap(t, b):
        if config.value_target == "search":
            return float(s.extras.value[t, b])
        return scalar(represent(target_params, t, b) @ target_params["v"])

    def value_of(t, b, n):
        """The n-step return of row t."""
        if s.step_type[t, b] == LAST:
            return bootstrap(t, b) if s.discount[t, b] else 0.0
        if n == 0:
            return bootstrap(t, b)
        return s.reward[t + 1, b] + config.discount * s.discount[t + 1, b] * value_of(t + 1, b, n - 1)

    total, priorities = 0.0, np.zeros(B)
    weights = (batch.probability.min() / batch.probability) ** config.replay.importance_exponent
    for b in range(B):
        for root in range(config.roots):
            hidden = represent(params, root, b)
            z = value_of(root, b, config.bootstrap_length)
            priorities[b] += abs(scalar(hidden @ params["v"]) - z) / config.roots / config.support_limit
            ended = ""  # The end of the window's episode before row t: "", "terminated" or "truncated".
            loss = 0.0
            for k in range(config.unroll_length + 1):
                t, share = root + k, 1.0 if k == 0 else 1 / config.unroll_length
                if k:
                    last = s.step_type[t - 1, b] == LAST
                    if last and not ended:
                        ended = "truncated" if s.discount[t - 1, b] else "terminated"
                    action = A if ended else s.action[t - 1, b]
                    x = np.concatenate([hidden, np.eye(A + 1)[action]])
                    hidden = np.tanh(x @ params["g"])
                    if ended == "truncated":
                        break
                    reward = 0.0 if ended else s.reward[t, b]
                    loss += share * config.reward_cost * cross_entropy(x @ params["r"], two_hot(reward))
                    if not ended:
                        seen, prediction = represent(params, t, b), hidden @ params["q"]
                        distance = 1 - seen @ prediction / np.linalg.norm(seen) / np.linalg.norm(prediction)
                        loss += share * config.consistency_cost * distance
                here = s.step_type[t, b] == LAST and s.discount[t, b] == 0
                z = 0.0 if ended else value_of(t, b, config.bootstrap_length)
                policy = DUMMY if ended or here else np.append(s.extras.policy[t, b], 0)
                loss += share * config.value_cost * cross_entropy(hidden @ params["v"], two_hot(z))
                loss += share * config.policy_cost * cross_entropy(hidden @ params["p"], policy)
            total += weights[b] * loss / (B * config.roots)
    return total, priorities


@pytest.mark.parametrize("value_target", ["target", "search"])
def test_agrees_with_plain_loops(value_target):
    config = dataclasses.replace(CONFIG, value_target=value_target)
    params, target_params = make_params(1), make_params(2)
    context = Context(target_params, jax.random.PRNGKey(0), jnp.int32(0))
    for seed in range(6):
        batch = make_batch(seed)
        loss, (priorities, metrics, _) = compiled_loss(config)(params, context, batch)
        wanted, wanted_priorities = plain_loss(params, target_params, batch, config)
        assert float(loss) == pytest.approx(wanted, rel=1e-4)
        np.testing.assert_allclose(priorities, wanted_priorities, rtol=1e-3, atol=1e-4)
        assert all(np.isfinite(x) for x in metrics.values())


def test_gradients_halve_at_each_step_of_the_model():
    identity = LINEAR._replace(dynamics=lambda params, hidden, choice: (hidden, hidden))
    stack = np.ones((1, 1, D, 1), np.float32)

    def sums_of_hidden(w):
        model = identity._replace(represent=lambda params, stack: w * stack[..., 0])
        unroll = unroll_model(make_params(), stack, np.zeros((1, 3), np.int32), model, A)
        return jnp.sum(unroll.hidden, axis=(0, 2))

    np.testing.assert_allclose(jax.jit(jax.jacrev(sums_of_hidden))(1.0), D * np.array([1, 1 / 2, 1 / 4, 1 / 8]))


def test_beyond_the_end_chance_is_not_told_the_next_episode():
    """The encoder goes on seeing the last observation; the dummy action, A, leads there."""
    chance = ChanceModel(
        afterstate=lambda params, hidden, choice: hidden,
        predict=lambda params, hidden: Prediction(hidden, hidden),
        encode=lambda params, stack: stack[..., 0],
    )
    model = LINEAR._replace(chance=chance, dynamics=lambda params, hidden, code: (hidden, hidden))
    stack = np.arange(4.0, dtype=np.float32)[:, None, None, None] * np.ones((4, 1, D, 1), np.float32)
    unroll = unroll_model(make_params(), stack, np.array([[0, A, A]], np.int32), model, A)
    np.testing.assert_array_equal(unroll.chance.encoding[0, :, 0], [1, 1, 1])
    unroll = unroll_model(make_params(), stack, np.array([[0, 1, 0]], np.int32), model, A)
    np.testing.assert_array_equal(unroll.chance.encoding[0, :, 0], [1, 2, 3])


def test_consistency_teaches_only_the_side_that_foresees():
    def loss(params, observed):
        stack = jnp.stack([jnp.ones((1, D)), observed])[..., None]
        unroll = unroll_model(params, stack, np.zeros((1, 1), np.int32), LINEAR, A)
        return jnp.sum(consistency_loss(params, unroll.hidden, stack, LINEAR, roots=1))

    observed = np.arange(1, D + 1, dtype=np.float32)[None]
    value, (taught, seen) = jax.device_get(jax.jit(jax.value_and_grad(loss, (0, 1)))(make_params(), observed))
    assert 0 <= value <= 2
    assert not np.any(seen)
    assert np.any(taught["q"])


def test_the_metrics_show_a_support_that_is_too_small_for_what_is_seen():
    def beyond(reward, value):
        """The share of values and rewards beyond the support, of limit 3, and the largest in units of that limit.

        Each step earns `reward`, and acting's searches found `value`.
        """
        config = dataclasses.replace(CONFIG, value_target="search", discount=0.99)
        batch = make_batch()
        extras = batch.steps.extras._replace(value=np.full_like(batch.steps.extras.value, value))
        steps = batch.steps._replace(
            step_type=np.full_like(batch.steps.step_type, MID),
            discount=np.ones_like(batch.steps.discount),
            reward=np.full_like(batch.steps.reward, reward),
            extras=extras,
        )
        context = Context(make_params(2), jax.random.PRNGKey(0), jnp.int32(0))
        _, (_, metrics, _) = compiled_loss(config)(make_params(), context, batch._replace(steps=steps))
        return float(metrics["outside_support"]), float(metrics["largest_target_share"])

    share, largest = beyond(0.1, 2.0)
    assert share == 0 and largest < 1
    # Bootstrapped values are limited to the support, so targets accumulate a reward or two beyond its end.
    assert beyond(0.1, 3.0) == (1.0, pytest.approx(3.139 / 3, rel=1e-3))
    assert beyond(300.0, 0.0)[1] == pytest.approx(597 / 3, rel=1e-2)


def test_support_goes_there_and_back():
    support = make_support(limit=10.0, bins=51)
    x = np.float32([-10.0, -3.3, 0.0, 0.5, 10.0])
    categories = np.asarray(support.apply(x))  # Compiled as one, JAX 0.6 loses a ten-thousandth at the limit.
    assert categories.shape == (5, 51)
    np.testing.assert_allclose(np.sum(categories, -1), 1, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(support.apply_inv)(categories), x, atol=2e-2)
    assert float(categories[2, 25]) == 1


@pytest.mark.parametrize(
    ("config", "view"),
    [
        (Config(Torso(widths=(16, 16)), head_width=8, frame_stack=2), specs.Array((3, 4), np.float32)),
        (Config(Torso(widths=(16,), normalise=True), head_width=8, search="stochastic"), specs.Array((3,), np.float32)),
        (Config(Torso("tower", channels=(4,), blocks=1, halvings=2), frame_stack=3), specs.Array((20, 20), np.uint8)),
        (Config(SMALL_TOWER, action_planes="place"), specs.Array((4, A), np.float32)),
        (Config(SMALL_TOWER, search="stochastic"), specs.Array((6, 7, 3), np.float32)),
    ],
)
def test_models_learn_as_one(config, view):
    """Each part of either family gets a gradient; hidden states stay in [0, 1]."""
    config = dataclasses.replace(config, roots=2, unroll_length=1, bootstrap_length=1, chance_codes=3)
    model = make_model(config, view, A)
    batch = make_batch(rows=config.sequence_length)
    rng = np.random.default_rng(0)
    observation = rng.integers(0, 5, (config.sequence_length, B, *view.shape)).astype(view.dtype)
    batch = batch._replace(steps=batch.steps._replace(observation=observation))
    # The heads start at 0, where no gradient passes through them; these params are elsewhere.
    params = drawn(model.init)
    context = Context(params, jax.random.PRNGKey(0), jnp.int32(0))
    loss = functools.partial(muzero_loss, model=model, config=config)
    gradient, _ = jax.device_get(jax.jit(jax.grad(loss, has_aux=True))(params, context, batch))
    still = [jax.tree_util.keystr(path) for path, x in jax.tree_util.tree_leaves_with_path(gradient) if not np.any(x)]
    assert not still
    hidden = np.asarray(jax.jit(model.represent)(params, observation[0][..., None].repeat(config.frame_stack, -1)))
    assert hidden.shape[0] == B and hidden.min() >= 0 and hidden.max() <= 1


@pytest.mark.parametrize(("num_actions", "passes"), [(3, 0), (4, 1), (6, 0), (7, 1)])
def test_places_of_actions(num_actions, passes):
    """Columns or cells of a board of 2 x 3; another plane marks a pass and the dummy action, which have no place."""
    places = action_places(specs.Array((2, 3, 5), np.float32), num_actions)
    assert places.shape == (num_actions + 1, 2, 3, 2) and places.dtype == np.float32
    for action, (place, nowhere) in enumerate(np.moveaxis(places, -1, 1)):
        expected = np.zeros((2, 3))
        if action < num_actions - passes:
            expected[(slice(None), action) if num_actions < 6 else divmod(action, 3)] = 1
        np.testing.assert_array_equal(place, expected)
        np.testing.assert_array_equal(nowhere, not expected.any())


def test_a_board_is_learned_from_by_its_view():
    context = Context(make_params(2), jax.random.PRNGKey(0), jnp.int32(0))
    plain = make_batch()
    board = BoardView(plain.steps.observation, np.ones((7, B, A), bool), np.zeros((7, B), np.int32))
    losses = [
        compiled_loss(CONFIG)(make_params(), context, batch)[0]
        for batch in (plain, plain._replace(steps=plain.steps._replace(observation=board)))
    ]
    assert float(losses[0]) == pytest.approx(float(losses[1]), rel=1e-6)
