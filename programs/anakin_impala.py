"""IMPALA, environment, policy and update in one compiled program: `./run python programs/anakin_impala.py catch`."""

from __future__ import annotations

import dataclasses

from boonta.agents import impala
from boonta.envs.jax.base import JaxEnv
from boonta.envs.jax.catch import Catch
from boonta.envs.jax.grid_world import GridWorld
from boonta.envs.jax.gymnax import Gymnax
from boonta.envs.jax.minatar import MinAtar
from boonta.nodes.anakin import Anakin
from boonta.programs.wiring.run import OwnFlags, Run
from boonta.programs.wiring.solo import Size, SizeFlags, Solo, main

SMALL, MIDDLE, LARGE = Size(eval_every=250), Size(eval_every=1_000), Size(eval_every=5_000)


def catch(run: OwnFlags, size: SizeFlags = SMALL, config: impala.Config = impala.CATCH) -> Solo:
    """Catch, learned in a second or two after compiling."""
    return _program("anakin_impala_catch", run, Catch(), size, config)


def grid_world(run: OwnFlags, size: SizeFlags = MIDDLE, config: impala.Config = impala.GRID_WORLD) -> Solo:
    """A maze, drawn anew in each episode."""
    return _program("anakin_impala_grid_world", run, GridWorld(), size, config)


def cartpole(run: OwnFlags, size: SizeFlags = MIDDLE, config: impala.Config = impala.CARTPOLE) -> Solo:
    """CartPole-v1 of gymnax."""
    return _program("anakin_impala_cartpole", run, Gymnax("CartPole-v1"), size, config)


def minatar(
    run: OwnFlags, game: str = "breakout", size: SizeFlags = LARGE, config: impala.Config = impala.MINATAR
) -> Solo:
    """A game of MinAtar, by pgx."""
    return _program(f"anakin_impala_minatar-{game}", run, MinAtar(game), size, config)


def _program(name: str, run: Run, env: JaxEnv, size: Size, config: impala.Config) -> Solo:
    return Solo(name, run, Anakin, impala.make(config, env.spec), env, dataclasses.asdict(size))


if __name__ == "__main__":
    main(catch, grid_world, cartpole, minatar)
