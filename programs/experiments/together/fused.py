"""Several runs of a fused program as one: they become the members of a population. A sweep starts this program."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from boonta.agents.base import Agent
from boonta.nodes.population import Population
from boonta.programs.wiring.command_line.arguments import function_of, parse
from boonta.programs.wiring.interpreters import anakin
from boonta.programs.wiring.launch import Program, Run, RunFlags, group, main
from boonta.programs.wiring.program import ProgramFunction
from boonta.programs.wiring.run_folder.provenance import ROOT, Inner, from_root, source_of
from boonta.programs.wiring.run_folder.recorded import by_flag

CONFIG = "config"  # The argument of program functions with the agent's hyper-parameters.


def fused(run: RunFlags = Run(launch="anakin"), *, program: str, arguments: str, members: str) -> Program:  # noqa: B008
    """A population whose members learn what runs of another program would.

    Args:
      run: the run's settings; each member is stopped by them as a run of its own would be.
      program: the program's file, from the repository or absolute; its function has the file's name.
      arguments: the words of its command line that all members share, without those of the run, in JSON.
      members: for each member an object with its seed, and its values of the config's fields that differ, in JSON.
    """
    file, each = ROOT / program, json.loads(members)
    function = function_of(file)
    _, settings = parse(function, json.loads(arguments))
    inner = Inner(str(from_root(file)), by_flag(settings), tuple(each), source_of(file))
    return dataclasses.replace(population(function, run, settings, each), inner=inner)


def population(
    function: ProgramFunction, run: Run, settings: Mapping[str, Any], members: Sequence[Mapping[str, float]]
) -> Program:
    """The program of a population.

    Args:
      function: makes the program of one.
      run: the run's settings.
      settings: the function's other arguments.
      members: each member's seed, and its values of the config's fields that differ.
    """
    one = function(run=run, **settings)

    def make(config: Any) -> Agent:
        return function(run=run, **{**settings, CONFIG: config}).agent

    steps = run.stop.env_steps  # A population counts the env steps of all its members.
    stop = dataclasses.replace(run.stop, env_steps=steps and steps * len(members))
    together = group(Population, make=make, config=settings[CONFIG], members=members, **anakin.fused(one).settings)
    return dataclasses.replace(one, run=dataclasses.replace(run, stop=stop), groups=[together])


def may_join(program: Program, settings: Mapping[str, Any]) -> bool:
    """Whether a program could be a member of a population, judged without its seed and hyper-parameters.

    Limits of seconds, returns, patience or collapse are each run's own, and members end together. Without evaluations
    there would be no curve for each member.
    """
    run = program.run
    return (
        run.launch == "anakin"
        and dataclasses.is_dataclass(settings.get(CONFIG))
        and program.of_role("anakin") is None
        and run.stop.seconds is None
        and run.stop.eval_return is None
        and run.stop.patience is None
        and not run.stop.on_collapse
        and not run.start_from
        and anakin.fused(program).settings["evaluation"].interval(fused=True)[1] > 0
    )


if __name__ == "__main__":
    main(fused)
