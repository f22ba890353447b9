"""Any gymnasium environment with plain spaces.

See "Gymnasium: A Standard Interface for Reinforcement Learning Environments" (https://arxiv.org/abs/2407.17032) and
https://gymnasium.farama.org/api/env/.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dm_env
import gymnasium
import numpy as np
from dm_env import specs

from boonta.envs import base, rendering, spaces
from boonta.envs.episode_metrics import chosen, require_names
from boonta.envs.looped import LoopedEnv
from boonta.envs.names import signature_of
from boonta.envs.processes import InProcesses
from boonta.envs.vector import VectorBatch

# Packages that register environments when they are imported. A file may not name others: importing is running code.
REGISTERING = ("ale_py", "gymnasium_robotics", "minigrid")
DRAWN = "rgb_array"  # Gymnasium's name for pictures as arrays.
RETURNED = {"reset": ("observation", "info"), "step": ("observation", "reward", "terminated", "truncated", "info")}


@dataclasses.dataclass(frozen=True)
class Gymnasium:
    """B copies of one gymnasium environment, stepped one after another, by several processes, or by code of its own.

    `terminated` becomes discount 0 on LAST; `truncated` alone becomes discount 1. A `Discrete` space becomes 0 to n-1
    whatever its `start`, and float64 becomes float32. A `Dict` of observations stays a dict and a `Tuple` a tuple; a
    `MultiDiscrete` becomes a tuple with a number for each of its entries, as an action one array of them. A `Dict` of
    "observation" and "action_mask", 1 for each action that is legal, becomes a `base.BoardView`.

    It is drawn as the environment draws itself, where `render_mode="rgb_array"` is among its modes; a callable must
    take that argument.

    Its `kind`, by which agents choose their presets, is "mujoco" for Gymnasium's MuJoCo environments.

    Attributes:
      env: an id for `gymnasium.make`, or a callable that makes a `gymnasium.Env`. To be sent to another process the
        callable must be picklable: a class or a function of a module, not a lambda.
      kwargs: keyword arguments of `gymnasium.make`, `gymnasium.make_vec` or the callable.
      workers: processes that step the slots at the same time, see `envs.processes`; with 0, this process steps them one
        after another.
      vectorised: whether the environment steps its slots itself: an id is then one for `gymnasium.make_vec`, whose
        `vectorization_mode` may be among `kwargs`, and a callable makes a `VectorEnv`, given `num_envs`, too. Many such
        environments draw the starts of all slots from one generator, so that slots depend on each other.
      metrics: names of numbers in the `info` of an episode's last step, such as "is_success": they are reported as the
        return is. A sum over the steps of an episode must be put there by a wrapper of your own.
    """

    env: str | Callable[..., gymnasium.Env | gymnasium.vector.VectorEnv]
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    workers: int = dataclasses.field(default=0, metadata=base.SAME_STEPS)
    vectorised: bool = False
    metrics: tuple[str, ...] = dataclasses.field(default=(), metadata=base.SAME_STEPS)

    def __post_init__(self) -> None:
        require_names(self.metrics)
        if self.workers < 0:
            raise ValueError(f"workers is {self.workers}; it must be at least 0")
        if self.workers and self.vectorised:
            raise ValueError(f"workers is {self.workers}; it must be 0 where vectorised is True")
        signature = None if isinstance(self.env, str) else signature_of(self.env)
        if signature is not None:
            try:
                signature.bind(**self.kwargs, **({"num_envs": 1} if self.vectorised else {}))
            except TypeError as error:
                raise ValueError(f"{self.env} can't be called with kwargs {dict(self.kwargs)}: {error}") from error

    @property
    def kind(self) -> str:
        registered = gymnasium.registry.get(self.env) if isinstance(self.env, str) else None
        if registered and str(registered.entry_point).startswith("gymnasium.envs.mujoco"):
            return "mujoco"
        return "cartpole" if self.env == "CartPole-v1" else "gymnasium"

    @property
    def spec(self) -> base.EnvSpec:
        """Reads the spaces of a temporary copy of the environment.

        Raises:
          ValueError: agents don't support one of the spaces, which the message shows; or Gymnasium has no such
            environment, and it lists near matches; or the environment needs a package that is missing, which it names.
        """
        return self._copied[0]

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        if self.workers:
            return InProcesses(dataclasses.replace(self, workers=0), self.workers)(num_envs, seed)
        spec, drawn = self._copied
        seeds = base.slot_seeds(num_envs, seed)
        if self.vectorised:
            return VectorBatch(self._make(drawn, num_envs), spec, seed, self.metrics)
        return LoopedEnv([_Slot(self._make(drawn), int(slot_seed), self.metrics) for slot_seed in seeds], spec)

    @functools.cached_property
    def _copied(self) -> tuple[base.EnvSpec, Mapping[str, str]]:
        """The spec, and the keyword arguments with which it is drawn, from a temporary copy.

        There are none where it can't be drawn, or is made by a callable that doesn't take them.
        """
        with contextlib.closing(self._made()) as env:
            _require_seed(env)
            one = "single_" if self.vectorised else ""
            spec = spaces.env_spec(getattr(env, f"{one}observation_space"), getattr(env, f"{one}action_space"))
            is_drawn = DRAWN in env.metadata.get("render_modes", ()) and self._takes("render_mode")
            return spec, {"render_mode": DRAWN, **self._camera(env)} if is_drawn else {}

    def _camera(self, env: Any) -> dict[str, str]:
        """The keyword argument with which MuJoCo's camera follows a body that would run out of the picture.

        Gymnasium's own environments take it; others may not.
        """
        renderer = getattr(env.unwrapped, "mujoco_renderer", None) if self.kind == "mujoco" else None
        if renderer is None or {"camera_name", "camera_id", "default_camera_config"} & self.kwargs.keys():
            return {}
        cameras = {renderer.model.camera(i).name for i in range(renderer.model.ncam)}
        return {"camera_name": "track"} if "track" in cameras else {}

    def _takes(self, argument: str) -> bool:
        """Whether the environment can be made with a keyword argument."""
        if isinstance(self.env, str):
            return True
        signature = signature_of(self.env)
        taken = {} if signature is None else signature.parameters
        return argument in taken or any(each.kind is each.VAR_KEYWORD for each in taken.values())

    def _made(self) -> Any:
        """A copy of the environment; of a registered one, what stands in its way is a ValueError."""
        try:
            return self._make({})
        except gymnasium.error.Error as error:
            if not isinstance(self.env, str):
                raise
            if self.env in gymnasium.registry:
                raise ValueError(str(error)) from error
            cause, _, _ = str(error).partition(" Did you mean")  # Its own hint has no versions.
            raise ValueError(f"{cause} {base.suggest(self.env, gymnasium.registry)}") from error

    def _make(self, more: Mapping[str, str], num_envs: int = 1) -> Any:
        """Makes one environment, or a vector environment if it is vectorised."""
        if self.kind == "mujoco":
            rendering.choose()
            _quieten_mujoco()
        kwargs = {**more, **self.kwargs}
        if self.vectorised:
            kwargs["num_envs"] = num_envs
        if callable(self.env):
            return self.env(**kwargs)
        return gymnasium.make_vec(self.env, **kwargs) if self.vectorised else gymnasium.make(self.env, **kwargs)


def _quieten_mujoco() -> None:
    """Makes MuJoCo's warnings Python's; by itself it prints them, for every slot, and writes a file in this folder.

    What is deprecated in the environments' own files is left out, since their users can't change it.
    """

    def warn(message: str) -> None:
        if "deprecated" not in message:
            warnings.warn(f"MuJoCo: {message}", stacklevel=2)

    with contextlib.suppress(ImportError):  # Gymnasium then says what to install.
        import mujoco

        mujoco.set_mju_user_warning(warn)


def _require_seed(env: Any) -> None:
    """Refuses an environment whose `reset` takes no seed, as those of OpenAI Gym before 0.26."""
    try:
        inspect.signature(env.reset).bind(seed=0)
    except TypeError as error:
        api = f"reset(seed=None, options=None), and step returns ({', '.join(RETURNED['step'])})"
        raise ValueError(f"{type(env).__name__}.reset: {error}; by Gymnasium's API it is {api}") from error


def _values(method: str, returned: Any) -> tuple[Any, ...]:
    """The values that a method of an environment returned; those written for OpenAI Gym return others."""
    wanted = RETURNED[method]
    if isinstance(returned, tuple) and len(returned) == len(wanted):
        return returned
    found = f"{len(returned)} values" if isinstance(returned, tuple) else type(returned).__name__
    raise ValueError(f"the environment's {method} returns {found}; by Gymnasium's API it is ({', '.join(wanted)})")


class _Slot(dm_env.Environment):
    """One gymnasium environment as a dm_env environment; `LoopedEnv` resets it after LAST."""

    def __init__(self, env: gymnasium.Env, seed: int, metrics: Sequence[str]):
        self._env = env
        self._seed: int | None = seed
        self._metrics = metrics
        self._info: Mapping[str, Any] = {}  # That of the last step.
        self.steps_per_s = env.metadata.get("render_fps")

    def reset(self) -> dm_env.TimeStep:
        observation, _ = _values("reset", self._env.reset(seed=self._seed))
        self._seed = None  # Later resets go on with the environment's own generator.
        return dm_env.restart(self._observed(observation, last=False))

    def step(self, action: Any) -> dm_env.TimeStep:
        returned = self._env.step(spaces.to_space(self._env.action_space, action))
        observation, reward, terminated, truncated, self._info = _values("step", returned)
        observation = self._observed(observation, last=terminated or truncated)
        if terminated:
            return dm_env.termination(reward, observation)
        return dm_env.truncation(reward, observation) if truncated else dm_env.transition(reward, observation)

    def _observed(self, observation: Any, last: bool) -> Any:
        return spaces.observed(self._env.observation_space, self._env.action_space, observation, last)

    def observation_spec(self) -> Any:
        return spaces.env_spec(self._env.observation_space, self._env.action_space).observations

    def action_spec(self) -> specs.Array:
        return spaces.to_action_spec(self._env.action_space)

    def episode_metrics(self) -> dict[str, float]:
        return chosen(self._metrics, self._info)

    def render(self) -> np.ndarray | None:
        """The environment's picture, uint8 [H, W, 3]; None where it draws none."""
        if self._env.render_mode != DRAWN:
            return None
        try:
            return np.asarray(self._env.render(), np.uint8)
        except Exception as error:  # A package or a renderer is missing; the episode goes on without pictures.
            wanted = f"; {rendering.WANTED}" if rendering.choose() == rendering.NONE else ""
            warnings.warn(f"{self._env.spec and self._env.spec.id} is not drawn: {error}{wanted}", stacklevel=2)
            return None

    def close(self) -> None:
        self._env.close()
