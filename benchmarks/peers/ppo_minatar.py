"""Trains PureJaxRL's PPO on MinAtar by Boonta's rules (the paper's: sticky actions, all six actions), several seeds.

    git clone https://github.com/luchris429/purejaxrl FOLDER
    BOONTA_PYTHON=3.13 ./run python benchmarks/peers/ppo_minatar.py --folder FOLDER --games breakout space_invaders

The settings are those that PureJaxRL publishes for MinAtar, in its `examples/brax_minatar.ipynb`. Each game and seed
gets a run folder as Boonta's programs have them, so that `boonta compare` reads it. Its `eval_return` is the mean
return of the last 100 training episodes: they draw their actions, as IMPALA's evaluations do. A run that is complete
is left alone.
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
from boonta.nodes import metrics
from boonta.programs.wiring.environments import name_of
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.config_file import Origin
from boonta.programs.wiring.run_folder.folder import claim_workdir
from boonta.programs.wiring.run_folder.provenance import provenance_of

PUBLISHED: dict[str, Any] = {
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
POINTS = 100  # Number of points of a curve.


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      folder: PureJaxRL's clone.
      games: the games.
      seeds: number of seeds, counted from 0.
      env_steps: length of a run.
      out: the folder of the run folders.
    """

    folder: pathlib.Path
    games: tuple[str, ...] = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
    seeds: int = 5
    env_steps: int = 10_000_000
    out: pathlib.Path = pathlib.Path("runs/ppo-minatar")


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
    """Trains, prints a line for each run, and writes its folder."""
    sys.modules.update({name: mock.MagicMock() for name in MISSING})
    sys.path.insert(0, str(options.folder / "purejaxrl"))
    from ppo import make_train

    for game in options.games:
        folders = {seed: options.out / f"ppo-{game}-seed{seed}" for seed in range(options.seeds)}
        left = {seed: folder for seed, folder in folders.items() if journal.last_code(folder) != 0}
        if not left:
            continue
        with mock.patch.object(gymnax, "make", lambda name: (AsGymnax(name), None)):
            train = make_train({**PUBLISHED, "ENV_NAME": game, "TOTAL_TIMESTEPS": options.env_steps})

        def finished(key: jax.Array, train=train) -> tuple[jax.Array, jax.Array]:
            info = train(key)["metrics"]  # [updates, steps, envs] each
            ended, returns = info["returned_episode"], info["returned_episode_returns"]
            return jnp.sum(ended, axis=(1, 2)), jnp.sum(jnp.where(ended, returns, 0.0), axis=(1, 2))

        run = jax.jit(finished).lower(jax.random.PRNGKey(0)).compile()
        for seed, folder in left.items():
            began = time.monotonic()
            numbers, returns = map(np.asarray, run(jax.random.PRNGKey(seed)))  # [updates] each
            seconds = time.monotonic() - began
            rate = options.env_steps / seconds
            print(f"{game:15s} seed {seed} return {_last(numbers, returns):8.2f}  {rate:10,.0f} steps/s", flush=True)
            _keep(folder.absolute(), game, seed, numbers, returns, seconds)


def _keep(folder: pathlib.Path, game: str, seed: int, numbers: np.ndarray, returns: np.ndarray, seconds: float) -> None:
    """Writes the folder of a run.

    Args:
      folder: the run's folder.
      game, seed: which run it was.
      numbers, returns: episodes that ended in each update, and the sum of their returns, [updates].
      seconds: how long it took.
    """
    env = MinAtar(game)
    file = pathlib.Path(__file__).resolve()
    origin = Origin(str(file), "main", tuple(sys.argv[1:]), provenance_of(file, name_of(env), {"learner": seed}))
    settings = {"env": env, **PUBLISHED}
    with claim_workdir("ppo_purejaxrl", Run(workdir=str(folder), seed=seed, launch="anakin"), settings, origin):
        rows = []
        for update in (len(numbers) * (i + 1) // POINTS for i in range(POINTS)):
            env_steps = update * PUBLISHED["NUM_ENVS"] * PUBLISHED["NUM_STEPS"]
            row: dict[str, float] = {"updates": update, "env_steps": env_steps}
            row |= {"seconds": seconds * update / len(numbers), "eval_version": update}
            rows.append(json.dumps(row | {"eval_return": _last(numbers[:update], returns[:update])}) + "\n")
        (folder / metrics.FILE).write_text("".join(rows))
        with journal.kept_in(folder):
            journal.LOG.debug("%sPureJaxRL's PPO", journal.STARTED)
            journal.LOG.debug("%s0", journal.ENDED)


def _last(numbers: np.ndarray, returns: np.ndarray) -> float:
    """The mean return of the last `EPISODES` episodes, or of a few more: whole updates count."""
    from_end = np.cumsum(numbers[::-1])
    first = len(numbers) - 1 - min(int(np.searchsorted(from_end, EPISODES)), len(numbers) - 1)
    return float(returns[first:].sum() / max(numbers[first:].sum(), 1))


if __name__ == "__main__":
    main(tyro.cli(Options))
