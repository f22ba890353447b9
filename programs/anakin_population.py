"""Many IMPALA learners at once in one compiled program, which differ in seed and hyper-parameters.

./run python programs/anakin_population.py catch --vary optimiser.learning_rate=1e-4,1e-3 entropy_cost=0,0.01 --seeds 4
./run python -m boonta.programs.tools.members --workdir runs/anakin_population_catch
"""

from __future__ import annotations

import dataclasses
import functools

from boonta.agents import impala
from boonta.envs.jax.base import JaxEnv
from boonta.envs.jax.catch import Catch
from boonta.envs.jax.gymnax import Gymnax
from boonta.nodes.population import Population
from boonta.programs.wiring.fields import numbers_by_field
from boonta.programs.wiring.run import OwnFlags, Run
from boonta.programs.wiring.solo import Size, SizeFlags, Solo, main

SMALL = Size(eval_every=250)


def catch(
    run: OwnFlags,
    vary: tuple[str, ...] = ("optimiser.learning_rate=1e-4,3e-4,1e-3,3e-3,1e-2,3e-2,1e-1,3e-1",),
    seeds: int = 8,
    size: SizeFlags = SMALL,
    config: impala.Config = impala.CATCH,
) -> Solo:
    """Catch, 64 learners: 8 learning rates, 8 seeds of each.

    Args:
      run: where and how long.
      vary: fields of the config that differ, as FIELD=NUMBER,NUMBER,…; members take all combinations.
      seeds: of each combination.
      size: of each member.
      config: what members share.
    """
    return _program("anakin_population_catch", run, Catch(), vary, seeds, size, config)


def cartpole(
    run: OwnFlags,
    vary: tuple[str, ...] = ("optimiser.learning_rate=3e-4,1e-3,3e-3,1e-2", "discount=0.95,0.99"),
    seeds: int = 2,
    size: SizeFlags = SMALL,
    config: impala.Config = impala.CARTPOLE,
) -> Solo:
    """CartPole, 16 learners; the flags are those of `catch`."""
    return _program("anakin_population_cartpole", run, Gymnax("CartPole-v1"), vary, seeds, size, config)


def _program(
    name: str, run: Run, env: JaxEnv, vary: tuple[str, ...], seeds: int, size: Size, config: impala.Config
) -> Solo:
    make = functools.partial(impala.make, spec=env.spec)
    numbers = numbers_by_field(config, vary, "vary")
    members = {"make": make, "config": config, "vary": numbers, "seeds": seeds}
    return Solo(name, run, Population, make(config), env, {**dataclasses.asdict(size), **members})


if __name__ == "__main__":
    main(catch, cartpole)
