"""MuZero, environment, search and update in one compiled program: `./run python programs/anakin_muzero.py catch`."""

from __future__ import annotations

import dataclasses

from agents import muzero
from envs.jax.catch import Catch
from envs.jax.gymnax import Gymnax
from envs.jax.pgx import Pgx
from nodes.anakin import Anakin
from programs.run import OwnFlags
from programs.solo import Size, SizeFlags, Solo, main

SMALL, MIDDLE = Size(eval_every=200), Size(eval_every=1_000)
UNSEEN = Size(eval_every=0)  # games of two have no return to evaluate: programs.match plays runs against each other


def catch(run: OwnFlags, size: SizeFlags = SMALL, config: muzero.Config = muzero.CATCH) -> Solo:
    """Catch, with the settings of the cluster's program."""
    env = Catch()
    return Solo("anakin_muzero_catch", run, Anakin, muzero.make(config, env.spec), env, dataclasses.asdict(size))


def cartpole(run: OwnFlags, size: SizeFlags = MIDDLE, config: muzero.Config = muzero.CARTPOLE) -> Solo:
    """CartPole-v1 of gymnax, with the settings of the cluster's program."""
    env = Gymnax("CartPole-v1")
    return Solo("anakin_muzero_cartpole", run, Anakin, muzero.make(config, env.spec), env, dataclasses.asdict(size))


def board(
    run: OwnFlags, game: str = "connect_four", size: SizeFlags = UNSEEN, config: muzero.Config = muzero.CONNECT_FOUR
) -> Solo:
    """A game of two by its name in pgx, which MuZero plays against itself; compare runs by programs.match."""
    env = Pgx(game)
    return Solo(
        f"anakin_muzero_board-{game}", run, Anakin, muzero.make(config, env.spec), env, dataclasses.asdict(size)
    )


if __name__ == "__main__":
    main(catch, cartpole, board)
