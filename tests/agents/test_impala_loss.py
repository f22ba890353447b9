import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.actor_policy import Extras
from boonta.agents.base import Batch, Steps
from boonta.agents.distributions import ILLEGAL
from boonta.agents.heads import categorical
from boonta.agents.impala import Config
from boonta.agents.impala.loss import impala_loss
from boonta.agents.policy_value import Network, Outputs
from boonta.agents.recurrence import Core
from boonta.agents.returns import v_trace
from boonta.envs.base import FIRST, LAST, MID

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def random_trace(rng, t=7, b=5):
    values = rng.normal(size=(t + 1, b)).astype(np.float32)
    reward = rng.normal(size=(t, b)).astype(np.float32)
    discount = rng.choice([0.0, 0.9, 0.99], size=(t, b)).astype(np.float32)
    rho = np.where(rng.random((t, b)) < 0.2, 0, np.exp(rng.normal(size=(t, b)))).astype(np.float32)
    return values[:-1], values[1:], reward, discount, rho


@pytest.mark.parametrize("clip_rho,trace_lambda", [(1.0, 1.0), (1.5, 0.7), (1e9, 1.0)])
def test_v_trace_is_equation_1(clip_rho, trace_lambda):
    v_tm1, v_t, reward, discount, rho = random_trace(np.random.default_rng(0))
    traced = jax.jit(v_trace, static_argnums=(5, 6))
    target, advantage = traced(v_tm1, v_t, reward, discount, rho, clip_rho, trace_lambda)
    rows, batch = reward.shape
    expected = np.zeros((rows + 1, batch))
    expected[rows] = v_t[-1]
    for b in range(batch):
        for s in range(rows):
            # v_s = V(x_s) + sum_{t=s}^{T-1} (prod_{i=s}^{t-1} discount_i c_i) delta_t
            expected[s, b] = v_tm1[s, b]
            for t in range(s, rows):
                weight = 1.0
                for i in range(s, t):
                    weight *= discount[i, b] * trace_lambda * min(1, rho[i, b])
                td = reward[t, b] + discount[t, b] * v_t[t, b] - v_tm1[t, b]
                expected[s, b] += weight * min(clip_rho, rho[t, b]) * td
    np.testing.assert_allclose(target, expected[:-1], rtol=1e-4, atol=1e-4)
    bootstrap = trace_lambda * expected[1:] + (1 - trace_lambda) * v_t
    q = reward + discount * bootstrap
    np.testing.assert_allclose(advantage, np.minimum(clip_rho, rho) * (q - v_tm1), rtol=1e-4, atol=1e-4)


# A network whose params are its outputs: gradients by row.
TABULAR = Network(
    init=lambda key: None,
    initial_state=lambda batch_size: (),
    unroll=lambda params, inputs, lstm: (Outputs(params["logits"], params["value"]), lstm),
)


def make_batch(step_type, reward, discount, action, logits):
    step_type = np.asarray(step_type, np.int32)
    core = Core((), np.zeros((1, step_type.shape[1]), np.int32))
    observation = np.zeros((*step_type.shape, 1), np.float32)
    extras = Extras(np.asarray(logits, np.float32))
    reward, discount = np.asarray(reward, np.float32), np.asarray(discount, np.float32)
    steps = Steps(observation, step_type, reward, discount, np.asarray(action, np.int32), extras, step_type, core)
    return Batch(steps, np.ones(step_type.shape[1], np.float32))


@functools.cache
def compiled_gradients(config):
    """The loss's gradient and metrics, compiled once for all tests with a config."""
    loss = functools.partial(impala_loss, network=TABULAR, head=categorical(2), config=config)
    return jax.jit(jax.grad(loss, has_aux=True))


def gradients(params, batch, **config):
    config = Config(**{"frame_stack": 1, "reward_clip": "none", "entropy_cost": 0.0} | config)
    return jax.device_get(compiled_gradients(config)(params, jax.random.PRNGKey(0), batch))


