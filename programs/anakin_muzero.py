"""MuZero, environment, search and update in one compiled program: `./run python programs/anakin_muzero.py catch`."""

from __future__ import annotations

import dataclasses

from agents import muzero
from envs.jax.catch import Catch
from envs.jax.gymnax import Gymnax
from nodes.anakin import Anakin
from programs.run import OwnFlags
from programs.solo import Size, SizeFlags, Solo, main

SMALL, MIDDLE = Size(eval_every=200), Size(eval_every=1_000)


def catch(run: OwnFlags, size: SizeFlags = SMALL, config: muzero.Config = muzero.CATCH) -> Solo:
    """Catch, with the settings of the cluster's program."""
    env = Catch()
    return Solo("anakin_muzero_catch", run, Anakin, muzero.make(config, env.spec), env, dataclasses.asdict(size))


def cartpole(run: OwnFlags, size: SizeFlags = MIDDLE, config: muzero.Config = muzero.CARTPOLE) -> Solo:
    """CartPole-v1 of gymnax, with the settings of the cluster's program."""
    env = Gymnax("CartPole-v1")
    return Solo("anakin_muzero_cartpole", run, Anakin, muzero.make(config, env.spec), env, dataclasses.asdict(size))


if __name__ == "__main__":
    main(catch, cartpole)
