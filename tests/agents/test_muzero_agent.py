import dataclasses
import functools
import os
import re
import subprocess
import sys

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tyro
from dm_env import specs

from boonta.agents import muzero, sequences
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.config import replaced
from boonta.agents.groups import Replay, Torso
from boonta.agents.muzero.loss import muzero_loss
from boonta.agents.muzero.networks import make_model, scale_hidden
from boonta.agents.muzero.policy import Extras
from boonta.agents.muzero.search import make_search
from boonta.agents.optimisation import Context
from boonta.envs.base import FIRST, LAST, MID, BoardView, EnvSpec, TimeStep
from boonta.tests.helpers.lowered import programs
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

SMALL = muzero.Config(Torso(widths=(8,)), head_width=8, num_simulations=2, roots=2, unroll_length=2, bootstrap_length=1)
FLAT = EnvSpec(specs.Array((4,), np.float32), specs.DiscreteArray(3))
BOARD = EnvSpec(
    BoardView(specs.Array((4,), np.float32), specs.Array((3,), bool), specs.BoundedArray((), np.int32, 0, 1)),
    specs.DiscreteArray(3),
    num_players=2,
)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("search", "alphazero"),
        ("unroll_length", 0),
        ("roots", 0),
        ("support_bins", 10),
        ("support_limit", 0.0),
        ("discount", 0.0),
        ("discount", -1.5),
        ("trace_lambda", 1.1),
        ("max_considered_actions", 0),
    ],
)
def test_config_refuses(field, bad):
    with pytest.raises(ValueError, match=f"muzero.Config: {field} is {bad!r}; it must be"):
        muzero.Config(**{field: bad})


@pytest.mark.parametrize("field, bad", [("widths", (8,)), ("activation", "tanh"), ("orthogonal", True)])
def test_a_tower_has_no_dense_layers(field, bad):
    message = rf"muzero.Config: torso.{field} is {re.escape(repr(bad))}; it must be .*: a tower has no dense layers"
    with pytest.raises(ValueError, match=message):
        muzero.Config(Torso("tower", **{field: bad}))


def test_dense_layers_are_as_the_torso_says():
    """Those of representation and dynamics; the default's are normal numbers before rectifiers."""
    config = replaced(SMALL, {"torso.activation": "tanh", "torso.orthogonal": True, "torso.normalise": False})
    model = make_model(config, FLAT.observations, 3)
    params = model.init(jax.random.PRNGKey(0))
    for name in ("representation_0", "dynamics_0"):
        w = params[name]["w"]  # [inputs, 8]; its shorter side is orthogonal.
        gram = w @ w.T if w.shape[0] < w.shape[1] else w.T @ w
        np.testing.assert_allclose(gram, 2 * np.eye(len(gram)), atol=1e-5)
    stack, choice = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4, 1), np.eye(4, dtype=np.float32)[:2]
    hidden = model.represent(params, stack)
    np.testing.assert_allclose(
        hidden, scale_hidden(np.tanh(stack[..., 0] @ params["representation_0"]["w"])), rtol=1e-4, atol=1e-5
    )
    moved = np.tanh(np.concatenate([hidden, choice], -1) @ params["dynamics_0"]["w"])
    out = params["dynamics_out"]
    expected = scale_hidden(hidden + moved @ out["w"] + out["b"])
    np.testing.assert_allclose(model.dynamics(params, hidden, choice)[0], expected, rtol=1e-4, atol=1e-5)


def test_a_convolution_lies_below_a_flat_model():
    """Each leaf has an encoder of its own; their features, side by side, are the hidden state before it is scaled."""
    board, clock = specs.Array((4, 5, 2), np.float32), specs.Array((2,), np.float32)
    config = replaced(SMALL, {"torso": Torso("minatar", widths=(8,), channels=(3,))})
    model = make_model(config, {"board": board, "clock": clock}, 3)
    params, rng = drawn(model.init), np.random.default_rng(0)
    stack = {"board": rng.random((2, 4, 5, 2, 1), np.float32), "clock": rng.random((2, 2, 1), np.float32)}
    hidden = model.represent(params, stack)
    windows = np.lib.stride_tricks.sliding_window_view(
        stack["board"][..., 0], (3, 3), axis=(1, 2)
    )  # [B, 2, 3, C, 3, 3]
    seen = np.einsum("bhwcij,ijco->bhwo", windows, params["conv2_d"]["w"]) + params["conv2_d"]["b"]
    leaves = [np.maximum(seen, 0).reshape(2, -1), stack["clock"][..., 0]]
    dense = [params[f"representation_leaf_{i}_dense_0"] for i in range(2)]
    features = [np.maximum(x @ layer["w"] + layer["b"], 0) for x, layer in zip(leaves, dense)]
    np.testing.assert_allclose(hidden, scale_hidden(np.concatenate(features, -1)), rtol=1e-4, atol=1e-5)
    assert model.dynamics(params, hidden, np.eye(4, dtype=np.float32)[:2])[0].shape == hidden.shape == (2, 16)


