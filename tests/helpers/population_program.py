"""A program of one population, for tests of its folder."""

from __future__ import annotations

from boonta.nodes.population import Population
from boonta.nodes.watch.evaluation import Evaluation
from boonta.programs.wiring.launch import Program, RunFlags, group
from boonta.tests.helpers.fused import ENV
from boonta.tests.helpers.members import Config, make


def population_program(run: RunFlags) -> Program:
    """Two learning rates, two seeds each.

    Args:
      run: the run's settings.
    """
    settings = {"make": make, "config": Config(), "vary": {"learning_rate": [0.1, 0.5]}, "seeds": 2}
    settings |= {"evaluation": Evaluation(4, every_updates=10)}
    return Program("population", run, make(Config()), ENV, [group(Population, **settings)])
