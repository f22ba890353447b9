"""MuZero, environment, search and update in one compiled program: `./run python programs/anakin_muzero.py catch`."""

from __future__ import annotations

import dataclasses

from boonta.agents import muzero
from boonta.envs.jax.base import JaxEnv
from boonta.envs.jax.catch import Catch
from boonta.envs.jax.gymnax import Gymnax
from boonta.envs.jax.minatar import MinAtar
from boonta.envs.jax.pgx import Pgx
from boonta.nodes.anakin import Anakin
from boonta.programs.wiring.run import OwnFlags, Run
from boonta.programs.wiring.solo import Size, SizeFlags, Solo, main

SMALL, MIDDLE, LARGE = Size(eval_every=200), Size(eval_every=1_000), Size(eval_every=5_000)
UNSEEN = Size(eval_every=0)  # games of two have no return to evaluate; see programs.tools.match


def catch(run: OwnFlags, size: SizeFlags = SMALL, config: muzero.Config = muzero.CATCH) -> Solo:
    """Catch, with the settings of the cluster's program."""
    return _program("anakin_muzero_catch", run, Catch(), size, config)


def cartpole(run: OwnFlags, size: SizeFlags = MIDDLE, config: muzero.Config = muzero.CARTPOLE) -> Solo:
    """CartPole-v1 of gymnax, with the settings of the cluster's program."""
    return _program("anakin_muzero_cartpole", run, Gymnax("CartPole-v1"), size, config)


def minatar(
    run: OwnFlags, game: str = "breakout", size: SizeFlags = LARGE, config: muzero.Config = muzero.MINATAR
) -> Solo:
    """A game of MinAtar, by pgx, with the settings of the cluster's program."""
    return _program(f"anakin_muzero_minatar-{game}", run, MinAtar(game, minimal_actions=True), size, config)


def board(
    run: OwnFlags, game: str = "connect_four", size: SizeFlags = UNSEEN, config: muzero.Config = muzero.CONNECT_FOUR
) -> Solo:
    """A game of two by its name in pgx, which MuZero plays against itself; compare runs by programs.tools.match."""
    return _program(f"anakin_muzero_board-{game}", run, Pgx(game), size, config)


def _program(name: str, run: Run, env: JaxEnv, size: Size, config: muzero.Config) -> Solo:
    return Solo(name, run, Anakin, muzero.make(config, env.spec), env, dataclasses.asdict(size))


if __name__ == "__main__":
    main(catch, cartpole, minatar, board)
