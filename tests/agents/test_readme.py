"""The agents and the networks of `agents/README.md` are whole: they learn Catch."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import types
from collections.abc import Sequence

import jax
import numpy as np
import optax
import pytest

from boonta.agents import dqn, impala, muzero, ppo, r2d2, sac, td3
from boonta.agents.base import Agent, Batch, Slots, Steps
from boonta.agents.config import replaced
from boonta.envs.base import LAST, EnvSpec
from boonta.envs.catch import Catch
from boonta.envs.gymnasium import Gymnasium
from boonta.nodes import metrics
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.tables import contract
from boonta.nodes.watch.stopping import StopRule
from boonta.programs.wiring.interpreters import anakin, threads
from boonta.programs.wiring.launch import Program, Run, group
from boonta.tests.helpers.countdown import countdown
from boonta.tests.helpers.examples import python_blocks
from boonta.tests.helpers.params import drawn

pytestmark = pytest.mark.once
PAGE = pathlib.Path(__file__).parents[2] / "agents" / "README.md"
CODE, REPLAYED, RECURRENT, *NETWORKS = python_blocks(PAGE)
ENV = Catch()
# Fewer simulations take less time; the page's model has no functions for the consistency loss.
MUZERO = replaced(
    muzero.CATCH,
    {"num_simulations": 4, "consistency_cost": 0.0, "replay.min_size": 64, "replay.sampler": "proportional"},
)


def module_of(code: str, monkeypatch) -> types.ModuleType:
    """A whole agent of the page, as the module `my_agent`; the recurrent one is beside the first, and imports it."""
    if code is RECURRENT:
        module_of(CODE, monkeypatch)
    name = "my_recurrent_agent" if code is RECURRENT else "my_agent"
    assert len(code.splitlines()) <= 110
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(code, f"{name}.py", "exec"), vars(module))
    return module


@pytest.fixture(params=[CODE, REPLAYED, RECURRENT], ids=["fresh", "replayed", "recurrent"])
def my_agent(request, monkeypatch):
    """Each of the page's whole agents."""
    return module_of(request.param, monkeypatch)


@pytest.fixture(scope="module")
def networks():
    """What the rest of the page's code defines."""
    assert [len(code.splitlines()) <= 35 for code in NETWORKS] == [True] * 9
    defined = {}
    for code in NETWORKS:
        exec(compile(code, "networks.py", "exec"), defined)
    return defined


def learn(agent: Agent, folder: pathlib.Path, eval_return: float, updates: int) -> float:
    """Learns Catch until an evaluation is good enough, or the updates are made; returns that one, or the last.

    A fast program has made another one by the time that it ends.
    """
    run = Run("anakin", str(folder), stop=StopRule(updates=updates, eval_return=eval_return))
    groups = [group(Learner), group(Actor), group(Evaluator, episodes=100, every_updates=250)]
    assert threads.run(*anakin.build(Program("my_agent", run, agent, ENV, groups))) == 0
    returns = [row["eval_return"] for row in metrics.read(folder) if row.get("eval_return") is not None]
    return next((each for each in returns if each >= eval_return), returns[-1])


@pytest.mark.unoptimised
def test_it_learns_catch(my_agent, tmp_path):
    assert learn(my_agent.make(my_agent.Config.preset("catch"), ENV.spec), tmp_path, 0.8, 1_500) >= 0.8


@pytest.mark.unoptimised
def test_it_plays_only_legal_actions(my_agent):
    """The environment refuses any other; a heap of 4 or 5 soon has fewer left than the three that may be taken."""
    env = countdown()
    agent = my_agent.make(my_agent.Config(), env.spec)
    params = agent.update.params(drawn(agent.update.init))
    for policy in (agent.policy, agent.eval_policy):
        batch, step, state = env(16, 0), jax.jit(policy.step), policy.initial_state(Slots(16))
        timestep, illegal = batch.reset(), 0
        for t in range(30):
            illegal += (~timestep.observation.legal).sum()
            action, _, state = step(params, jax.random.PRNGKey(t), timestep, state)
            timestep = batch.step(np.asarray(action))
        assert illegal > 0


def masked(batch: Batch, row: int, actions: Sequence[int]) -> Batch:
    """The same batch, in one row of which only these of the three actions are legal."""
    seen = batch.steps.observation
    legal = np.copy(seen.legal)
    legal[row] = np.isin(np.arange(3), actions)
    return batch._replace(steps=batch.steps._replace(observation=seen._replace(legal=legal)))


