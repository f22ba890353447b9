"""MinAtar: five Atari games on boards of ten by ten cells, with the rules of the package `minatar`.

See "MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement Learning Experiments"
(https://arxiv.org/abs/1903.03176) and https://github.com/kenjyoung/MinAtar.

Glossary of shapes: B batch (environment slots stepped together), C channels.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import pathlib
import types
from typing import TYPE_CHECKING, Any

import dm_env
import numpy as np
from dm_env import specs

from boonta.envs import base, drawing
from boonta.envs.looped import LoopedEnv

if TYPE_CHECKING:
    from boonta.envs.jax import minatar as jax_minatar

_NUM_ACTIONS = 6  # No-op, left, up, right, down and fire, in every game.


@dataclasses.dataclass(frozen=True)
class MinAtar:
    """One MinAtar game; each channel of the board is 1 where its kind of object is, and 0 elsewhere.

    The defaults are those of the paper and of the package. A game's own end is a termination, also in Freeway, whose
    rules end it after 2,500 steps.

    Attributes:
      game: "asterix", "breakout", "freeway", "seaquest" or "space_invaders".
      sticky_actions: probability that a step repeats the previous action.
      difficulty_ramping: whether a game becomes harder with time, in Asterix, Seaquest and Space Invaders.
      minimal_actions: whether to use only the actions that the game responds to (Breakout: 3) instead of all 6. Off in
        the paper; on in the package's "-v1" environments.
      max_episode_steps: truncates (discount 1 on LAST) after this many steps; None, as in the paper, never truncates.
    """

    game: str
    sticky_actions: float = 0.1
    difficulty_ramping: bool = True
    minimal_actions: bool = False
    max_episode_steps: int | None = None

    def __post_init__(self) -> None:
        _rules(self.game)
        if not 0.0 <= self.sticky_actions <= 1.0:
            raise ValueError(f"sticky_actions is {self.sticky_actions}; allowed: 0 to 1")
        if self.max_episode_steps is not None and self.max_episode_steps < 1:
            raise ValueError(f"max_episode_steps is {self.max_episode_steps}; it must be at least 1, or None")

    @property
    def spec(self) -> base.EnvSpec:
        slot = _Slot(self, seed=0)
        shape = slot.observation_spec().shape
        return base.EnvSpec(specs.BoundedArray(shape, np.float32, 0.0, 1.0, "board"), slot.action_spec())

    def jax_twin(self) -> jax_minatar.MinAtar:
        """The same game in JAX, for fused programs.

        Raises:
          ValueError: the game in JAX always ramps its difficulty up.
        """
        from boonta.envs.jax import minatar as jax_minatar

        if not self.difficulty_ramping:
            raise ValueError("difficulty_ramping is False; in JAX it must be True")
        return jax_minatar.MinAtar(self.game, self.sticky_actions, self.minimal_actions, self.max_episode_steps)

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        return _MinAtarBatch([_Slot(self, int(slot_seed)) for slot_seed in base.slot_seeds(num_envs, seed)], self.spec)


class _MinAtarBatch(LoopedEnv):
    """Steps the games one after another, and draws them."""

    def render(self) -> np.ndarray:
        """Draws the cells in the colours of the package's own window, see `drawing.marks`."""
        return drawing.marks(np.stack([slot.board() for slot in self._envs]))

    def action_name(self, slot: int, action: int) -> str:
        return self._envs[slot].action_name(action)


class _Slot(dm_env.Environment):
    """One game, with the sticky actions of `minatar.Environment`; `LoopedEnv` resets it after LAST."""

    def __init__(self, settings: MinAtar, seed: int):
        self._game = _rules(settings.game).Env(settings.difficulty_ramping)
        self._game.random = self._rng = np.random.RandomState(seed)  # Both share one generator, as in the package.
        self._actions = self._game.minimal_action_set() if settings.minimal_actions else range(_NUM_ACTIONS)
        self._sticky_actions = settings.sticky_actions
        self._max_steps = settings.max_episode_steps
        self._action = 0  # The last executed action; like the package, this keeps it when a game ends.
        self._steps = 0

    def reset(self) -> dm_env.TimeStep:
        self._game.reset()
        self._steps = 0
        return dm_env.restart(self.board())

    def step(self, action: Any) -> dm_env.TimeStep:
        if self._rng.rand() >= self._sticky_actions:
            self._action = self._actions[action]
        reward, over = self._game.act(self._action)
        self._steps += 1
        if over:
            return dm_env.termination(reward, self.board())
        if self._steps == self._max_steps:
            return dm_env.truncation(reward, self.board())
        return dm_env.transition(reward, self.board())

    def board(self) -> np.ndarray:
        """Returns the objects on the board, bool [10, 10, C]."""
        return self._game.state()

    def observation_spec(self) -> Any:
        return specs.Array(tuple(self._game.state_shape()), bool, "board")

    def action_name(self, action: int) -> str:
        return ("stay", "left", "up", "right", "down", "fire")[self._actions[action]]

    def action_spec(self) -> specs.Array:
        return specs.DiscreteArray(len(self._actions), np.int32, "action")


@functools.cache
def _rules(game: str) -> types.ModuleType:
    """Loads the package's module of a game without importing the package itself.

    `import minatar` would load pyplot, seaborn and pandas for a window that is not used here, which costs every
    process three seconds and 100 MB.
    """
    package = importlib.util.find_spec("minatar")
    assert package is not None and package.origin is not None  # The package is a dependency of the core.
    folder = pathlib.Path(package.origin).parent / "environments"
    known = sorted(path.stem for path in folder.glob("[!_]*.py"))
    if game not in known:
        raise ValueError(f"game is {game!r}, which MinAtar does not know; {base.suggest(game.lower(), known)}")
    spec = importlib.util.spec_from_file_location(f"minatar.environments.{game}", folder / f"{game}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
