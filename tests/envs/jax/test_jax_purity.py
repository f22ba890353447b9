import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.envs import base, catch
from boonta.envs.jax.base import Game
from boonta.envs.jax.catch import Catch
from boonta.envs.jax.purity import check_pure

SPEC = base.EnvSpec(specs.Array((2,), np.float32, "two"), specs.DiscreteArray(3, np.int32, "action"))


class Counter(NamedTuple):
    count: Any
    board: Any


@dataclasses.dataclass(frozen=True)
class Sound(Game):
    """Counts to seven; each test breaks another rule."""

    spec = SPEC

    def reset(self, key):
        return Counter(jnp.int32(0), jnp.zeros(2))

    def move(self, key, state, action):
        return Counter(state.count + 1, state.board), jnp.float32(0), state.count == 7, False

    def observe(self, state):
        return state.board


def refused(env, *parts):
    with pytest.raises(ValueError) as error:
        check_pure(env)
    for part in parts:
        assert part in str(error.value)


def test_passes_what_is_pure():
    check_pure(Sound())


def test_an_environment_that_is_not_of_jax():
    refused(catch.Catch(), "env is of boonta.envs.catch.Catch; it must be a JaxEnv, see envs.jax.base")


def test_a_numpy_array_kept_on_self():
    @dataclasses.dataclass(frozen=True)
    class Broken(Sound):
        start: Any = dataclasses.field(default_factory=lambda: {"board": [np.zeros(3)]})

    refused(Broken(), "Broken.start.board[0] is a numpy array, float64[3]; an environment may hold only settings")


def test_a_tracer_kept_on_self():
    @dataclasses.dataclass(frozen=True)
    class Broken(Sound):
        cache: dict = dataclasses.field(default_factory=dict, hash=False)

        def reset(self, key):
            self.cache["count"] = jnp.sum(key)
            return super().reset(key)

    refused(Broken(), "Broken.cache.count became a tracer, uint32[] when the program was traced")


def test_a_tracer_kept_on_self_and_used_in_the_next_trace():
    @dataclasses.dataclass(frozen=True)
    class Broken(Sound):
        cache: dict = dataclasses.field(default_factory=dict, hash=False)

        def observe(self, state):
            before, self.cache["board"] = self.cache.get("board", state.board), state.board
            return before + 1

    refused(Broken(), "Broken.cache.board became a tracer, float32[2] when the program was traced")


@pytest.mark.parametrize(
    ("use", "leaf"),
    [
        (lambda kept, board: jax.jit(lambda: kept + board)(), "state.game.board depends on"),
        (lambda kept, board: jax.lax.cond(board[0] > 1, lambda: kept, lambda: board), "state.game.board depends on"),
        (lambda kept, board: (kept + 1, board)[1], "an unused value depends on"),
    ],
)
def test_a_tracer_kept_elsewhere_and_used_in_the_next_trace(use, leaf):
    kept = []

    class Broken(Sound):
        def move(self, key, state, action):
            kept.append(state.board)
            return super().move(key, state._replace(board=use(kept[0], state.board)), action)

    refused(Broken(), f"Broken.step is another program each time it is traced: {leaf} a tracer of an earlier trace")


def test_a_python_value_kept_on_self():
    class Broken(Sound):
        def __init__(self):
            object.__setattr__(self, "steps", 0)

        def move(self, key, state, action):
            object.__setattr__(self, "steps", self.steps + 1)
            return super().move(key, state, action)

    refused(Broken(), "Broken.steps became the Python int 2")


def test_settings_that_cannot_be_hashed():
    @dataclasses.dataclass(frozen=True)
    class Broken(Sound):
        sizes: list = dataclasses.field(default_factory=list)

    refused(Broken(), "Broken can't be hashed (unhashable type: 'list'); it must be a frozen dataclass")


def test_chance_that_numpy_draws():
    rng = np.random.default_rng(0)

    class Broken(Sound):
        def reset(self, key):
            return Counter(jnp.int32(0), jnp.zeros(2) + rng.random())

    refused(Broken(), "Broken.init is another program each time it is traced: state.game.board differs")


def test_a_leaf_that_is_not_a_jax_array():
    class Broken(Sound):
        def init(self, key):
            state, timestep = super().init(key)
            return state._replace(game=Counter(0, np.zeros(2))), timestep

    refused(Broken(), "state.game.count of Broken.init is the Python int 0; it must be a JAX array")