@pytest.mark.unoptimised
def test_illegal_actions_have_no_share_of_the_fresh_agents_policy(monkeypatch):
    my_agent, spec = module_of(CODE, monkeypatch), countdown().spec
    agent = my_agent.make(my_agent.Config(unroll_length=1), spec)  # The entropy is that of the first row.
    state, batch, step = drawn(agent.update.init), batch_of(agent, spec), jax.jit(agent.update.step)
    entropies = [step(state, masked(batch, 0, actions))[2]["entropy"] for actions in ([1], [0, 1], [0, 1, 2])]
    assert 0.0 == entropies[0] < entropies[1] < entropies[2]


@pytest.mark.unoptimised
def test_the_replayed_agents_target_is_the_best_legal_action_of_the_later_row(monkeypatch):
    my_agent, spec = module_of(REPLAYED, monkeypatch), countdown().spec
    agent = my_agent.make(my_agent.Config(), spec)
    batch, step = batch_of(agent, spec), jax.jit(agent.update.step)
    state = jax.jit(agent.update.init)(jax.random.PRNGKey(0))  # The target params are the learned ones.

    def target(*actions: int) -> float:
        return float(step(state, masked(batch, 1, actions))[2]["value_target"])

    one, two, three = map(target, range(3))
    assert len({one, two, three}) == 3
    assert [target(0, 1), target(0, 2), target(1, 2)] == [max(one, two), max(one, three), max(two, three)]


@pytest.mark.unoptimised
@pytest.mark.parametrize("frame_stack", [1, 3])
def test_the_recurrent_agent_unrolls_what_it_acted(frame_stack, monkeypatch):
    """By the same params: the entropies in the loss are those of the logits that acting stored, over ends, too."""
    my_agent, env = module_of(RECURRENT, monkeypatch), countdown()
    agent = my_agent.make(my_agent.Config(frame_stack=frame_stack), env.spec)
    (table,) = agent.tables
    state, policy = drawn(agent.update.init), agent.policy
    batch, step, rows = env(table.batch_size, 0), jax.jit(policy.step), []
    timestep, memory = batch.reset(), policy.initial_state(Slots(table.batch_size))
    for t in range(2 + table.sequence_length):  # After two steps most slots are within an episode.
        core = policy.core(memory)
        action, extras, memory = step(agent.update.params(state), jax.random.PRNGKey(t), timestep, memory)
        rows.append(Steps.of(timestep, np.asarray(action), extras, np.zeros(table.batch_size, np.int32), core))
        timestep = batch.step(np.asarray(action))
    steps = contract.with_one_core(table, jax.tree.map(lambda *leaves: np.stack(leaves), *rows[2:]))
    logits, step_type = (x[frame_stack - 1 : -1] for x in (steps.extras["logits"], steps.step_type))
    p = np.asarray(jax.nn.softmax(logits))
    entropy = -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=-1)
    assert (step_type == LAST).any()

    def found(core) -> float:
        given = Batch(steps._replace(core=core), np.ones(table.batch_size, np.float32))
        return float(jax.jit(agent.update.step)(state, given)[2]["entropy"])

    assert found(steps.core) == pytest.approx(np.mean(entropy * (step_type != LAST)), rel=1e-5)
    forgotten = steps.core._replace(lstm=jax.tree.map(np.zeros_like, steps.core.lstm))
    assert found(forgotten) != pytest.approx(found(steps.core), rel=1e-5)


@pytest.mark.unoptimised
@pytest.mark.parametrize("whole", [False, True])
def test_impala_learns_catch_with_the_pages_networks(networks, whole, tmp_path):
    network = networks["gru_network"](impala.CATCH, ENV.spec) if whole else networks["Torso"]
    assert learn(impala.make(impala.CATCH, ENV.spec, network=network), tmp_path, 0.8, 1_500) >= 0.8


@pytest.mark.parametrize("whole", [pytest.param(False, marks=pytest.mark.slow), True])
def test_muzero_learns_catch_with_the_pages_networks(networks, whole, tmp_path):
    """At random an agent returns -0.6 on average."""
    network = networks["small_model"](MUZERO, ENV.spec) if whole else networks["Torso"]
    assert learn(muzero.make(MUZERO, ENV.spec, network=network), tmp_path, 0.3, 2_000) >= 0.3


@pytest.mark.unoptimised
@pytest.mark.parametrize(
    ("agent", "own"),
    [
        (dqn, "small_values"),
        (r2d2, "gru_values"),
        (ppo, "gru_network"),
        (sac, "small_critics"),
        (td3, "small_critics"),
        *((agent, "Torso") for agent in (dqn, r2d2, ppo, sac, td3)),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.rpartition(".")[2],
)
def test_the_other_agents_act_and_learn_by_the_pages_networks(networks, agent, own):
    """One update; `make` has checked the network's outputs."""
    spec = Gymnasium("Pendulum-v1").spec if agent in (sac, td3) else ENV.spec
    config = agent.Config.preset("default" if agent in (sac, td3) else "catch")
    config = replaced(config, {"value_torso": "shared"}) if own == "gru_network" else config
    network = networks[own]
    if own == "small_critics":
        network = network(spec, *((2, False) if agent is sac else (1, True)))
        large = jax.tree.map(lambda w: 100 * w, network.init(jax.random.PRNGKey(0))["policy"])
        outputs = network.policy(large, np.ones((1, *spec.observations.shape, 1)))
        # Of a mean within [-1, 1] SAC's action never comes near its bound.
        assert (np.abs(outputs).max() > 1) == (agent is sac)
    elif own != "Torso":
        network = network(config, spec)
    made = agent.make(config, spec, network=network)
    state = drawn(made.update.init)
    before, (after, *_) = made.update.params(state), jax.jit(made.update.step)(state, batch_of(made, spec))
    assert any(np.any(x != y) for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(made.update.params(after))))


