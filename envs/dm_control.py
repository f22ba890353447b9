"""The DeepMind Control Suite: continuous control of bodies that MuJoCo simulates.

See "dm_control: Software and Tasks for Continuous Control" (https://arxiv.org/abs/2006.12983).

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import dm_env
import numpy as np
from dm_env import specs

from boonta.envs import base, rendering
from boonta.envs.dm_env import DmEnv
from boonta.envs.looped import LoopedEnv
from boonta.envs.processes import InProcesses


@dataclasses.dataclass(frozen=True)
class DmControl:
    """One task of the suite. Episodes are truncated, with discount 1 on LAST, after 1,000 control steps in most tasks.

    Its `kind`, by which agents choose their presets, is "dm_control", or "dm_control_pixels" if it shows pixels alone.

    Attributes:
      task: the name of domain and task, such as "cartpole-swingup" or "ball_in_cup-catch".
      observe: "state" shows all that the task observes as one vector; "leaves" shows it as the task's own dict;
        "pixels" shows a camera's picture, uint8 [height, width, 3]; "both" shows a dict of "pixels" and "state".
      action_repeat: control steps for which an action is repeated; rewards add up. "Learning Latent Dynamics for
        Planning from Pixels" (https://arxiv.org/abs/1811.04551) has 8 for cartpole, 4 for reacher, cheetah and
        ball_in_cup, 2 for finger and walker; with 1, noise that is drawn anew for each step explores little.
      height: rows of a picture; 84 in "Image Augmentation Is All You Need", Appendix B
        (https://arxiv.org/abs/2004.13649).
      width: columns of a picture.
      camera: the number of the camera whose pictures are shown.
      workers: processes that step the slots at the same time, see `envs.processes`; with 0, this process steps them one
        after another. A picture must be drawn by the thread that began the first episode, so an actor of several
        threads needs workers for pixels: there None is 1, elsewhere 0.
    """

    task: str
    observe: Literal["state", "leaves", "pixels", "both"] = "state"
    action_repeat: int = 1
    height: int = 84
    width: int = 84
    camera: int = 0
    workers: int | None = dataclasses.field(default=None, metadata=base.SAME_STEPS)

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            base.require_side(name, getattr(self, name))
        for name, least in (("action_repeat", 1), ("camera", -1), ("workers", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        _names(self.task)
        if self._draws:
            rendering.require()

    @property
    def kind(self) -> str:
        return "dm_control_pixels" if self.observe == "pixels" else "dm_control"

    @property
    def one_thread(self) -> bool:
        """Whether all of a batch's steps must be made by the thread that made its first."""
        return self._draws and self.workers == 0

    @property
    def spec(self) -> base.EnvSpec:
        """The specs of the task.

        Raises:
          ValueError: the task has no such camera.
        """
        return self._adapted.spec._replace(frames_per_step=self.action_repeat)

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        workers = int(self._draws) if self.workers is None else self.workers
        if workers:
            return InProcesses(dataclasses.replace(self, workers=0), workers)(num_envs, seed)
        return LoopedEnv(self._adapted.slots(num_envs, seed), self.spec)

    @property
    def _draws(self) -> bool:
        return self.observe in ("pixels", "both")

    @functools.cached_property
    def _adapted(self) -> DmEnv:
        return DmEnv(_Task, {"settings": dataclasses.replace(self, workers=0)})


class _Task(dm_env.Environment):
    """A task with our observations and repeats.

    Attributes:
      steps_per_s: env steps in a second of simulated time.
    """

    def __init__(self, seed: int, settings: DmControl):
        self._settings = settings
        self._env = _suite().load(*_names(settings.task), task_kwargs={"random": seed})
        self.steps_per_s = 1 / (self._env.control_timestep() * settings.action_repeat)
        cameras = self._env.physics.model.ncam
        if settings.camera >= cameras:
            raise ValueError(f"camera is {settings.camera}; {settings.task} has {cameras} from 0 on, and -1 is free")

    def reset(self) -> dm_env.TimeStep:
        return self._shown(self._env.reset())

    def step(self, action: Any) -> dm_env.TimeStep:
        reward, discount = 0.0, 1.0
        for _ in range(self._settings.action_repeat):
            step = self._env.step(action)
            reward, discount = reward + step.reward, discount * step.discount
            if step.last():
                break
        return self._shown(step._replace(reward=reward, discount=discount))

    def observation_spec(self) -> Any:
        own = self._env.observation_spec()
        size = sum(int(np.prod(leaf.shape)) for leaf in own.values())
        pixels = specs.BoundedArray((self._settings.height, self._settings.width, 3), np.uint8, 0, 255, "pixels")
        return self._observed(lambda: pixels, lambda: specs.Array((size,), np.float32, "state"), own)

    def action_spec(self) -> specs.BoundedArray:
        return self._env.action_spec().replace(name="action")

    def render(self) -> np.ndarray | None:
        """A picture for people, uint8 [240, 320, 3]; None where nothing draws."""
        return rendering.drawn(self._settings.task, lambda: self._picture(*base.PICTURE))

    def close(self) -> None:
        self._env.close()
        self._env.physics.free()  # It ends the renderer, which dm_control leaves to the end of the process.

    def _shown(self, step: dm_env.TimeStep) -> dm_env.TimeStep:
        own = step.observation

        def state() -> np.ndarray:
            return np.concatenate([np.ravel(leaf) for leaf in own.values()])

        return step._replace(
            observation=self._observed(lambda: self._picture(self._settings.height, self._settings.width), state, own)
        )

    def _observed(self, pixels: Any, state: Any, own: Any) -> Any:
        """Puts an observation, or its specs, together as the settings say; the first two arguments are functions."""
        match self._settings.observe:
            case "state":
                return state()
            case "leaves":
                return dict(own)
            case "pixels":
                return pixels()
        return {"pixels": pixels(), "state": state()}

    def _picture(self, height: int, width: int) -> np.ndarray:
        """Draws uint8 [height, width, 3].

        Raises:
          RuntimeError: another thread has begun to draw.
        """
        try:
            return self._env.physics.render(height, width, camera_id=self._settings.camera)
        except RuntimeError as error:
            if "current on another thread" in str(error):
                raise RuntimeError(f"{error} Give the environment workers, or the actor one thread.") from error
            raise


def _names(task: str) -> tuple[str, str]:
    """Splits the name of a task in domain and task.

    Raises:
      ValueError: there is none of that name; the message lists near ones.
    """
    known = {f"{domain}-{name}": (domain, name) for domain, name in _suite().ALL_TASKS}
    if task not in known:
        raise ValueError(f"task is {task!r}, which dm_control does not know; {base.suggest(task, known)}")
    return known[task]


@functools.cache
def _suite() -> Any:
    """Imports the suite, after a renderer is chosen.

    Raises:
      ImportError: it is not installed, or can't load the renderer that MUJOCO_GL names.
    """
    chosen = rendering.choose()
    try:
        from dm_control import suite
    except ModuleNotFoundError as error:
        raise ImportError(
            f"envs.dm_control needs dm_control, which can't be imported ({error}); pip install 'boonta-rl[mujoco]'"
        ) from error
    except Exception as error:  # PyOpenGL raises whatever it meets first.
        cause = f"{type(error).__name__}: {error}"
        raise ImportError(
            f"dm_control can't load the renderer of {rendering.VARIABLE}, {chosen!r} ({cause}); {rendering.WANTED}"
        ) from error
    return suite