def test_a_branch_on_a_value():
    class Broken(Sound):
        def move(self, key, state, action):
            if state.count > 3:
                action = action + 1
            return super().move(key, state, action)

    refused(
        Broken(),
        "Broken.step is not a pure JAX program at test_jax_purity.py",
        "in move, `if state.count > 3:`: Attempted",
    )


def test_an_observation_of_varying_shape():
    class Broken(Sound):
        def observe(self, state):
            return jnp.ones(state.count)

    refused(
        Broken(), "Broken.init can't be traced at test_jax", "in observe, `return jnp.ones(state.count)`: Shapes must"
    )


def test_branches_of_different_shapes():
    class Broken(Sound):
        def observe(self, state):
            return jax.lax.cond(state.count > 1, lambda: state.board, lambda: jnp.zeros(3))

    refused(
        Broken(), "Broken.init can't be traced at test_jax", "in observe, `return jax.lax.cond(", "equal output types"
    )


def test_numpy_on_a_traced_value():
    class Broken(Sound):
        def observe(self, state):
            return np.asarray(state.board)

    refused(Broken(), "Broken.init is not a pure JAX program", "in observe, `return np.asarray(state.board)`")


def test_a_call_back_to_python():
    class Broken(Sound):
        def observe(self, state):
            return jax.pure_callback(lambda board: board, jax.ShapeDtypeStruct((2,), jnp.float32), state.board)

    refused(Broken(), "Broken.init calls back to Python (pure_callback)")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            lambda s: s._replace(board=jnp.zeros(3)),
            "state.game.board of Broken is float32[2] after init, and float32[3]",
        ),
        (lambda s: s._replace(board=jnp.zeros(2, int)), "float32[2] after init, and int32[2] after step; it must stay"),
        (
            lambda s: s._replace(count=jnp.asarray(1.0) * 2),
            "state.game.count of Broken is int32[] after init, and float",
        ),
        (
            lambda s: s._replace(count=1 * jnp.where(True, 1, 2)),
            "int32[] (of a Python number: give it a dtype) after step",
        ),
        (lambda s: (s.count, s.board), "the state of Broken is"),
    ],
)
def test_a_state_that_changes_shape_dtype_or_structure(changed, message):
    class Broken(Sound):
        def step(self, state, action):
            new, timestep = super().step(state, action)
            return new._replace(game=changed(new.game)), timestep

    refused(Broken(), message)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("observation", jnp.zeros(3), "timestep.observation of Broken.init is float32[3]; its spec says float32[2]"),
        ("observation", (jnp.zeros(2),), "the observation of Broken.init has not the structure of its spec"),
        ("reward", jnp.int32(0), "timestep.reward of Broken.init is int32[]; its spec says float32[]"),
        ("step_type", jnp.zeros(1, jnp.int32), "timestep.step_type of Broken.init is int32[1]; its spec says int32[]"),
    ],
)
def test_a_step_that_does_not_fit_the_spec(field, value, message):
    class Broken(Sound):
        def init(self, key):
            state, timestep = super().init(key)
            return state, timestep._replace(**{field: value})

    refused(Broken(), message)


def test_init_that_returns_no_time_step():
    class Broken(Sound):
        def init(self, key):
            return super().init(key)[0]

    refused(Broken(), "Broken.init returns Stream; it must return a state and a TimeStep")


def test_two_players_without_a_board_view():
    class Broken(Sound):
        spec = SPEC._replace(num_players=2)

    refused(Broken(), "Broken.spec has 2 players; its observations must be a BoardView")


def test_checks_again_without_a_trace_of_the_first_time():
    env = Catch(rows=5)
    check_pure(env)
    check_pure(env)
    assert vars(env) == {"rows": 5, "columns": 5}


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        (lambda state: [state.count], "Broken.episode_metrics returns ["),
        (lambda state: {0: state.count}, "it must be a dict of numbers by name"),
        (lambda state: {"board": state.board}, "board of Broken.episode_metrics is ShapeDtypeStruct(shape=(2,)"),
        (
            lambda state: {"seven": float(state.count)},
            "Broken.episode_metrics can't be traced at test_jax_",
        ),
        (lambda state: {"name": "seven"}, "Broken.episode_metrics can't be traced"),
    ],
)
def test_numbers_of_an_episode_that_are_none(measured, message):
    class Broken(Sound):
        def measure(self, state):
            return measured(state)

    refused(Broken(), message)


def test_numbers_of_an_episode_may_be_of_any_type():
    class Measured(Sound):
        def measure(self, state):
            return {"count": state.count, "over": state.count == 7, "always": 1.0}

    check_pure(Measured())
