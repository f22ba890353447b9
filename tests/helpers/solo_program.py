"""A whole program of one process in small: the tests' tiny agent on Catch."""

from __future__ import annotations

from boonta.envs.jax.catch import Catch
from boonta.nodes.anakin import Anakin
from boonta.programs.wiring.run import OwnFlags
from boonta.programs.wiring.solo import Solo, main
from boonta.tests.helpers import tiny


def solo_program(run: OwnFlags, width: int = 8, num_envs: int = 8, devices: int | None = None) -> Solo:
    """The smallest.

    Args:
      run: where and how long.
      width: batch size.
      num_envs: environments.
      devices: to use.
    """
    env = Catch()
    settings = {"num_envs": num_envs, "devices": devices, "eval_every": 20}
    return Solo("solo_program", run, Anakin, tiny.make(env.spec, batch_size=width), env, settings)


if __name__ == "__main__":
    main(solo_program)
