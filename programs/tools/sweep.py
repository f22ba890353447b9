"""Runs a sweep: many runs of programs, several at once, from a short file or from the command line.

./run boonta sweep sweep.yaml
./run boonta sweep programs/impala.py --env catch --seeds 5 -- --launch anakin --stop.updates 500

Given again, it goes on: what is done stays done. programs/experiments/README.md has the file's format.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import tyro

from boonta.programs.experiments import plan, spec, values
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.progress import Progress, failures, line, summary
from boonta.programs.experiments.scheduler import DONE, Scheduler
from boonta.programs.experiments.slots import Slot, Slots, divide, require_sound, this_machine
from boonta.programs.experiments.spec import Spec
from boonta.programs.wiring.command_line.arguments import split_flags
from boonta.programs.wiring.command_line.faults import refusing
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import naming
from boonta.programs.wiring.run_folder.folder import lock


@dataclasses.dataclass(frozen=True)
class Asked:
    """Runs a sweep: many runs of programs, several at once. Flags for all runs follow `--`. Given again, it goes on.

    Attributes:
      what: the sweep's file (.yaml), or a program: its file (.py), or the name of one of ours. What is given
        beside a sweep's file takes the place of what it has, and flags are added to its own.
      workdir: the sweep's folder, with a run's folder for each run in it; default: runs/ and the file's name.
      env: the environment's name, or several.
      seeds: how many seeds, counted from 0, or a list such as [3,7].
      grid: flags that differ, as FLAG=VALUE,VALUE,…; all combinations are run.
      slots: how many runs at once, and what each gets of the machine.
      retries: how often a run that fails is started again.
      populations: whether runs of fused programs become members of populations where they can.
      members: the most members of a population.
      show: only check the sweep and show how it stands.
    """

    what: tyro.conf.Positional[pathlib.Path]
    workdir: pathlib.Path | None = None
    env: tuple[str, ...] = ()
    seeds: str = ""
    grid: tuple[str, ...] = ()
    slots: Slots = Slots()
    retries: int | None = None
    populations: bool | None = None
    members: int | None = None
    show: bool = False


def sweep(workdir: pathlib.Path, given: Spec, command: Sequence[str], show: bool = False) -> int:
    """Runs a sweep to its end, or goes on with one that was stopped.

    Args:
      workdir: its folder.
      given: what it runs.
      command: the command line that starts it, for the record.
      show: only check it and show how it stands.

    Returns:
      The exit code: 0 if all runs are done, 1 if some have failed, 130 or 143 after Ctrl-C or SIGTERM.

    Raises:
      BadInput: a run can't work, or the machine has no room for the slots; nothing has been started.
    """
    folder = workdir.expanduser().absolute()
    slots = _looked_at(given.slots) if show else divide(given.slots, this_machine())
    if given.sample is not None:
        if show:
            raise BadInput("--show is for a sweep without sample; sweep.json in its folder has the trials so far")
        from boonta.programs.experiments.sampler import Sampler

        source: Any = Sampler(given, folder, command)
        jobs: list[Job] = []
    else:
        before = plan.read(folder)
        source, jobs = None, plan.plan(given, spec.entries(given), folder, before)
    if show:
        states = Scheduler(folder, jobs, slots, given.retries).states
        print("\n".join([*(line(folder, state) for state in states), summary(states)]))
        return 0
    with lock(folder), Progress(folder) as progress:
        if source is None:
            plan.write(folder, command, given, jobs, before)
        else:
            source.begin()
        scheduler = Scheduler(folder, jobs, slots, given.retries, progress.show, source)
        if any(state.stage == DONE for state in scheduler.states):
            print(f"the sweep in {workdir} goes on: {summary(scheduler.states)}", flush=True)
        code = scheduler.run()
    print("\n".join([*failures(folder, scheduler.states), summary(scheduler.states)]), flush=True)
    return code


def _looked_at(slots: Slots) -> list[Slot]:
    """The slots of a sweep that isn't run here; it may be a cluster's, so that a lack of room is only worth a warning.

    Raises:
      BadInput: no machine has such slots.
    """
    require_sound(slots)
    try:
        return divide(slots, this_machine())
    except BadInput as error:
        print(f"warning: this machine can't run the sweep: {error}", file=sys.stderr, flush=True)
        return []


def spec_of(asked: Asked, flags: Sequence[str]) -> Spec:
    """What a command line asks for.

    Args:
      asked: its own part.
      flags: the words after `--`.

    Raises:
      BadInput: it isn't a sweep.
    """
    if asked.what.suffix in spec.SUFFIXES:
        found = spec.read(asked.what)
    else:
        found = spec.made({"program": str(asked.what)}, "the command line")
    changes: dict[str, Any] = {
        "flags": values.joined(found.flags, values.flags_of(flags)),
        "grid": values.joined(found.grid, dict(map(_axis, asked.grid))),
    }
    if asked.env:
        changes["env"] = list(asked.env)
    if asked.seeds:
        changes["seeds"] = _seeds(asked.seeds)
    for name in ("retries", "populations", "members"):
        if getattr(asked, name) is not None:
            changes[name] = getattr(asked, name)
    slots = {name: value for name, value in dataclasses.asdict(asked.slots).items() if value is not None}
    changes["slots"] = {**dataclasses.asdict(found.slots), **slots}
    return spec.made({**dataclasses.asdict(found), **changes}, str(asked.what))


def _seeds(text: str) -> Any:
    """A number or a list of them; what is neither stays a text, which `spec.made` refuses."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _axis(text: str) -> tuple[str, list[Any]]:
    """A flag and its values, from FLAG=VALUE,VALUE,…"""
    flag, equals, listed = text.partition("=")
    if not equals or not listed:
        raise BadInput(f"--grid {text!r} is not FLAG=VALUE,VALUE,…")
    return flag, [values.parsed(value) for value in listed.split(",")]


def folder_of(asked: Asked, given: Spec) -> pathlib.Path:
    """The sweep's folder."""
    if asked.workdir is not None:
        return asked.workdir
    parts = [asked.what.stem] if asked.what.suffix in spec.SUFFIXES else ["sweep", asked.what.stem, *given.envs]
    return pathlib.Path("runs") / "-".join(naming.slug(part) for part in parts if part)


def main() -> None:
    """The command line of `sweep`."""
    own, flags = split_flags(sys.argv[1:])
    asked = tyro.cli(Asked, args=own, prog="boonta sweep")
    with refusing(OSError):
        given = spec_of(asked, flags)
        sys.exit(sweep(folder_of(asked, given), given, ["boonta", "sweep", *sys.argv[1:]], asked.show))
