"""A run again from its folder: its program with the settings of then, and the params that it has learned."""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

import jax

from boonta.agents.base import Agent
from boonta.envs.base import Env
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.snapshots.manifest import Unsound
from boonta.nodes.snapshots.schema import checked
from boonta.nodes.snapshots.store import glance
from boonta.programs.wiring import members
from boonta.programs.wiring.command_line.arguments import parse
from boonta.programs.wiring.command_line.loading import load
from boonta.programs.wiring.program import Program, ProgramFunction
from boonta.programs.wiring.run import BadInput, Run, Which, checkpoints_of, require_there
from boonta.programs.wiring.run_folder.config_file import Config, checkpointed
from boonta.programs.wiring.run_folder.recorded import by_parameter, class_defaults


def agent_and_env(
    workdir: pathlib.Path, which: Which = "newest", member: int | None = None, simulations: int | None = None
) -> tuple[Agent, Env]:
    """The agent and environment of a run, from the program and arguments that it was started with.

    Args:
      workdir: the run's folder.
      which: the checkpoint that is meant; of a population it is one member's, whose hyper-parameters the agent has.
      member: another member of a population; None takes the one that the checkpoint is of.
      simulations: simulations per search of the evaluation policy; None takes as many as in the run's own evaluations.

    Raises:
      BadInput: see `call_of` and `members.require_member`; or the agent doesn't search.
    """
    function, run, settings = call_of(workdir)
    changed = {} if simulations is None else {"eval_simulations": simulations}
    searching = {name: value for name, value in settings.items() if hasattr(value, "eval_simulations")}
    settings |= {name: dataclasses.replace(value, **changed) for name, value in searching.items()}
    program = function(run=run, **settings)
    population = members.population_of(program)
    if member is not None:
        members.require_member(population, workdir, which, member)
    if changed and not searching and not hasattr(getattr(population, "config", None), "eval_simulations"):
        raise BadInput(f"--simulations is {simulations}, but the agent of {workdir} does not search")
    if population is None:
        return program.agent, program.env
    member = members.recorded_member(workdir, which) if member is None else member
    return members.agent_of(population, member, **changed), program.env


def program_of(workdir: pathlib.Path, config: Config | None = None) -> Program:
    """The program of a run, made again from its folder; the arguments and errors are those of `call_of`."""
    function, run, settings = call_of(workdir, config)
    return function(run=run, **settings)


def call_of(workdir: pathlib.Path, config: Config | None = None) -> tuple[ProgramFunction, Run, dict[str, Any]]:
    """A run's program function, and the run and settings that it was called with.

    Args:
      workdir: the run's folder.
      config: the start that is meant; default: the one that made the newest checkpoint.

    Raises:
      BadInput: the folder holds no run, or one that the program's file can no longer make.
    """
    config = config or checkpointed(workdir)
    function = getattr(load(config.program_file), config.function, None)
    if not inspect.isfunction(function):
        raise BadInput(f"{workdir} is of {config.program_file}, which has no function {config.function!r}")
    try:
        run, settings = parse(function, config.arguments)
        hints = inspect.get_annotations(function, eval_str=True)
        return function, run, settings | as_recorded(settings, by_parameter(config.settings, settings), hints)
    except (KeyError, TypeError, ValueError, SystemExit) as error:  # Tyro exits where it can't parse the arguments.
        raise BadInput(f"{workdir} was made with settings that the program no longer has: {error}") from error


def as_recorded(settings: Mapping[str, Any], recorded: dict[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run, from its config.json; the program's defaults may have changed since.

    Fields that were added since are as their class has them, whatever the presets say today.

    Args:
      settings: the program's settings now.
      recorded: those in config.json.
      hints: the settings' types.

    Raises:
      KeyError: the program has no such setting.
      TypeError, ValueError: a setting has another type.
    """
    values = {}
    for name, value in recorded.items():
        now = settings[name]
        if dataclasses.is_dataclass(now) and not isinstance(now, type):
            if not isinstance(value, dict):
                raise TypeError(f"{name} is {value!r}; it must have fields")
            later = {field: usual for field, usual in class_defaults(now).items() if field not in value}
            known = as_recorded(vars(now), value, typing.get_type_hints(type(now)))
            values[name] = dataclasses.replace(now, **later, **known)
        else:  # A user's own environment, which is callable, is made from its name alone.
            values[name] = now if callable(now) else checked(hints[name], value)
    return values


def params_of(agent: Agent, workdir: pathlib.Path, which: Which = "newest", member: int | None = None) -> Any:
    """The acting params of a run's newest sound checkpoint, of the best one, or of one by its number of updates.

    Args:
      agent: the agent, as `agent_and_env` makes it.
      workdir, which: the run's folder, and the checkpoint.
      member: a member of a population; None takes the one that the checkpoint is of.

    Raises:
      BadInput, ValueError: see `restored` and `members.params_of_member`.
    """
    if member is None:
        return restored(agent, workdir, which)[0]
    return members.params_of_member(agent, program_of(workdir), workdir, which, member)


def restored(agent: Agent, workdir: pathlib.Path, which: Which) -> tuple[Any, dict[str, float]]:
    """The acting params of a run's checkpoint, and the program's counters then.

    Raises:
      BadInput: there is none; of a number the message lists those that are there.
      ValueError: none is sound, or it doesn't fit the agent.
    """
    folder = checkpoints_of(workdir, which)
    require_there(folder, which)
    try:
        state, counts = Checkpointer(folder).restore(jax.jit(agent.update.init)(jax.random.PRNGKey(0)))
    except FileNotFoundError:
        why = ", since no evaluation was made: leave --which out" if which == "best" else ""
        raise BadInput(f"{workdir} has no {which} checkpoint yet{why}") from None
    except Unsound as error:
        best, _ = glance(checkpoints_of(workdir, "best"))
        if which != "newest" or best is None:
            raise
        raise Unsound(f"{error}; --which best takes the one with the best evaluation, which is sound") from error
    return agent.update.params(state), counts
