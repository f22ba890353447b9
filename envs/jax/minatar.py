"""MinAtar as JAX programs: the games of `envs.minatar` with the rules of pgx.

See "MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement Learning Experiments"
(https://arxiv.org/abs/1903.03176) and "Pgx: Hardware-Accelerated Parallel Game Simulators for Reinforcement Learning"
(https://arxiv.org/abs/2303.17503).

Glossary of shapes: C channels.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from boonta.envs import base, drawing, minatar
from boonta.envs.jax.base import Game

_CLASSES = {
    "asterix": "MinAtarAsterix",
    "breakout": "MinAtarBreakout",
    "freeway": "MinAtarFreeway",
    "seaquest": "MinAtarSeaquest",
    "space_invaders": "MinAtarSpaceInvaders",
}


@dataclasses.dataclass(frozen=True)
class MinAtar(Game):
    """See `envs.minatar.MinAtar`, whose spec and defaults it shares; difficulty ramping is always on.

    It differs in one point: a sticky first step of a game repeats the no-op here, and the last action of the previous
    game in `envs.minatar`.

    Attributes:
      game, sticky_actions, minimal_actions, max_episode_steps: see `envs.minatar.MinAtar`.
    """

    game: str
    sticky_actions: float = 0.1
    minimal_actions: bool = False
    max_episode_steps: int | None = None

    def __post_init__(self) -> None:
        self._twin()  # This raises ValueError for impossible settings.

    @property
    def spec(self) -> base.EnvSpec:
        return self._twin().spec

    def reset(self, key: jax.Array) -> Any:
        return _bare(self._rules._init(key))

    def move(
        self, key: jax.Array, state: Any, action: jax.Array
    ) -> tuple[Any, jax.Array, jax.Array | bool, jax.Array | bool]:
        # `Env.step` would also observe and handle the game's end, but `Game` does both.
        state = self._rules._step(state, action, key)
        steps = state._step_count + 1
        truncated = steps == self.max_episode_steps if self.max_episode_steps else False
        return _bare(state, steps), state.rewards[0], state.terminated, truncated

    def observe(self, state: Any) -> jax.Array:
        """Returns the board, float32 [10, 10, C]."""
        return self._rules._observe(state, state.current_player).astype(jnp.float32)

    def draw(self, state: Any) -> np.ndarray:
        return drawing.marks(np.asarray(jax.vmap(self.observe)(state.game)))

    def _twin(self) -> minatar.MinAtar:
        return minatar.MinAtar(
            self.game,
            sticky_actions=self.sticky_actions,
            minimal_actions=self.minimal_actions,
            max_episode_steps=self.max_episode_steps,
        )

    @property
    def _rules(self) -> Any:
        return _rules(self.game, self.sticky_actions, self.minimal_actions)


def _bare(state: Any, steps: Any = 0) -> Any:
    """Empties the fields of a pgx state that `Game` doesn't need, because every step would copy and select them."""
    nothing = jnp.zeros((0,), bool)
    return state.replace(observation=nothing, legal_action_mask=nothing, rewards=nothing, _step_count=jnp.int32(steps))


@functools.cache
def _rules(game: str, sticky_actions: float, minimal_actions: bool) -> Any:
    """Makes pgx's game, outside of any trace, because the cache keeps its constants."""
    with jax.ensure_compile_time_eval():
        module = importlib.import_module(f"pgx.minatar.{game}")
        return getattr(module, _CLASSES[game])(
            use_minimal_action_set=minimal_actions, sticky_action_prob=sticky_actions
        )