@pytest.mark.parametrize(("field", "bad"), [("torso.kind", "mlp"), ("torso.halvings", 1), ("search", "stochastic")])
def test_actions_have_places_on_boards_only(field, bad):
    with pytest.raises(ValueError, match=f"muzero.Config: {field} is {bad!r}; it must be .* action_planes is 'place'"):
        replaced(muzero.Config(Torso("tower"), action_planes="place"), {field: bad})


def test_config_is_a_command_line():
    assert tyro.cli(muzero.Config, args=["--search", "puct", "--roots", "3"]) == muzero.Config(search="puct", roots=3)


def test_table():
    replay = Replay(sampler="rank", priority_exponent=0.7)
    config = muzero.Config(frame_stack=4, roots=8, unroll_length=5, bootstrap_length=3, replay=replay)
    (table,) = muzero.make(config, FLAT).tables
    assert (table.kind, table.sampler, table.priority_exponent) == ("replay", "rank", 0.7)
    assert (table.sequence_length, table.period) == (3 + 8 + 5 + 3, 8)


@pytest.mark.parametrize(
    ("change", "spec", "message"),
    [
        (
            {},
            FLAT._replace(actions=specs.BoundedArray((2,), np.float32, -1, 1)),
            "discrete actions; this environment takes 2 real numbers, for",
        ),
        (
            {"torso": Torso("minatar")},
            FLAT,
            r"torso.kind is 'minatar', which takes images \[H, W\] or \[H, W, C\], but observations are \(4,\)",
        ),
        (
            {"torso": Torso("tower")},
            FLAT._replace(observations={"a": FLAT.observations}),
            "'tower', which takes observations of one array: take 'mlp'; .*'a'",
        ),
        (
            {"torso": Torso("tower")},
            FLAT,
            r"'tower', which takes images \[H, W\] or \[H, W, C\], but observations are \(4,\)",
        ),
        (
            {"torso": Torso("tower"), "action_planes": "place"},
            FLAT._replace(observations=specs.Array((5, 4), np.float32)),
            "'place', which takes an action for each column, 4, or for each cell, 20, and one to pass; .* has 3",
        ),
        ({"max_considered_actions": 4}, FLAT, "max_considered_actions is 4, but there are 3 actions"),
        ({}, BOARD, r"discount is 0.997; for a game of 2 player\(s\) it must be below 0"),
        ({"discount": -1.0}, FLAT, r"discount is -1.0; for a game of 1 player\(s\) it must be at least 0"),
    ],
)
def test_make_refuses_what_does_not_fit(change, spec, message):
    with pytest.raises(ValueError, match=message):
        muzero.make(dataclasses.replace(muzero.Config(), **change), spec)


