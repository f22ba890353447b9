"""A sweep on a cluster: its file, in the place of a program's, becomes a Slurm array or a JobSet of one-run pods."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from boonta.programs.experiments import plan, spec, values
from boonta.programs.experiments.outcome import is_done
from boonta.programs.experiments.plan import Job, Sweep
from boonta.programs.experiments.spec import Spec
from boonta.programs.experiments.values import Value
from boonta.programs.wiring.run import BadInput


class Planned(NamedTuple):
    """A sweep that is to run elsewhere.

    Attributes:
      spec: what it runs.
      folder: its folder, on the machines that run it.
      jobs: all of its jobs; a job is a run, or a population of several.
    """

    spec: Spec
    folder: pathlib.Path
    jobs: list[Job]


def is_sweep(file: pathlib.Path) -> bool:
    """Whether a file is a sweep's."""
    return file.suffix in spec.SUFFIXES


def planned(
    file: pathlib.Path, flags: Mapping[str, Value], folder: pathlib.Path, before: Sweep | None = None
) -> Planned:
    """Plans a sweep.

    Args:
      file: the sweep's file.
      flags: further flags of all runs.
      folder: the sweep's folder, on the machines that run it.
      before: the plan of an earlier start, where the folder can be seen from here.

    Raises:
      BadInput: a run can't work, or a way to run isn't one for a cluster.
    """
    found = spec.read(file)
    if found.sample is not None:
        raise BadInput(
            f"{file} has sample, whose trials follow from each other: run it on one machine, by boonta sweep"
        )
    found = dataclasses.replace(found, flags=values.joined(found.flags, flags))
    return Planned(found, folder, plan.plan(found, spec.entries(found), folder, before, elsewhere=True))


def planned_here(file: pathlib.Path, flags: Sequence[str]) -> tuple[Planned, list[int]]:
    """Plans a sweep whose folder may be seen from here: it goes on with the plan there, and writes its own to it.

    Args:
      file: the sweep's file.
      flags: further flags of all runs, as words, and the sweep's --workdir.

    Returns:
      The sweep, and the numbers of the jobs that are not done yet.

    Raises:
      BadInput: as `planned`; or all runs are done.
    """
    given = values.flags_of(flags)
    folder = pathlib.Path(str(given.pop("workdir")))
    before = plan.read(folder)
    sweep = planned(file, given, folder, before)
    left = [i for i, job in enumerate(sweep.jobs) if not is_done(folder / job.name, job)]
    if not left:
        raise BadInput(f"all runs of {file} are done, in {folder}")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        plan.write(folder, ["boonta.deploy", str(file), "--", *flags], sweep.spec, sweep.jobs, before)
    except OSError as error:
        print(f"warning: {folder / plan.FILE} can't be written from here: {error}", file=sys.stderr)
    return sweep, left
