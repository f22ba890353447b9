import haiku as hk
import jax
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import sequences
from boonta.agents.actor_policy import make_policy, unroll_as_acted
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.groups import Gaussian, Torso
from boonta.agents.heads import categorical
from boonta.agents.impala import Config, make
from boonta.agents.policy_value import Network, Outputs, make_network
from boonta.agents.recurrence import Core, Inputs
from boonta.envs.base import FIRST, LAST, MID, EnvSpec, TimeStep
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

ROWS, BATCH, ACTIONS = 30, 4, 3
HEAD = categorical(ACTIONS)
IMAGE = specs.BoundedArray((36, 36), np.uint8, 0, 255)
SPEC = EnvSpec(IMAGE, specs.DiscreteArray(ACTIONS))


def stream(rng):
    """ROWS time steps of BATCH slots, whose episodes end at random."""
    step_type = np.full((ROWS, BATCH), FIRST, np.int32)
    for t in range(1, ROWS):
        going = np.where(rng.random(BATCH) < 0.25, LAST, MID)
        step_type[t] = np.where(step_type[t - 1] == LAST, FIRST, going)
    observation = rng.integers(1, 256, (ROWS, BATCH, *IMAGE.shape)).astype(np.uint8)
    reward = np.where(step_type == FIRST, 0, rng.normal(size=(ROWS, BATCH))).astype(np.float32)
    return TimeStep(step_type, reward, np.ones((ROWS, BATCH), np.float32), observation)


def play(policy, params, timesteps):
    """Steps as a writer would store them."""
    state, step, rows = policy.initial_state(Slots(BATCH)), jax.jit(policy.step), []
    for t in range(ROWS):
        timestep = jax.tree.map(lambda x, t=t: x[t], timesteps)
        core = policy.core(state)
        action, extras, state = step(params, jax.random.PRNGKey(t), timestep, state)
        observed = (timestep.observation, timestep.step_type, timestep.reward, timestep.discount)
        rows.append(Steps(*observed, action, extras, np.zeros(BATCH, np.int32), core))
    return jax.tree.map(lambda *x: np.stack(x), *rows)


@pytest.mark.parametrize("frame_stack", [1, 4])
def test_policy_and_learner_see_the_same_stacks(frame_stack):
    # A network whose logits are the pixels that it sees.
    def unroll(params, inputs, lstm):
        t, b = inputs.step_type.shape
        return Outputs(inputs.stack.reshape(t, b, -1).astype(np.float32), inputs.reward), lstm

    network = Network(init=lambda key: (), initial_state=lambda batch_size: (), unroll=unroll)
    policy = make_policy(network, HEAD, SPEC, frame_stack, "sample")
    steps = play(policy, (), stream(np.random.default_rng(0)))
    for start in range(6):
        window = jax.tree.map(lambda x, s=start: x[s : s + 20], steps)
        seen = sequences.stack(window.observation, window.step_type, frame_stack)
        acted = sequences.drop_context(window, frame_stack).extras.logits
        np.testing.assert_array_equal(np.asarray(seen, np.float32).reshape(acted.shape), acted)


@pytest.mark.parametrize("lstm_size", [0, 16])
@pytest.mark.parametrize("name", ["shallow", "nature", "deep", "mlp", "minatar"])
def test_learner_computes_what_the_policy_computed(name, lstm_size):
    config = Config(Torso(name, widths=(32, 32) if name == "mlp" else None), lstm_size=lstm_size)
    network = make_network(config, SPEC, HEAD)
    params = drawn(network.init)  # Heads begin small; larger ones show more.
    policy = make_policy(network, HEAD, SPEC, config.frame_stack, "sample")
    steps = play(policy, params, stream(np.random.default_rng(1)))
    boundaries = (steps.step_type[8:-1] == LAST).sum()
    assert boundaries > 4
    unroll = jax.jit(lambda *given: unroll_as_acted(*given, network, config.frame_stack))
    for start in (0, 5):
        sequence = jax.tree.map(lambda x, s=start: x[s : s + ROWS - 5], steps)
        row = config.frame_stack - 1
        sequence = sequence._replace(core=jax.tree.map(lambda x, row=row: x[row : row + 1], sequence.core))
        outputs, steps_seen = unroll(params, sequence)
        np.testing.assert_allclose(outputs.logits, steps_seen.extras.logits, rtol=1e-4, atol=1e-4)
    if lstm_size:  # The core changes the output; otherwise the agreement above would prove nothing.
        assert np.abs(steps.core.lstm.hidden).max() > 1e-3


def test_the_policy_remembers_what_was_executed():
    network = make_network(Config(Torso("mlp"), lstm_size=16), SPEC, HEAD)
    policy = make_policy(network, HEAD, SPEC, 1, "sample")
    state = policy.executed(policy.initial_state(Slots(3)), np.array([2, 0, 1], np.int64))
    np.testing.assert_array_equal(policy.core(state).action_tm1, [2, 0, 1])
    assert policy.core(state).action_tm1.dtype == SPEC.actions.dtype


