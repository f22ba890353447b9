import os
import subprocess
import sys

import cloudpickle
import jax
import numpy as np
import pytest
import tyro
from dm_env import specs

from boonta.agents import impala
from boonta.agents.base import Slots
from boonta.agents.config import replaced
from boonta.agents.groups import Torso
from boonta.envs.base import FIRST, EnvSpec, TimeStep
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

IMAGE = specs.BoundedArray((84, 84), np.uint8, 0, 255)
ACTIONS = specs.DiscreteArray(6)
FLAGS = ["--torso.kind", "nature", "--optimiser.anneal-updates", "7", "--trace-lambda", "0.5"]


def spec(observations=IMAGE, actions=ACTIONS):
    return EnvSpec(observations, actions)


@pytest.mark.parametrize(
    "field,value",
    [
        ("value_torso", "both"),
        ("eval_mode", "best"),
        ("reward_clip", "tanh"),
        ("reduction", "max"),
        ("frame_stack", 0),
        ("unroll_length", 0),
        ("batch_size", 0),
        ("queue_size", 0),
        ("max_lag", -1.0),
        ("lstm_size", -1),
        ("entropy_cost", -0.1),
        ("baseline_cost", -0.1),
        ("clip_rho", 0.0),
        ("trace_lambda", -0.1),
        ("trace_lambda", 1.5),
        ("discount", 1.1),
    ],
)
def test_config_refuses_what_cannot_work(field, value):
    with pytest.raises(ValueError, match=f"impala.Config: {field} is {value!r}; it must be"):
        impala.Config(**{field: value})


def test_a_values_own_torso_has_no_core():
    with pytest.raises(ValueError, match="lstm_size is 8; it must be 0 if value_torso is 'own'"):
        impala.Config(value_torso="own", lstm_size=8)


def test_config_is_a_command_line():
    config = tyro.cli(impala.Config, args=FLAGS)
    changes = {"torso.kind": "nature", "optimiser.anneal_updates": 7, "trace_lambda": 0.5}
    assert config == replaced(impala.Config(), changes)
    assert tyro.cli(impala.Config, args=[]) == impala.Config()


def test_table():
    (table,) = impala.make(impala.Config(batch_size=16, queue_size=24), spec()).tables
    assert (table.name, table.kind, table.batch_size, table.size) == ("trajectories", "queue", 16, 24)
    assert (table.sequence_length, table.period) == (3 + 20 + 1, 20)


@pytest.mark.parametrize(
    "bad,message",
    [
        (spec(actions=specs.BoundedArray((2,), np.float32, -1, np.inf)), "IMPALA squashes its actions .*BoundedArray"),
        (spec(observations={"a": IMAGE, "b": specs.StringArray(())}), "arrays of numbers, but .* a leaf StringArray"),
        (spec(observations={"a": specs.Array((9, 9), np.uint8), "b": ACTIONS}), r"'shallow': .*window of 4"),
        (spec(observations=specs.Array((4,), np.float32)), r"'shallow', which takes images .*\(4,\)"),
    ],
)
def test_make_refuses_other_environments(bad, message):
    with pytest.raises(ValueError, match=message):
        impala.make(impala.Config(), bad)


def test_make_touches_no_device():
    """On a platform that does not exist any computation fails."""
    program = """
import numpy as np
from dm_env import specs
from boonta.agents import impala
from boonta.envs.base import EnvSpec
spec = EnvSpec(specs.Array((84, 84), np.uint8), specs.DiscreteArray(6))
impala.make(impala.Config(lstm_size=8), spec)
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"JAX_PLATFORMS": "nowhere"})


@pytest.mark.parametrize("lstm_size", [0, 8])
def test_agent_travels_to_another_process(lstm_size):
    config = impala.Config(torso=Torso("mlp"), lstm_size=lstm_size, eval_mode="greedy")
    agent = impala.make(config, spec())
    copy = cloudpickle.loads(cloudpickle.dumps(agent))
    assert copy.tables == agent.tables
    key = jax.random.PRNGKey(0)
    timestep = TimeStep(np.full(2, FIRST, np.int32), np.zeros(2), np.ones(2), np.ones((2, 84, 84), np.uint8))
    played = [
        jax.jit(a.eval_policy.step)(
            a.update.params(drawn(a.update.init)), key, timestep, a.eval_policy.initial_state(Slots(2))
        )
        for a in (agent, copy)
    ]
    jax.tree.map(np.testing.assert_array_equal, *played)


def test_nested_observations_have_an_encoder_a_leaf():
    observations = {"image": IMAGE, "numbers": specs.Array((3,), np.float32), "choice": specs.DiscreteArray(5)}
    config = impala.Config(frame_stack=2)
    agent = impala.make(config, spec(observations=observations))
    key = jax.random.PRNGKey(0)
    params = agent.update.params(drawn(agent.update.init))
    widths = {name: p["w"].shape for name, p in params.items() if name.endswith("dense_0")}
    own = {"torso_leaf_0_dense_0": (10, 256), "torso_leaf_1_dense_0": (81 * 32, 256), "torso_leaf_2_dense_0": (6, 256)}
    assert widths == own
    shown = {"image": np.ones((2, 84, 84), np.uint8), "numbers": np.ones((2, 3), np.float32), "choice": np.ones(2, int)}
    timestep = TimeStep(np.full(2, FIRST, np.int32), np.zeros(2), np.ones(2), shown)
    _, extras, _ = jax.jit(agent.policy.step)(params, key, timestep, agent.policy.initial_state(Slots(2)))
    assert extras.logits.shape == (2, 6)
