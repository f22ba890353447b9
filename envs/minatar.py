"""MinAtar: five Atari games shrunk to ten by ten cells, their rules from the package of that name.

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

if TYPE_CHECKING:
    from boonta.envs.jax import minatar as jax_minatar

_NUM_ACTIONS = 6  # no-op, left, up, right, down, fire, in every game


@dataclasses.dataclass(frozen=True)
class MinAtar:
    """One game; each channel of the board marks one kind of thing with 1, elsewhere it is 0.

    Defaults are those of the paper and of the package. A game's own end is a termination, in Freeway too, which ends
    after 2,500 steps by its rules.

    Attributes:
      game: "asterix", "breakout", "freeway", "seaquest" or "space_invaders".
      sticky_actions: probability with which a step takes the action before instead.
      difficulty_ramping: games grow harder as they go on: Asterix, Seaquest and Space Invaders know this.
      minimal_actions: the actions that the game heeds (Breakout: 3) instead of all 6. Off in the paper; the package's
        "-v1" environments have it on.
      max_episode_steps: truncates (discount 1 on LAST) after so many steps. None, as in the paper, never does.
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


class _MinAtarBatch(base.LoopedEnv):
    """Draws what its slots hold."""

    def render(self) -> np.ndarray:
        """The cells in the colours of the package's own window: the last channel that marks a cell wins."""
        return drawing.marks(np.stack([slot.board() for slot in self._envs]))


class _Slot(dm_env.Environment):
    """One game, with the sticky actions of `minatar.Environment`; its next game is begun by `base.LoopedEnv`."""

    def __init__(self, settings: MinAtar, seed: int):
        self._game = _rules(settings.game).Env(settings.difficulty_ramping)
        self._game.random = self._rng = np.random.RandomState(seed)  # one for both, as in the package
        self._actions = self._game.minimal_action_set() if settings.minimal_actions else range(_NUM_ACTIONS)
        self._sticky_actions = settings.sticky_actions
        self._max_steps = settings.max_episode_steps
        self._action = 0  # the last one taken; the package, too, keeps it beyond a game's end
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
        """What is where: bool [10, 10, C]."""
        return self._game.state()

    def observation_spec(self) -> Any:
        return specs.Array(tuple(self._game.state_shape()), bool, "board")

    def action_spec(self) -> specs.Array:
        return specs.DiscreteArray(len(self._actions), np.int32, "action")


@functools.cache
def _rules(game: str) -> types.ModuleType:
    """The package's module of a game, loaded past the package itself.

    `import minatar` loads pyplot, seaborn and pandas for a window that nobody opens here: three seconds and 100 MB of
    every process.
    """
    package = importlib.util.find_spec("minatar")
    assert package is not None and package.origin is not None  # one of the core's dependencies
    folder = pathlib.Path(package.origin).parent / "environments"
    known = sorted(path.stem for path in folder.glob("[!_]*.py"))
    if game not in known:
        raise ValueError(f"game is {game!r}, which MinAtar does not know; {base.suggest(game.lower(), known)}")
    spec = importlib.util.spec_from_file_location(f"minatar.environments.{game}", folder / f"{game}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