# Discount 0.5. The policy is a coin; rows were acted on with the probabilities `mu` of action 0, which was taken, so
# that rho = 0.5 / mu: 2, counted as 1, for 0.25; 0.625 for 0.8; 1 for 0.5.
#
# terminated: errors -1 - 3 = -4; 0.625 (0.5*3 - 2) + 0.3125*-4 = -1.5625; 1 + 0.5*2 - 1 + 0.5*-1.5625 = 0.21875
# truncated:  the last error is -1 + 0.5*4 - 3 = -2: the value of the LAST observation, 4, counts
# crossing:   row 1 is LAST, so transition 1 is none; errors 0.5 - 1 = -0.5 (or with truncation 0.5 + 0.5*2 - 1 = 0.5);
#             -1 + 0.5*2 - 4 = -4 for the last and 0.625 (1 + 0.5*4 - 3) + 0.3125*-4 = -1.25 for the one before
HAND_MADE = {
    "terminated": dict(
        step_type=[FIRST, MID, MID, LAST],
        reward=[0, 1, 0, -1],
        discount=[1, 1, 1, 0],
        mu=[0.25, 0.8, 0.5, 0.9],
        value=[1, 2, 3, 4],
        target=[1.21875, 0.4375, -1],
        advantage=[0.21875, -1.5625, -4],
    ),
    "truncated": dict(
        step_type=[FIRST, MID, MID, LAST],
        reward=[0, 1, 0, -1],
        discount=[1, 1, 1, 1],
        mu=[0.25, 0.8, 0.5, 0.9],
        value=[1, 2, 3, 4],
        target=[1.53125, 1.0625, 1],
        advantage=[0.53125, -0.9375, -2],
    ),
    "crossing after termination": dict(
        step_type=[MID, LAST, FIRST, MID, MID],
        reward=[7, 0.5, 0, 1, -1],
        discount=[1, 0, 1, 1, 1],
        mu=[0.25, 0.5, 0.8, 0.5, 0.9],
        value=[1, 2, 3, 4, 2],
        target=[0.5, 2, 1.75, 0],
        advantage=[-0.5, 0, -1.25, -4],
    ),
    "crossing after truncation": dict(
        step_type=[MID, LAST, FIRST, MID, MID],
        reward=[7, 0.5, 0, 1, -1],
        discount=[1, 1, 1, 1, 1],
        mu=[0.25, 0.5, 0.8, 0.5, 0.9],
        value=[1, 2, 3, 4, 2],
        target=[1.5, 2, 1.75, 0],
        advantage=[0.5, 0, -1.25, -4],
    ),
}


@pytest.mark.parametrize("name", HAND_MADE)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_hand_made_trajectories(name, reduction):
    case = {key: np.array(x, np.float32)[:, None] for key, x in HAND_MADE[name].items()}
    logits = np.log(np.stack([case["mu"], 1 - case["mu"]], axis=-1))
    batch = make_batch(case["step_type"], case["reward"], case["discount"], np.zeros_like(case["mu"]), logits)
    params = {"logits": np.zeros_like(logits), "value": case["value"]}
    gradient, (_, metrics, _) = gradients(params, batch, discount=0.5, reduction=reduction)
    transitions = (case["step_type"][:-1] != LAST).sum()
    assert float(metrics["transitions"]) == transitions
    scale = 1 if reduction == "sum" else 1 / transitions
    # d/dV of 0.5 * (target - V)^2 at baseline cost 0.5, and d/dlogit of -log pi(0) * advantage at pi = 0.5.
    expected = 0.5 * (case["value"][:-1] - case["target"]) * scale
    np.testing.assert_allclose(gradient["value"][:-1], expected, atol=1e-5)
    np.testing.assert_allclose(gradient["logits"][:-1, :, 0], -0.5 * case["advantage"] * scale, atol=1e-5)
    assert not np.any(gradient["value"][-1]) and not np.any(gradient["logits"][-1])


def random_batch(rng, rows=8, batch=3, ends=(3, 5)):
    step_type = np.full((rows, batch), MID)
    for end in ends:
        step_type[end], step_type[end + 1] = LAST, FIRST
    reward = rng.normal(size=(rows, batch))
    logits = rng.normal(size=(rows, batch, 2))
    params = {"logits": rng.normal(size=(rows, batch, 2)), "value": rng.normal(size=(rows, batch))}
    params = jax.tree.map(np.float32, params)
    return params, make_batch(step_type, reward, np.ones((rows, batch)), rng.integers(2, size=(rows, batch)), logits)


def test_masked_rows_teach_nothing():
    params, batch = random_batch(np.random.default_rng(0))
    steps = batch.steps
    before, _ = gradients(params, batch, entropy_cost=0.01)
    for end in (3, 5):
        steps.action[end] = 1 - steps.action[end]
        steps.extras.logits[end] += np.array([5.0, 0.0])
        steps.reward[end + 1] = 100.0
        steps.discount[end + 1] = 0.0
    after, _ = gradients(params, batch, entropy_cost=0.01)
    jax.tree.map(np.testing.assert_array_equal, before, after)
    assert not np.any(before["value"][3]) and not np.any(before["logits"][3])