def test_make_touches_no_device():
    """On a platform that does not exist any computation fails."""
    program = """
import numpy as np
from dm_env import specs
from boonta.agents import muzero, sequences
from boonta.envs.base import EnvSpec
muzero.make(muzero.Config(search="stochastic"), EnvSpec(specs.Array((4,), np.float32), specs.DiscreteArray(3)))
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"JAX_PLATFORMS": "nowhere"})


def timestep(step_type, observation, batch=2):
    return TimeStep(np.full(batch, step_type, np.int32), np.zeros(batch, np.float32), np.ones(batch), observation)


def test_acts_legally_and_remembers_what_it_searched():
    agent = muzero.make(dataclasses.replace(SMALL, discount=-1.0, num_simulations=4), BOARD)
    params = agent.update.params(drawn(agent.update.init))
    legal = np.array([[True, False, True], [False, True, False]])
    board = BoardView(np.ones((2, 4), np.float32), legal, np.zeros(2, np.int32))
    step = jax.jit(agent.policy.step)
    for seed in range(10):
        action, extras, _ = step(
            params, jax.random.PRNGKey(seed), timestep(FIRST, board), agent.policy.initial_state(Slots(2))
        )
        assert legal[np.arange(2), action].all()
        np.testing.assert_allclose(np.sum(extras.policy, -1), 1, rtol=1e-5)
        assert not np.any(np.asarray(extras.policy)[~legal])
    assert step._cache_size() == 1


def test_frames_are_stacked_and_forgotten_at_the_start_of_an_episode():
    agent = muzero.make(dataclasses.replace(SMALL, frame_stack=3), FLAT)
    params = agent.update.params(drawn(agent.update.init))
    step = jax.jit(agent.policy.step)
    state = agent.policy.initial_state(Slots(2))
    for t, step_type in enumerate((FIRST, MID, LAST, FIRST)):
        observation = np.full((2, 4), t + 1, np.float32)
        _, _, state = step(params, jax.random.PRNGKey(0), timestep(step_type, observation), state)
        wanted = {0: (0, 1), 1: (1, 2), 2: (2, 3), 3: (0, 4)}[t]
        np.testing.assert_array_equal(state.frames[0, 0], wanted)


def seen_and_lost(config: muzero.Config, observations, spec) -> tuple:
    """The hidden states of the first row of observations [M, B, ...], and the loss of all of them."""
    model = make_model(config, spec, 3)
    params = drawn(model.init)
    rng, shape = np.random.default_rng(0), (config.sequence_length, 4)
    step_type, action = rng.integers(3, size=(2, *shape)).astype(np.int32)
    reward = rng.normal(size=shape).astype(np.float32)
    extras = Extras(rng.dirichlet(np.ones(3), shape).astype(np.float32), reward)
    steps = Steps(observations, step_type, reward, np.ones(shape, np.float32), action, extras, step_type)
    search = make_search(config, model, 3, explore=True) if config.reanalyze_ratio else None
    loss = functools.partial(muzero_loss, model=model, config=config, search=search)
    context = Context(params, jax.random.PRNGKey(1), jnp.int32(0))
    first = sequences.stack(observations, step_type, config.frame_stack)
    hidden = jax.jit(model.represent)(params, jax.tree.map(lambda x: x[0], first))
    return hidden, jax.jit(loss)(params, context, Batch(steps, np.ones(4, np.float32)))


def test_a_nest_of_observations_is_seen_side_by_side():
    """Split into leaves, one of them discrete, observations give what one array of them does."""
    config = dataclasses.replace(SMALL, frame_stack=2, consistency_cost=1.0, reanalyze_ratio=0.5, reanalyze="update")
    rng, shape = np.random.default_rng(1), (config.sequence_length, 4)
    place, kind = rng.normal(size=(*shape, 2)).astype(np.float32), rng.integers(2, size=shape).astype(np.int32)
    nested = {"place": place, "kind": np.eye(2, dtype=np.float32)[kind]}
    flat = np.concatenate([nested["kind"], nested["place"]], axis=-1)
    two = specs.Array((2,), np.float32)
    wanted = seen_and_lost(config, flat, FLAT.observations)
    jax.tree.map(np.testing.assert_array_equal, seen_and_lost(config, nested, {"place": two, "kind": two}), wanted)
    # A stack of a discrete leaf is [L, n], and one of vectors [n, L]; for L = 1 they are the same.
    config = dataclasses.replace(SMALL, frame_stack=1, search="stochastic", chance_codes=2)
    wanted = seen_and_lost(config, flat[1:], FLAT.observations)
    spec = {"place": two, "kind": specs.DiscreteArray(2)}
    seen = seen_and_lost(config, {"place": place[1:], "kind": kind[1:]}, spec)
    jax.tree.map(np.testing.assert_array_equal, seen, wanted)


def test_agent_travels_to_another_process():
    agent = muzero.make(SMALL, FLAT)
    copy = cloudpickle.loads(cloudpickle.dumps(agent))
    assert copy.tables == agent.tables
    one, other = (programs(each._replace(policy=each.eval_policy), FLAT) for each in (agent, copy))
    assert one == other


EIGHT_DEVICES = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from boonta.agents import muzero, sequences
from boonta.agents.base import Batch, Steps
from boonta.agents.muzero.loss import muzero_loss
from boonta.agents.muzero.networks import make_model, scale_hidden
from boonta.agents.muzero.policy import Extras
from boonta.agents.muzero.search import make_search
from boonta.agents.optimisation import Context
from boonta.tests.agents.test_muzero_agent import FLAT, SMALL

assert jax.device_count() == 8
rng = np.random.default_rng(0)
rows, batch = SMALL.sequence_length, 16
normal = lambda *shape: rng.normal(size=(rows, batch, *shape)).astype(np.float32)
step_type, action = rng.integers(3, size=(2, rows, batch)).astype(np.int32)
extras = Extras(rng.dirichlet(np.ones(3), (rows, batch)).astype(np.float32), normal())
steps = Steps(normal(4), step_type, normal(), np.ones((rows, batch), np.float32), action, extras, step_type)
data = Batch(steps, rng.uniform(0.1, 1, batch).astype(np.float32))
update = muzero.make(SMALL, FLAT).update
start, results = jax.device_get(jax.jit(update.init)(jax.random.PRNGKey(0))), []
for devices in (1, 8):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("batch",))
    replicated = NamedSharding(mesh, PartitionSpec())
    over_batch = Batch(*(NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((None, "batch"), ("batch",))))
    state = jax.device_put(start, replicated)
    step = jax.jit(update.step, in_shardings=(replicated, over_batch), donate_argnums=0).lower(state, data).compile()
    compiled = step.as_text()
    # Devices add up their gradients; were they to exchange anything else, each would do the work of all.
    assert ("all-reduce" in compiled) == (devices > 1)
    assert not any(word in compiled for word in ("all-gather", "all-to-all", "collective-permute"))
    assert not any(word in compiled for word in ("callback", "infeed", "outfeed"))  # Nothing goes through the host.
    for _ in range(3):
        state, priorities, metrics = step(state, data)  # It refuses a state that would be compiled for anew.
    results.append(jax.device_get((state.params, priorities, metrics)))
jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), *results)
"""


def test_one_and_eight_devices_agree_and_compile_once():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    subprocess.run(
        [sys.executable, "-c", EIGHT_DEVICES], check=True, env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    )
