"""A program with groups that may use an accelerator, and groups that may not, on a machine that is made up."""

from __future__ import annotations

import pathlib
from typing import Any

from boonta.agents.base import Agent
from boonta.nodes.monitor import Monitor
from boonta.programs.wiring.launch import Program, RunFlags, group, main
from boonta.programs.wiring.machine import accelerators
from boonta.tests.helpers.light_program import Actor, Board, Counter, Learner


class Evaluator(Counter):
    """Takes the place of one that evaluates."""

    role = "evaluator"


class Reanalyzer(Counter):
    """Takes the place of one that reanalyzes."""

    role = "reanalyzer"


class Inference(Board):
    """Takes the place of one that acts for actors."""

    role = "inference"


def roles_program(run: RunFlags, machine: str = "/", evaluators: int = 1) -> Program:
    """Counters.

    Args:
      run: the run's settings.
      machine: the folder with the files by which Linux shows accelerators.
      evaluators: number of evaluators.
    """
    accelerators.ROOT = pathlib.Path(machine)
    nothing: Any = None
    agent = Agent(nothing, nothing, nothing, ())
    nodes = (Board, Learner, Inference, Actor, Reanalyzer)
    groups = [group(Monitor, log_every_s=0.5), *map(group, nodes), group(Evaluator, evaluators)]
    return Program("roles_program", run, agent, nothing, groups)


if __name__ == "__main__":
    main(roles_program)
