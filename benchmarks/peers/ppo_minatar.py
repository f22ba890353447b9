"""Trains PureJaxRL's PPO on MinAtar by Boonta's rules (the paper's: sticky actions, all six actions), several seeds.

    git clone https://github.com/luchris429/purejaxrl FOLDER
    BOONTA_PYTHON=3.13 ./run python benchmarks/peers/ppo_minatar.py --folder FOLDER --games breakout space_invaders

The settings are those that PureJaxRL publishes for MinAtar, in its `examples/brax_minatar.ipynb`. It prints, for each
game and seed, the mean return of the last 100 training episodes, and writes it with the curve as a line of JSON.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import time
from typing import Any
from unittest import mock

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from gymnax.environments import spaces

from boonta.envs.minatar import MinAtar

PUBLISHED = {
    "LR": 5e-3,
    "NUM_ENVS": 64,
    "NUM_STEPS": 128,
    "UPDATE_EPOCHS": 4,
    "NUM_MINIBATCHES": 8,
    "GAMMA": 0.99,
    "GAE_LAMBDA": 0.95,
    "CLIP_EPS": 0.2,
    "ENT_COEF": 0.01,
    "VF_COEF": 0.5,
    "MAX_GRAD_NORM": 0.5,
    "ACTIVATION": "relu",
    "ANNEAL_LR": True,
    "DEBUG": False,
}
MISSING = (
    "brax",
    "brax.envs",
    "brax.envs.wrappers",
    "brax.envs.wrappers.training",
    "navix",
)  # PPO on MinAtar needs none.
EPISODES = 100
POINTS = 100  # Of a curve.


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      folder: PureJaxRL's clone.
      games: the games.
      seeds: number of seeds, counted from 0.
      env_steps: length of a run.
      out: file for the lines of JSON; none by default.
    """

    folder: pathlib.Path
    games: tuple[str, ...] = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
    seeds: int = 5
    env_steps: int = 10_000_000
    out: pathlib.Path | None = None


class AsGymnax:
    """A game as gymnax has them: a step that ends an episode returns the next one's first observation."""

    def __init__(self, game: str):
        self._game = MinAtar(game).jax_twin()

    def observation_space(self, params: Any) -> spaces.Box:
        return spaces.Box(0.0, 1.0, self._game.spec.observations.shape, jnp.float32)

    def action_space(self, params: Any) -> spaces.Discrete:
        return spaces.Discrete(self._game.spec.actions.num_values)

    def reset(self, key: jax.Array, params: Any = None) -> tuple[jax.Array, Any]:
        state = self._game.reset(key)
        return self._observe(state), state

    def step(self, key: jax.Array, state: Any, action: jax.Array, params: Any = None) -> tuple:
        move_key, reset_key = jax.random.split(key)
        moved, reward, terminated, truncated = self._game.move(move_key, state, action)
        done = jnp.asarray(terminated | truncated)
        state = jax.tree.map(lambda new, old: jnp.where(done, new, old), self._game.reset(reset_key), moved)
        return self._observe(state), state, jnp.float32(reward), done, {}

    def _observe(self, state: Any) -> jax.Array:
        return self._game.observe(state).astype(jnp.float32)


def main(options: Options) -> None:
    """Trains and prints."""
    sys.modules.update({name: mock.MagicMock() for name in MISSING})
    sys.path.insert(0, str(options.folder / "purejaxrl"))
    from ppo import make_train

    for game in options.games:
        with mock.patch.object(gymnax, "make", lambda name: (AsGymnax(name), None)):
            train = make_train({**PUBLISHED, "ENV_NAME": game, "TOTAL_TIMESTEPS": options.env_steps})

        def finished(key: jax.Array, train=train) -> tuple[jax.Array, jax.Array]:
            info = train(key)["metrics"]  # [updates, steps, envs] each
            ended, returns = info["returned_episode"], info["returned_episode_returns"]
            return jnp.sum(ended, axis=(1, 2)), jnp.sum(jnp.where(ended, returns, 0.0), axis=(1, 2))

        run = jax.jit(finished).lower(jax.random.PRNGKey(0)).compile()
        for seed in range(options.seeds):
            began = time.monotonic()
            numbers, returns = map(np.asarray, run(jax.random.PRNGKey(seed)))  # [updates] each
            seconds = time.monotonic() - began
            last = _last(numbers, returns)
            curve = [round(_last(numbers[:i], returns[:i]), 3) for i in _points(len(numbers))]
            print(
                f"{game:15s} seed {seed} return {last:8.2f}  {options.env_steps / seconds:10,.0f} steps/s", flush=True
            )
            if options.out is not None:
                with open(options.out, "a") as file:
                    row = {"game": game, "seed": seed, "return": last, "curve": curve, "seconds": seconds}
                    file.write(json.dumps(row) + "\n")


def _last(numbers: np.ndarray, returns: np.ndarray) -> float:
    """The mean return of the last `EPISODES` episodes, or of a few more: whole updates count."""
    from_end = np.cumsum(numbers[::-1])
    first = len(numbers) - 1 - min(int(np.searchsorted(from_end, EPISODES)), len(numbers) - 1)
    return float(returns[first:].sum() / max(numbers[first:].sum(), 1))


def _points(updates: int) -> list[int]:
    return [updates * (i + 1) // POINTS for i in range(POINTS)]


if __name__ == "__main__":
    main(tyro.cli(Options))
