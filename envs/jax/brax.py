"""Any brax environment by name: continuous control of rigid bodies.

See "Brax -- A Differentiable Physics Engine for Large Scale Rigid Body Simulation" (https://arxiv.org/abs/2106.13281).
It is one of the package's extras, and among the locked packages.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.envs import base, rendering
from boonta.envs.jax.base import Game


class State(NamedTuple):
    """The state of an episode.

    Attributes:
      inner: brax's own state.
      steps: int32 [], the steps taken.
    """

    inner: Any
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class Brax(Game):
    """One brax environment without brax's auto-reset wrapper, which hides the last observation of an episode.

    Actions are real numbers from -1 to 1. brax's programs are large: tracing and compiling one takes a minute or more.

    Attributes:
      env: a name for `brax.envs.get_environment`, such as "ant" or "halfcheetah".
      backend: brax's physics: "generalized", "positional", "spring", "mjx"; None for the environment's default.
      max_episode_steps: truncates (discount 1 on LAST) after this many steps.
    """

    env: str
    backend: str | None = None
    max_episode_steps: int = 1000

    def __post_init__(self) -> None:
        if self.max_episode_steps < 1:
            raise ValueError(f"max_episode_steps is {self.max_episode_steps}; it must be at least 1")
        _make(self.env, self.backend)

    @property
    def spec(self) -> base.EnvSpec:
        size = _make(self.env, self.backend).action_size
        return base.EnvSpec(
            observations=_observation(self.env, self.backend),
            actions=specs.BoundedArray((size,), np.float32, -1.0, 1.0, "action"),
        )

    def reset(self, key: jax.Array) -> State:
        return State(_typed(_make(self.env, self.backend).reset(key)), jnp.int32(0))

    def move(
        self, key: jax.Array, state: State, action: jax.Array
    ) -> tuple[State, jax.Array, jax.Array | bool, jax.Array | bool]:
        inner = _typed(_make(self.env, self.backend).step(state.inner, action))
        steps = state.steps + 1
        return State(inner, steps), inner.reward, inner.done > 0, steps >= self.max_episode_steps

    def observe(self, state: State) -> jax.Array:
        return state.inner.obs

    @property
    def steps_per_s(self) -> float | None:
        env = _make(self.env, self.backend)
        return 1 / float(env.dt) if _is_drawn(env) else None

    def draw(self, state: Any) -> np.ndarray | None:
        """Draws the bodies with MuJoCo, by their model's first camera if it has one; None where nothing draws."""
        if not _is_drawn(_make(self.env, self.backend)):
            return None
        bodies = state.game.inner.pipeline_state
        poses = list(zip(bodies.q, bodies.qd))
        return rendering.drawn(self.env, lambda: np.stack([_picture(self.env, self.backend, *pose) for pose in poses]))


def _typed(inner: Any) -> Any:
    """Gives every leaf of brax's state its dtype for good: some environments begin with Python's numbers."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(jnp.result_type(leaf)), inner)


@functools.cache
def _observation(name: str, backend: str | None) -> specs.Array:
    """The spec of brax's observation, from a trace; brax itself would compile each operation of a reset."""
    shown = jax.eval_shape(lambda: _make(name, backend).reset(jax.random.PRNGKey(0)).obs)
    return specs.Array(shown.shape, np.float32, "observation")


def _is_drawn(env: Any) -> bool:
    """Whether brax's environment has a model of bodies; one, for tests, has none."""
    return getattr(env, "sys", None) is not None


def _picture(name: str, backend: str | None, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    """Draws one slot, uint8 [240, 320, 3], given the positions and velocities of its joints."""
    import mujoco

    renderer, data = _renderer(name, backend)
    data.qpos, data.qvel = q, qd
    mujoco.mj_forward(renderer.model, data)
    renderer.update_scene(data, camera=0 if renderer.model.ncam else -1)
    return renderer.render()


@functools.cache
def _renderer(name: str, backend: str | None) -> tuple[Any, Any]:
    """MuJoCo's renderer of an environment, and the data that it shows."""
    import mujoco

    model = _make(name, backend).sys.mj_model
    renderer = mujoco.Renderer(model, *base.PICTURE)
    atexit.register(renderer.close)  # Python would free it after EGL has ended.
    return renderer, mujoco.MjData(model)


@functools.cache
def _make(name: str, backend: str | None) -> Any:
    """Makes brax's environment, outside of any trace, because the cache keeps its constants.

    Raises:
      ImportError: brax is not installed.
      ValueError: the name is unknown.
    """
    rendering.choose()  # brax imports MuJoCo.
    with jax.ensure_compile_time_eval():
        try:
            from brax import envs
        except ImportError as error:
            raise ImportError(
                f"envs.jax.brax needs brax, which can't be imported ({error}); pip install 'boonta-rl[brax]'"
            ) from error
        try:
            return envs.get_environment(name, **({} if backend is None else {"backend": backend}))
        except KeyError as error:
            raise ValueError(f"env is {name!r}, which brax does not know; {base.suggest(name, envs._envs)}") from error