def batch_of(agent: Agent, spec: EnvSpec) -> Batch:
    """A batch of ones."""
    (table,) = agent.tables
    rows = (table.sequence_length, table.batch_size)
    steps = jax.tree.map(lambda leaf: np.ones((*rows, *leaf.shape), leaf.dtype), step_shapes(agent, spec))
    return Batch(contract.with_one_core(table, steps), np.ones(table.batch_size, np.float32))


class Called(Exception):
    """The loss of one's own was called."""


@pytest.mark.parametrize("agent", [dqn, impala, muzero, ppo, r2d2, sac, td3], ids=lambda agent: agent.__name__[14:])
def test_every_agent_takes_a_loss_and_a_config_of_ones_own(agent):
    @dataclasses.dataclass(frozen=True)
    class Config(agent.Config):
        mine: float = 0.5

    def loss(params, context, batch, *, config, **parts):
        assert config.mine == 0.5 and config.preset("catch") == config
        raise Called

    spec = Gymnasium("Pendulum-v1").spec if agent in (sac, td3) else ENV.spec
    made = agent.make(Config.preset("catch"), spec, loss=loss)
    with pytest.raises(Called):
        jax.eval_shape(made.update.step, jax.eval_shape(made.update.init, jax.random.PRNGKey(0)), batch_of(made, spec))


@pytest.mark.parametrize("agent", [dqn, impala, muzero, ppo, r2d2, sac, td3], ids=lambda agent: agent.__name__[14:])
def test_every_agent_takes_an_optimiser_of_ones_own(agent):
    """Its state is part of the learner's: of one optimiser, or of each of several."""
    spec = Gymnasium("Pendulum-v1").spec if agent in (sac, td3) else ENV.spec
    made = agent.make(agent.Config.preset("catch"), spec, optimiser=optax.lion(1e-4))
    state = jax.eval_shape(made.update.init, jax.random.PRNGKey(0))
    states = state.opt_state.values() if agent in (sac, td3) else [state.opt_state]
    assert all(isinstance(each[0], optax.ScaleByLionState) for each in states)


@pytest.mark.unoptimised
def test_the_pages_optimiser_warms_up(networks):
    made = impala.make(impala.CATCH, ENV.spec, optimiser=networks["warmed_up"](1_000))
    state, moved = jax.jit(made.update.init)(jax.random.PRNGKey(0)), []
    for _ in range(3):
        state, _, found = jax.jit(made.update.step)(state, batch_of(made, ENV.spec))
        moved.append(float(found["update_norm"]))
    assert 0 == moved[0] < moved[1] < moved[2]


@pytest.mark.unoptimised
def test_the_pages_loss_costs_where_the_entropy_is_low(networks):
    """The policy's is nearly log 3 = 1.1 nats at first, that of a uniform one."""
    for least in (0.3, 2.0):
        config = dataclasses.replace(networks["Lively"].preset("catch"), least_entropy=least)
        made = impala.make(config, ENV.spec, loss=networks["lively_loss"])
        state = jax.jit(made.update.init)(jax.random.PRNGKey(0))
        _, _, found = jax.jit(made.update.step)(state, batch_of(made, ENV.spec))
        assert 0.8 < found["entropy"] < 1.1
        assert found["entropy_lack"] == pytest.approx(max(least - found["entropy"], 0.0))


@pytest.mark.unoptimised
def test_the_pages_auxiliary_head_learns_with_the_policy(networks):
    """On one batch again and again, on which the reconstruction alone must become better."""
    network, loss = networks["reconstructing"](impala.CATCH, ENV.spec)
    made = impala.make(impala.CATCH, ENV.spec, network=network, loss=loss)
    batch, state = batch_of(made, ENV.spec), jax.jit(made.update.init)(jax.random.PRNGKey(0))
    step, errors = jax.jit(made.update.step), []
    for _ in range(20):
        state, _, found = step(state, batch)
        errors.append(float(found["reconstruction"]))
    assert 0.0 <= errors[-1] < 0.9 * errors[0]