def test_an_action_on_last_may_be_impossible_to_the_policy_that_acted():
    params, batch = random_batch(np.random.default_rng(0), ends=(3,))
    # It isn't compiled as a whole: XLA makes a choice of a product with a mask, and 0 * inf is 0 then.
    loss = functools.partial(
        impala_loss, network=TABULAR, head=categorical(2), config=Config(frame_stack=1, reward_clip="none")
    )
    before, _ = loss(params, None, batch)
    np.put_along_axis(batch.steps.extras.logits[3], batch.steps.action[3][:, None], ILLEGAL, axis=-1)
    after, (_, metrics, _) = loss(params, None, batch)
    assert before == after
    assert np.isfinite(metrics["rho"])


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_next_episode_does_not_leak_into_the_last(reduction):
    params, batch = random_batch(np.random.default_rng(0), ends=(3,))
    steps = batch.steps
    before, _ = gradients(params, batch, reduction=reduction)
    for x in (steps.reward, steps.action, steps.extras.logits):
        x[4:] = x[4:][::-1].copy()
    params = jax.tree.map(lambda x: np.concatenate([x[:4], 3 * x[4:]]), params)
    after, _ = gradients(params, batch, reduction=reduction)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[:4], b[:4]), before, after)
    assert np.abs(before["value"][4:] - after["value"][4:]).max() > 0.01


def test_rewards_are_clipped():
    params, batch = random_batch(np.random.default_rng(0))
    batch.steps.reward[:] *= 10
    clipped, (_, metrics, _) = gradients(params, batch, reward_clip="abs_one")
    batch.steps.reward[:] = np.clip(batch.steps.reward, -1, 1)
    jax.tree.map(np.testing.assert_array_equal, clipped, gradients(params, batch)[0])
    assert -1 <= float(metrics["reward"]) <= 1


def test_entropy_bonus_evens_the_policy_out():
    params, batch = random_batch(np.random.default_rng(0))
    with_bonus, (_, metrics, _) = gradients(params, batch, entropy_cost=0.1, reduction="mean")
    without, _ = gradients(params, batch, reduction="mean")

    def entropy(logits):  # The mean over the unmasked transitions.
        p = jax.nn.softmax(logits[np.array([0, 1, 2, 4, 6])])
        return jnp.mean(jnp.sum(p * -jnp.log(p), axis=-1))

    wanted, slope = jax.jit(jax.value_and_grad(entropy))(params["logits"])
    np.testing.assert_allclose(metrics["entropy"], wanted, rtol=1e-5)
    np.testing.assert_allclose(with_bonus["logits"] - without["logits"], -0.1 * np.asarray(slope), atol=1e-6)


EIGHT_DEVICES = """
import jax, numpy as np
from dm_env import specs
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from boonta.agents import impala
from boonta.agents.base import Batch, Steps
from boonta.agents.groups import Torso
from boonta.agents.actor_policy import Extras
from boonta.agents.recurrence import Core
from boonta.envs.base import EnvSpec

assert jax.device_count() == 8
rng = np.random.default_rng(0)
rows, batch = 6, 16
normal = lambda *shape: rng.normal(size=(rows, batch, *shape)).astype(np.float32)
extras, core = Extras(normal(3)), Core((), np.zeros((1, batch), np.int32))
step_type = rng.integers(3, size=(rows, batch)).astype(np.int32)
action = rng.integers(3, size=(rows, batch)).astype(np.int32)
steps = Steps(normal(4), step_type, normal(), np.ones((rows, batch), np.float32), action, extras, step_type, core)
data = Batch(steps, np.ones(batch, np.float32))
for reduction in ("sum", "mean"):
    config = impala.Config(Torso("mlp"), frame_stack=1, unroll_length=5, batch_size=batch, reduction=reduction)
    update = impala.make(config, EnvSpec(specs.Array((4,), np.float32), specs.DiscreteArray(3))).update
    start, results = jax.device_get(jax.jit(update.init)(jax.random.PRNGKey(0))), []
    for devices in (1, 8):
        mesh = Mesh(np.array(jax.devices()[:devices]), ("batch",))
        replicated = NamedSharding(mesh, PartitionSpec())
        over_batch = Batch(*(NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((None, "batch"), ("batch",))))
        state = jax.device_put(start, replicated)
        step = jax.jit(update.step, in_shardings=(replicated, over_batch), donate_argnums=0)
        step = step.lower(state, data).compile()
        compiled = step.as_text()
        # Devices add up their gradients; were they to exchange anything else, each would do the work of all.
        assert ("all-reduce" in compiled) == (devices > 1)
        assert not any(word in compiled for word in ("all-gather", "all-to-all", "collective-permute"))
        for _ in range(3):
            state, _, metrics = step(state, data)
        results.append(jax.device_get((state.params, metrics)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), *results)
"""


def test_one_and_eight_devices_agree():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    subprocess.run(
        [sys.executable, "-c", EIGHT_DEVICES], check=True, env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    )
