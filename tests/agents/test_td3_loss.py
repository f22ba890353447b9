"""TD3's losses by hand, on networks of a few numbers; the smoothed target, the delayed step, Polyak averages."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import td3
from boonta.agents.actor_critic import Layers, Networks
from boonta.agents.base import Batch, Steps
from boonta.agents.config import replaced
from boonta.agents.groups import Torso
from boonta.agents.heads import real_actions
from boonta.agents.optimisation import Context
from boonta.agents.td3.loss import smoothed, td3_loss
from boonta.agents.transitions import TransitionReplay
from boonta.envs.base import MID, EnvSpec

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

ACTIONS = specs.BoundedArray((1,), np.float32, -2, 2)
BOX = real_actions(ACTIONS, "TD3")
CONFIG = td3.Config(discount=0.5)
# The policy is a number; critic k is w_k * state + action ** 2.
TOY = Networks(
    init=lambda key: (),
    policy=lambda params, stack: jnp.broadcast_to(params, (len(stack), 1)),
    critics=lambda params, stack, action: params[None] * stack[:, 0] + action**2,
)
PARAMS = {"policy": jnp.float32(0.3), "critic": jnp.array([1.0, 2.0])}
TARGETS = {"policy": jnp.float32(-0.9), "critic": jnp.array([3.0, -1.0])}
KEY = jax.random.PRNGKey(0)


def batch():
    """One sequence: state 1, action 1.0 (scaled 0.5), then reward 4 in state 2."""
    column = lambda *x: np.array(x, np.float32).reshape(2, 1)  # noqa: E731
    kind = np.full((2, 1), MID, np.int32)
    steps = Steps(column(1, 2)[..., None], kind, column(0, 4), column(1, 1), column(1, 0)[..., None], (), kind)
    return Batch(steps, np.ones(1))


def loss(params=PARAMS, updates=1, config=CONFIG, targets=TARGETS):
    context = Context(targets, KEY, jnp.int32(updates), ())
    return td3_loss(params, context, batch(), networks=TOY, box=BOX, config=config)


def test_losses_and_gradients_by_hand():
    action_t = float(smoothed(KEY, jnp.array([[-0.9]]), CONFIG)[0, 0])
    target = 4 + 0.5 * (min(3 * 2, -1 * 2) + action_t**2)  # The least of both critics.
    total, outcome = loss()
    errors = [target - (w + 0.25) for w in (1, 2)]
    assert float(outcome.metrics["critic_loss"]) == pytest.approx(sum(e**2 for e in errors), rel=1e-5)
    assert float(outcome.metrics["policy_loss"]) == pytest.approx(-(1 + 0.3**2), rel=1e-5)  # The first critic alone.
    assert float(total) == pytest.approx(sum(e**2 for e in errors) - 1.09, rel=1e-5)
    gradient = jax.grad(lambda p: loss(p)[0])(PARAMS)
    np.testing.assert_allclose(gradient["critic"], [-2 * e for e in errors], rtol=1e-5)
    assert float(gradient["policy"]) == pytest.approx(-2 * 0.3, rel=1e-5)
    early = jax.grad(lambda p: loss(p, updates=0)[0])(PARAMS)
    assert float(early["policy"]) == 0 and float(loss(updates=0)[0]) == pytest.approx(float(total))


def test_ddpg_has_one_critic_and_no_noise_and_is_never_late():
    toy = {"policy": PARAMS["policy"], "critic": jnp.array([1.0])}
    targets = {"policy": TARGETS["policy"], "critic": jnp.array([3.0])}
    config = replaced(td3.DDPG.preset("default"), {"discount": 0.5})
    for updates in (0, 1):
        _, outcome = loss(toy, updates, config, targets)
        assert float(outcome.metrics["critic_loss"]) == pytest.approx((4 + 0.5 * (6 + 0.81) - 1.25) ** 2, rel=1e-5)
        slope = jax.grad(lambda p, u=updates: loss(p, u, config, targets)[0])(toy)["policy"]
        assert float(slope) == pytest.approx(-0.6, rel=1e-5)


def test_a_targets_noise_is_clipped_and_so_is_the_action():
    middle = np.asarray(smoothed(KEY, jnp.zeros((20_000, 1)), replaced(CONFIG, {"target_noise": 0.4})))
    assert middle.min() == -0.5 and middle.max() == 0.5
    np.testing.assert_allclose((np.abs(middle) == 0.5).mean(), 0.211, atol=0.01)  # Beyond 1.25 deviations.
    assert np.abs(middle[np.abs(middle) < 0.5]).mean() > 0.1
    edge = np.asarray(smoothed(KEY, jnp.full((20_000, 1), 0.9), CONFIG))
    assert edge.max() == 1 and edge.min() == pytest.approx(0.4)
    np.testing.assert_array_equal(smoothed(KEY, jnp.ones((5, 1)), td3.DDPG.preset("default")), 1)


def test_policy_and_targets_move_in_every_second_update_alone():
    spec = EnvSpec(specs.Array((1,), np.float32), ACTIONS)
    agent = td3.make(replaced(td3.Config(Layers(widths=(4,))), {"tau": 0.25, "replay.batch_size": 1}), spec)
    step = jax.jit(agent.update.step)
    states = [agent.update.init(jax.random.PRNGKey(0))]
    metrics = []
    for _ in range(4):
        state, _, measured = step(states[-1], batch())
        states.append(state)
        metrics.append(measured)

    def moved(one, two):
        return max(np.abs(np.asarray(x) - np.asarray(y)).max() for x, y in zip(*map(jax.tree.leaves, (one, two))))

    for i, (before, after) in enumerate(zip(states, states[1:])):
        due = i % 2 == 1
        assert (moved(before.params["policy"], after.params["policy"]) > 0) == due
        assert (moved(before.opt_state["policy"], after.opt_state["policy"]) > 0) == due  # Adam's moments rest, too.
        assert (moved(before.target_params, after.target_params) > 0) == due
        assert moved(before.params["critic"], after.params["critic"]) > 0
        assert (float(metrics[i]["update_norm/policy"]) > 0) == due
        assert metrics[i]["rests/policy"] == 1 - due and "rests/critic" not in metrics[i]
    jax.tree.map(
        lambda target, old, new: np.testing.assert_allclose(target, 0.75 * old + 0.25 * new, rtol=1e-5, atol=1e-7),
        states[2].target_params,
        states[0].params,
        states[2].params,
    )


def test_the_branch_of_the_delayed_policy_holds_no_convolution_that_branches_are_slow_at():
    images = EnvSpec(specs.BoundedArray((36, 36), np.uint8, 0, 255), ACTIONS)
    agent = td3.make(td3.Config(Layers(Torso("nature"), widths=(8,)), replay=TransitionReplay(batch_size=1)), images)
    rows = batch()
    pictures = rows._replace(
        steps=rows.steps._replace(observation=jnp.zeros((*rows.steps.reward.shape, 36, 36), jnp.uint8))
    )
    traced = jax.make_jaxpr(agent.update.step)(jax.eval_shape(agent.update.init, KEY), pictures)
    branches = [str(branch) for branch in conditionals(traced.jaxpr)]
    assert "conv_general_dilated" in str(traced) and branches
    assert not any("conv_general_dilated" in branch for branch in branches)


def conditionals(jaxpr):
    """The branches of all `lax.cond` in a traced program, those in its parts as well."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "cond":
            yield from equation.params["branches"]
        for part in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")):
            if hasattr(part, "jaxpr"):
                yield from conditionals(part.jaxpr)
