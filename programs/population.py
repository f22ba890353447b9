"""Many IMPALA learners at once in one compiled program, which differ in seed and hyper-parameters.

./run python programs/population.py catch --vary optimiser.learning_rate=1e-4,1e-3,1e-2 entropy_cost=0,0.01 --seeds 4
./run boonta compare runs/population-catch
"""

from __future__ import annotations

import functools
from typing import Any

from boonta.agents.impala import Config, make
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.nodes.population import Population
from boonta.programs.wiring.command_line.fields import numbers_by_field
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.launch import Program, Run, RunFlags, group, main


def population(
    run: RunFlags = Run(launch="anakin"),  # noqa: B008
    *,
    config: Config,
    evaluation: Evaluation,
    env: Env = Catch(),  # noqa: B008
    vary: tuple[str, ...] = ("optimiser.learning_rate=1e-4,3e-4,1e-3,3e-3,1e-2,3e-2,1e-1,3e-1",),
    seeds: int = 8,
    num_envs: int | None = None,
) -> Program:
    """Trains a learner for every combination of hyper-parameters and seeds: 64 by default.

    Args:
      run: the run's settings.
      config: hyper-parameters that all members share.
      evaluation: how, and how often, params are evaluated.
      env: an environment in JAX, or one with a twin in JAX.
      vary: fields of the config that differ, as FIELD=NUMBER,NUMBER,…; members take all combinations.
      seeds: number of seeds of each combination.
      num_envs: environments per member; default: as many as make one batch.
    """
    members = functools.partial(make, spec=env.spec)
    settings: dict[str, Any] = {"config": config, "vary": numbers_by_field(config, vary, "vary"), "seeds": seeds}
    settings |= {"evaluation": evaluation, "num_envs": num_envs}
    return Program("population", run, make(config, env.spec), env, [group(Population, make=members, **settings)])


if __name__ == "__main__":
    main(population)
