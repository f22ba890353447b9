"""SAC's losses by hand, on networks of a few numbers; where each gradient goes; an update."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import sac
from boonta.agents.actor_critic import Layers, Networks
from boonta.agents.base import Batch, Steps
from boonta.agents.config import replaced
from boonta.agents.groups import Gaussian
from boonta.agents.heads import make_action_head, real_actions
from boonta.agents.optimisation import Context
from boonta.agents.sac.loss import sac_loss
from boonta.envs.base import LAST, MID, EnvSpec

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

ACTIONS = specs.BoundedArray((1,), np.float32, -2, 2)
BOX, HEAD = real_actions(ACTIONS, "SAC"), make_action_head(ACTIONS, "SAC", Gaussian())
CONFIG = sac.Config(discount=0.5)
# The policy's mean and log deviation are params; critic k is w_k * state + action.
TOY = Networks(
    init=lambda key: (),
    policy=lambda params, stack: jnp.broadcast_to(params, (len(stack), 2)),
    critics=lambda params, stack, action: params[None] * stack[:, 0] + action,
)
KEY = jax.random.PRNGKey(3)
PARAMS = {"policy": jnp.array([0.1, -1.0]), "critic": jnp.array([1.0, 2.0]), "temperature": jnp.log(0.2)}
TARGETS = jnp.array([3.0, -1.0])


def batch(kinds=(MID, MID), discount=1.0):
    """One sequence: state 1, action 1.0 (scaled 0.5), then reward 4 in state 2."""
    column = lambda *x: np.array(x, np.float32).reshape(2, 1)  # noqa: E731
    kind = np.array(kinds, np.int32)[:, None]
    steps = Steps(column(1, 2)[..., None], kind, column(0, 4), column(1, discount), column(1, 0)[..., None], (), kind)
    return Batch(steps, np.ones(1))


@functools.cache
def compiled_loss(config):
    """Compiled once for all tests."""
    return jax.jit(functools.partial(sac_loss, networks=TOY, head=HEAD, box=BOX, config=config))


def loss(params=PARAMS, made=None, config=CONFIG, key=KEY):
    context = Context(TARGETS, key, np.int32(0), ())
    return compiled_loss(config)(params, context, made or batch())


def drawn():
    """The two actions that the loss draws, scaled, and their log-densities: of the target, and of the policy."""
    policy = HEAD.distribution(PARAMS["policy"][None])
    return [(float(a[0, 0]) / 2, float(p[0])) for a, p in map(policy.sample_and_log_prob, jax.random.split(KEY))]


def test_losses_by_hand():
    (action_t, log_pi_t), (action, log_pi) = drawn()
    q_t = min(3 * 2, -1 * 2) + action_t
    target = 4 + 0.5 * (q_t - 0.2 * log_pi_t)
    critic_loss = 0.5 * sum((target - (w * 1 + 0.5)) ** 2 for w in (1, 2))
    policy_loss = 0.2 * log_pi - (min(1, 2) * 1 + action)
    temperature_loss = -0.2 * (log_pi - 1.0)
    total, outcome = loss()
    found = outcome.metrics
    assert float(found["critic_loss"]) == pytest.approx(critic_loss, rel=1e-5)
    assert float(found["policy_loss"]) == pytest.approx(policy_loss, rel=1e-5)
    assert float(found["temperature_loss"]) == pytest.approx(temperature_loss, rel=1e-5)
    assert float(total) == pytest.approx(critic_loss + policy_loss + temperature_loss, rel=1e-5)
    assert float(found["differential_entropy"]) == pytest.approx(-log_pi, rel=1e-5)
    assert float(outcome.statistics) == 1


def test_ends_and_what_is_no_transition():
    _, terminated = loss(made=batch((MID, LAST), 0.0))
    critic_loss = 0.5 * ((4 - 1.5) ** 2 + (4 - 2.5) ** 2)
    assert float(terminated.metrics["critic_loss"]) == pytest.approx(critic_loss, rel=1e-5)
    assert float(loss(made=batch((MID, LAST), 1.0))[1].metrics["critic_loss"]) == pytest.approx(
        float(loss()[1].metrics["critic_loss"]), rel=1e-6
    )
    total, between = loss(made=batch((LAST, MID)))
    assert float(total) == 0 and float(between.statistics) == 0


def test_a_target_of_three_steps_has_the_entropy_at_its_end_alone():
    """States 1 to 4; rewards 4, 8, 16 with discount 0.5; the entropies at states 2 and 3 are not in the target."""
    column = lambda *x: np.array(x, np.float32).reshape(4, 1)  # noqa: E731
    kind = np.full((4, 1), MID, np.int32)
    action = column(1, 0, 0, 0)[..., None]
    steps = Steps(column(1, 2, 3, 4)[..., None], kind, column(0, 4, 8, 16), column(1, 1, 1, 1), action, (), kind)
    (action_t, log_pi_t), _ = drawn()
    q_t = min(3 * 4, -1 * 4) + action_t
    target = 4 + 0.5 * 8 + 0.25 * 16 + 0.125 * (q_t - 0.2 * log_pi_t)
    critic_loss = 0.5 * sum((target - (w * 1 + 0.5)) ** 2 for w in (1, 2))
    _, outcome = loss(made=Batch(steps, np.ones(1)), config=replaced(CONFIG, {"replay.bootstrap_length": 3}))
    assert float(outcome.metrics["critic_loss"]) == pytest.approx(critic_loss, rel=1e-5)
    assert float(outcome.statistics) == 1


def test_gradients_by_hand_and_by_differences():
    gradient = jax.grad(lambda p: loss(p)[0])(PARAMS)
    (action_t, log_pi_t), (_, log_pi) = drawn()
    # The temperature falls where entropy, -log pi, is above the wanted -1: its slope by log alpha is alpha (H + 1).
    assert float(gradient["temperature"]) == pytest.approx(0.2 * (-log_pi - (-1)), rel=1e-5)
    # Critics: their own error alone; neither the target's nor the policy's loss moves them.
    target = 4 + 0.5 * (-2 + action_t - 0.2 * log_pi_t)
    np.testing.assert_allclose(gradient["critic"], [-(target - 1.5), -(target - 2.5)], rtol=1e-5)
    # Policy: differences of its own loss, with the same noise; the critics' target doesn't move it.
    for i in range(2):
        step = np.zeros(2, np.float32)
        step[i] = 1e-3
        ends = [float(loss(PARAMS | {"policy": PARAMS["policy"] + s})[1].metrics["policy_loss"]) for s in (step, -step)]
        assert float(gradient["policy"][i]) == pytest.approx((ends[0] - ends[1]) / 2e-3, abs=2e-3)


def test_the_wanted_entropy_is_by_the_actions_size():
    wanted = replaced(CONFIG, {"entropy_per_number": -0.5})
    assert float(loss(config=wanted)[1].metrics["entropy_wanted"]) == -0.5
    three = specs.BoundedArray((3,), np.float32, -1, 1)
    toy = TOY._replace(policy=lambda params, stack: jnp.zeros((len(stack), 6)))
    made = batch()
    made = made._replace(steps=made.steps._replace(action=np.zeros((2, 1, 3), np.float32)))
    context = Context(TARGETS, KEY, jnp.int32(0), ())
    toy = toy._replace(critics=lambda params, stack, action: params[None] + action.sum(-1, keepdims=True))
    head, box = make_action_head(three, "SAC"), real_actions(three, "SAC")
    compiled = jax.jit(functools.partial(sac_loss, networks=toy, head=head, box=box, config=CONFIG))
    _, outcome = compiled(PARAMS, context, made)
    assert float(outcome.metrics["entropy_wanted"]) == -3


def test_an_update_moves_everything_and_the_targets_by_polyak():
    spec = EnvSpec(specs.Array((1,), np.float32), ACTIONS)
    agent = sac.make(replaced(sac.Config(Layers(widths=(4,))), {"tau": 0.25, "replay.batch_size": 1}), spec)
    before = jax.device_get(jax.jit(agent.update.init)(jax.random.PRNGKey(0)))
    after, priorities, _ = jax.device_get(jax.jit(agent.update.step)(before, batch()))
    assert priorities is None and float(agent.update.params(after)["transitions"]) == 1
    for name in ("policy", "critic", "temperature"):
        moved = jax.tree.map(lambda x, y: np.abs(x - y).max(), before.params[name], after.params[name])
        assert max(jax.tree.leaves(moved)) > 1e-5
    jax.tree.map(
        lambda target, old, new: np.testing.assert_allclose(target, 0.75 * old + 0.25 * new, rtol=1e-5, atol=1e-7),
        after.target_params,
        before.target_params,
        after.params["critic"],
    )
    assert all(
        np.asarray(x == y).all() for x, y in zip(*map(jax.tree.leaves, (before.target_params, before.params["critic"])))
    )
