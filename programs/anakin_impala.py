"""IMPALA, environment, policy and update in one compiled program: `./run python programs/anakin_impala.py catch`."""

from __future__ import annotations

from agents import impala
from envs.jax.base import JaxEnv
from envs.jax.catch import Catch
from nodes.anakin import Anakin
from programs.run import OwnFlags, Run
from programs.solo import Solo, main

CATCH = impala.CATCH


def catch(
    run: OwnFlags, num_envs: int | None = None, devices: int | None = None, config: impala.Config = CATCH
) -> Solo:
    """Catch: learned in a second, after compiling.

    Args:
      run: where and how long.
      num_envs: environments; none for the config's batch size, or a multiple of it, learned from in as many updates.
      devices: to spread them over; none for all.
      config: the agent's hyper-parameters.
    """
    return _program("anakin_impala_catch", run, Catch(), config, num_envs, devices, eval_every=250)


def _program(
    name: str,
    run: Run,
    env: JaxEnv,
    config: impala.Config,
    num_envs: int | None,
    devices: int | None,
    eval_every: int,
) -> Solo:
    settings = {"num_envs": num_envs, "devices": devices, "eval_every": eval_every}
    return Solo(name, run, Anakin, impala.make(config, env.spec), env, settings)


if __name__ == "__main__":
    main(catch)
