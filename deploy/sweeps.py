"""A sweep on a cluster: its file, in the place of a program's, becomes a Slurm array or a JobSet of one-run pods."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from boonta.programs.experiments import plan, spec, values
from boonta.programs.experiments.outcome import is_done
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.spec import Spec
from boonta.programs.wiring.run import BadInput


class Planned(NamedTuple):
    """A sweep that is to run elsewhere.

    Attributes:
      spec: what it runs.
      folder: its folder, on the machines that run it.
      jobs: all of its jobs; a job is a run, or a population of several.
      left: the numbers of those that are not done yet, as far as the folder can be seen here.
    """

    spec: Spec
    folder: pathlib.Path
    jobs: list[Job]
    left: list[int]


def is_sweep(file: pathlib.Path) -> bool:
    """Whether a file is a sweep's."""
    return file.suffix in spec.SUFFIXES


def planned(file: pathlib.Path, flags: Sequence[str], workdir: str = "") -> Planned:
    """Plans a sweep, and writes sweep.json into its folder where that can be reached from here.

    Args:
      file: the sweep's file.
      flags: further flags of all runs, and the sweep's --workdir.
      workdir: the sweep's folder, if no flag may give it.

    Raises:
      BadInput: a run can't work, or a way to run isn't one for a cluster.
    """
    given = values.flags_of(flags)
    if workdir and "workdir" in given:
        raise BadInput("--workdir is the pods' own folder, on their volume: leave it out")
    folder = pathlib.Path(str(given.pop("workdir", workdir)))
    found = spec.read(file)
    if found.sample is not None:
        raise BadInput(
            f"{file} has sample, whose trials follow from each other: run it on one machine, by boonta sweep"
        )
    found = dataclasses.replace(found, flags={**found.flags, **given})
    before = None if workdir else plan.read(folder)
    jobs = plan.plan(found, spec.entries(found), folder, before, elsewhere=True)
    left = [i for i, job in enumerate(jobs) if workdir or not is_done(folder / job.name, job)]
    if not left:
        raise BadInput(f"all runs of {file} are done, in {folder}")
    if not workdir:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            plan.write(folder, ["boonta.deploy", str(file), "--", *flags], found, jobs)
        except OSError as error:
            print(f"warning: {folder / plan.FILE} can't be written from here: {error}", file=sys.stderr)
    return Planned(found, folder, jobs, left)