@pytest.mark.parametrize(
    ("actions", "gaussian", "entropy"),
    [
        (specs.BoundedArray((2,), np.int32, [0, -1], [2, 1]), Gaussian(), "entropy"),
        (specs.BoundedArray((1, 2), np.float32, -2, [5, 7]), Gaussian(), "differential_entropy"),
        (specs.BoundedArray((2,), np.float32, -np.inf, 1), Gaussian("plain", "free"), "differential_entropy"),
    ],
    ids=["choices", "squashed", "plain"],
)
def test_other_actions_are_learned_from_as_they_were_taken(actions, gaussian, entropy):
    """With the params that acted all importance ratios are 1; the core sees the last action."""
    config = Config(Torso("mlp", widths=(8,)), frame_stack=1, unroll_length=ROWS - 1, gaussian=gaussian, lstm_size=4)
    agent = make(config, EnvSpec(IMAGE, actions))
    state = jax.jit(agent.update.init)(jax.random.PRNGKey(0))
    params = agent.update.params(state)
    steps = play(agent.policy, params, stream(np.random.default_rng(3)))
    assert steps.action.shape == (ROWS, BATCH, *actions.shape) and steps.action.dtype == actions.dtype
    np.testing.assert_array_equal(steps.core.action_tm1[1:], steps.action[:-1])
    steps = steps._replace(core=jax.tree.map(lambda x: x[:1], steps.core))
    state, _, metrics = jax.jit(agent.update.step)(state, Batch(steps, np.ones(BATCH, np.float32)))
    assert float(metrics["rho"]) == pytest.approx(1, abs=1e-5) and np.isfinite(float(metrics["loss"]))
    assert {name for name in metrics if "entropy" in name} - {"entropy_uniform"} == {entropy}
    gradients = jax.tree.map(lambda new, old: np.abs(new - old).max(), agent.update.params(state), params)
    assert all(x > 0 for module in gradients.values() for x in module.values())


@pytest.mark.parametrize("name", ["shallow", "mlp"])
def test_a_values_own_torso_learns_apart_from_the_policys(name):
    network = make_network(Config(Torso(name), frame_stack=1, value_torso="own"), SPEC, HEAD)
    params = drawn(network.init)
    timesteps = stream(np.random.default_rng(2))
    inputs = Inputs(timesteps.observation[..., None], timesteps.step_type, timesteps.reward, timesteps.step_type)

    @jax.jit
    def gradients(params):
        outputs, back = jax.vjp(lambda params: network.unroll(params, inputs, ())[0], params)
        nothing = jax.tree.map(np.zeros_like, inputs.reward)
        ones, others = Outputs(2 * outputs.logits, nothing), Outputs(0 * outputs.logits, 2 * outputs.value)
        return back(ones)[0], back(others)[0]

    def reached(gradient):
        """The modules that it reaches."""
        return {module for module, x in gradient.items() if any(np.abs(leaf).max() > 0 for leaf in x.values())}

    policys, values = map(reached, jax.device_get(gradients(params)))
    assert policys | values == set(params)
    assert not policys & values


def test_core_remembers_but_not_over_an_episodes_start():
    network = make_network(Config(Torso("mlp"), lstm_size=16), SPEC, HEAD)
    params = drawn(network.init)
    policy = make_policy(network, HEAD, SPEC, 4, "sample")
    step = jax.jit(policy.step)

    def logits(step_type, hidden=0.0, cell=0.0, action_tm1=0, reward=0.0):
        state = policy.initial_state(Slots(1))
        lstm = hk.LSTMState(state.core.lstm.hidden + hidden, state.core.lstm.cell + cell)
        state = state._replace(core=Core(lstm, np.array([action_tm1], np.int32)))
        frame = np.ones((1, *IMAGE.shape), np.uint8)
        timestep = TimeStep(np.array([step_type]), np.array([reward], np.float32), np.ones(1), frame)
        return np.asarray(step(params, jax.random.PRNGKey(0), timestep, state)[1].logits)

    for memory in (dict(hidden=1.0), dict(cell=1.0), dict(action_tm1=1), dict(reward=1.0)):
        np.testing.assert_array_equal(logits(FIRST, **memory), logits(FIRST))
        assert np.abs(logits(MID, **memory) - logits(MID)).max() > 1e-6


def test_greedy_takes_the_likeliest_action_and_sample_draws():
    logits = np.log(np.array([0.1, 0.6, 0.3], np.float32))

    def unroll(params, inputs, lstm):
        t, b = inputs.step_type.shape
        return Outputs(np.broadcast_to(logits, (t, b, ACTIONS)), inputs.reward), lstm

    network = Network(init=lambda key: (), initial_state=lambda batch_size: (), unroll=unroll)
    batch = 4000
    timestep = TimeStep(np.full(batch, MID), np.zeros(batch), np.ones(batch), np.zeros((batch, 1), np.uint8))
    for mode, expected in (("greedy", [0, 1, 0]), ("sample", [0.1, 0.6, 0.3])):
        policy = make_policy(network, HEAD, SPEC._replace(observations=specs.Array((1,), np.uint8)), 1, mode)
        action, _, _ = jax.jit(policy.step)((), jax.random.PRNGKey(0), timestep, policy.initial_state(Slots(batch)))
        np.testing.assert_allclose(np.bincount(action, minlength=3) / batch, expected, atol=0.03)
        assert action.dtype == np.int32
