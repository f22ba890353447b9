"""MuZero plays connect four against itself, with a tower that sees where stones fall."""

from __future__ import annotations

from boonta.agents import muzero
from boonta.nodes.services import Program
from boonta.programs.muzero_board import muzero_board
from boonta.programs.wiring.launch import RunFlags, main


def muzero_connect_four(
    run: RunFlags, actors: int = 1, num_envs: int = 32, config: muzero.Config = muzero.CONNECT_FOUR
) -> Program:
    """`muzero_board` with settings that learn this game; `anakin_muzero.py board` learns with the same, and faster.

    Args:
      run: where and how long.
      actors: actor processes.
      num_envs: environments of each actor.
      config: the agent's hyper-parameters.
    """
    return muzero_board(run, "connect_four", actors=actors, num_envs=num_envs, config=config)


if __name__ == "__main__":
    main(muzero_connect_four)
