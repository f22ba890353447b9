"""IMPALA learners that learn their own hyper-parameters by meta-gradient, many at once in one compiled program.

./run python programs/anakin_meta.py --learn discount=0.5
./run python programs/anakin_meta.py --learn discount=0.8 entropy_cost=0.1 --seeds 16
"""

from __future__ import annotations

import dataclasses

from boonta.agents import impala
from boonta.agents.base import Agent
from boonta.agents.meta import meta_gradient
from boonta.envs.jax.gymnax import Gymnax
from boonta.nodes.population import Population
from boonta.programs.anakin_impala import MIDDLE
from boonta.programs.wiring.fields import numbers_by_field
from boonta.programs.wiring.run import BadInput, OwnFlags
from boonta.programs.wiring.solo import SizeFlags, Solo, main


def anakin_meta(
    run: OwnFlags,
    learn: tuple[str, ...] = ("discount=0.5",),
    meta_learning_rate: float = 1e-2,
    seeds: int = 8,
    size: SizeFlags = MIDDLE,
    config: impala.Config = impala.CARTPOLE,
) -> Solo:
    """CartPole, 8 learners, each with environments and a discount of its own, which it raises as it learns.

    Args:
      run: where and how long.
      learn: fields of the config, as FIELD=NUMBER to start from; the config's own values judge the result.
      meta_learning_rate: with which they are learned.
      seeds: learners.
      size: of each learner.
      config: hyper-parameters.
    """
    env = Gymnax("CartPole-v1")
    starts = numbers_by_field(config, learn, "learn")
    for field, values in starts.items():
        if len(values) != 1:
            raise BadInput(f"--learn {field} starts at {values}; it must be one number")
    start = {field: values[0] for field, values in starts.items()}

    def make(config: impala.Config) -> Agent:
        return meta_gradient(lambda config: impala.make(config, env.spec), config, start, meta_learning_rate)

    settings = {"make": make, "config": config, "vary": {}, "seeds": seeds, **dataclasses.asdict(size)}
    return Solo("anakin_meta", run, Population, make(config), env, settings)


if __name__ == "__main__":
    main(anakin_meta)
