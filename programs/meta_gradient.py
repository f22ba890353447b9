"""IMPALA learners that learn their own hyper-parameters by meta-gradient, many at once in one compiled program.

./run python programs/meta_gradient.py --learn discount=0.5
./run python programs/meta_gradient.py gymnax/CartPole-v1 --learn discount=0.8 entropy_cost=0.1 --seeds 16
"""

from __future__ import annotations

from typing import Any

from boonta.agents.base import Agent
from boonta.agents.impala import Config, make
from boonta.agents.meta import meta_gradient as learn_meta
from boonta.envs.base import Env
from boonta.envs.jax.gymnax import Gymnax
from boonta.nodes.population import Population
from boonta.programs.wiring.command_line.fields import numbers_by_field
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.launch import Program, Run, RunFlags, group, main
from boonta.programs.wiring.run import BadInput


def meta_gradient(
    run: RunFlags = Run(launch="anakin"),  # noqa: B008
    *,
    config: Config,
    evaluation: Evaluation,
    env: Env = Gymnax("CartPole-v1"),  # noqa: B008
    learn: tuple[str, ...] = ("discount=0.5",),
    meta_learning_rate: float = 1e-2,
    seeds: int = 8,
    num_envs: int | None = None,
) -> Program:
    """Each learner has environments and a discount of its own, which it raises as it learns.

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters.
      evaluation: how, and how often, params are evaluated.
      env: an environment in JAX, or one with a twin in JAX.
      learn: fields of the config to learn, with initial values, as FIELD=NUMBER; the config's own values judge the
        result.
      meta_learning_rate: the learning rate of these fields.
      seeds: number of learners.
      num_envs: environments per learner; default: as many as make one batch.
    """
    starts = numbers_by_field(config, learn, "learn")
    for field, values in starts.items():
        if len(values) != 1:
            raise BadInput(f"--learn {field} starts at {values}; it must be one number")
    start = {field: values[0] for field, values in starts.items()}

    def member(config: Config) -> Agent:
        return learn_meta(lambda config: make(config, env.spec), config, start, meta_learning_rate)

    settings: dict[str, Any] = {"config": config, "vary": {}, "evaluation": evaluation}
    settings |= {"seeds": seeds, "num_envs": num_envs}
    return Program("meta_gradient", run, member(config), env, [group(Population, make=member, **settings)])


if __name__ == "__main__":
    main(meta_gradient)
