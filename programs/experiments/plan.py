"""A sweep's plan: the job and the folder of each run, kept in sweep.json, so that another start goes on with them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pydantic

from boonta.nodes.snapshots import files, schema
from boonta.nodes.snapshots.store import has_snapshots
from boonta.programs.experiments import values
from boonta.programs.experiments.check import Member, check
from boonta.programs.experiments.spec import Entry, Spec
from boonta.programs.experiments.values import Value
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder import naming
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.programs.wiring.run_folder.provenance import from_root

FILE = schema.SWEEP
REMEDY = (
    "Delete it, and start the sweep by its command again: each run has a folder of its own, and goes on from there; "
    "so does a population, unless the sweep has grown since that began"
)
FUSED = str(pathlib.Path(__file__).parent / "together" / "fused.py")  # The program of a population.
SHOWN = 5  # Limit of the errors in a message.
RUN_FLAGS = {values.normal(field.name) for field in dataclasses.fields(Run)}


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of one process: a run, or several runs as the members of a population.

    Attributes:
      name: the name of its folder, in the sweep's.
      runs: the runs that it stands for.
      members: for each its seed, and its values of the config's fields that differ; empty for a single run.
    """

    name: str
    runs: tuple[Entry, ...]
    members: tuple[Member, ...] = ()

    @property
    def file(self) -> str:
        """The program file that is run."""
        return FUSED if self.members else self.runs[0].program

    @property
    def arguments(self) -> list[str]:
        """The words of the command line after the file, without the folder."""
        first = self.runs[0]
        if not self.members:
            return first.arguments
        of_run = {flag: value for flag, value in first.flags.items() if _is_of_run(flag)}
        return [*values.words({**self.population, **of_run}), "--seed", str(first.seed)]

    @property
    def population(self) -> dict[str, str]:
        """The settings of `together.fused`, as its flags and its config.json have them."""
        first = self.runs[0]
        others = {flag: value for flag, value in first.flags.items() if not _is_of_run(flag)}
        return {
            "program": str(from_root(pathlib.Path(first.program))),
            "arguments": json.dumps([*([first.env] if first.env else []), *values.words(others)]),
            "members": json.dumps(self.members),
        }

    def command(self, folder: pathlib.Path) -> list[str]:
        """The command line, without the interpreter.

        Args:
          folder: the folder of the run, or of the population.
        """
        return [self.file, *self.arguments, "--workdir", str(folder)]


def _is_of_run(flag: str) -> bool:
    """Whether a flag is one that every run has."""
    return flag.partition(".")[0] in RUN_FLAGS


@dataclasses.dataclass(frozen=True)
class Record:
    """A run in sweep.json.

    Attributes:
      name: its name.
      folder: its folder's name, in the sweep's; those of the members of a population share one.
      member: its number in that population, as members.jsonl has it; None for a run with a folder of its own.
      program, env, seed, flags, differs: see `Entry`.
    """

    name: str
    folder: str
    member: int | None
    program: str
    env: str
    seed: int
    flags: dict[str, Value]
    differs: dict[str, Value]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """The content of sweep.json.

    Attributes:
      command: the command line that started the sweep last.
      spec: what it runs, see `spec.Spec`.
      runs: its runs.
    """

    command: list[str]
    spec: dict[str, Any]
    runs: list[Record]


_SWEEP = pydantic.TypeAdapter(Sweep)


def read(folder: pathlib.Path) -> Sweep | None:
    """The sweep that a folder holds; None if it holds none.

    Raises:
      BadInput: its file can't be read, or is damaged.
    """
    try:
        return schema.load(_SWEEP, schema.read(folder / FILE))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        remedy = "" if isinstance(error, OSError) else f". {REMEDY}"
        raise BadInput(f"{folder / FILE} can't be read, or is damaged: {error}{remedy}") from error


def write(
    folder: pathlib.Path, command: Sequence[str], spec: Spec, jobs: Sequence[Job], before: Sweep | None = None
) -> None:
    """Writes sweep.json, whole or not at all.

    Args:
      folder: the sweep's folder.
      command: the command line that starts the sweep.
      spec: what it runs.
      jobs: its jobs.
      before: the plan of an earlier start. Its runs that have begun, and aren't asked for now, stay: they go on
        together if they are again.
    """
    runs = [
        Record(entry.name, job.name, i if job.members else None, *dataclasses.astuple(entry)[1:])
        for job in jobs
        for i, entry in enumerate(job.runs)
    ]
    asked = {record.name for record in runs}
    runs += [record for record in _begun(before, folder) if record.name not in asked]
    content = dataclasses.asdict(Sweep(list(command), dataclasses.asdict(spec), runs))
    files.write_json(folder / FILE, content)


def plan(
    spec: Spec, entries: Sequence[Entry], folder: pathlib.Path, before: Sweep | None = None, elsewhere: bool = False
) -> list[Job]:
    """Checks all runs, and groups those that can be members of one population.

    Runs that have begun together stay together, so that another start of the sweep goes on with them.

    Args:
      spec: what the sweep runs.
      entries: its runs.
      folder: its folder.
      before: the plan of an earlier start.
      elsewhere: whether the runs are for other machines, which may have packages that this one lacks.

    Returns:
      The jobs, those of the sweep's first runs first.

    Raises:
      BadInput: the sweep's folder is a run's; a run can't work, or its folder holds a run with other settings; or only
        some of the runs that have begun together are asked for; the message names the first ones.
    """
    _require_no_run(folder)
    begun = _together(before, folder)
    jobs: list[Job] = []
    errors: dict[str, str] = {}
    for file in dict.fromkeys(entry.program for entry in entries):
        ours = [entry for entry in entries if entry.program == file]
        number = {entry.name: i for i, entry in enumerate(ours)}
        _require_whole(begun, number)
        kept = [[number[name] for name in names] for names in begun if set(names) <= set(number) and len(names) > 1]
        held = [number[name] for (name, *others) in begun if not others and name in number]
        commands = [[*entry.arguments, "--workdir", str(folder / entry.name)] for entry in ours]
        answer = check(file, commands, spec.members if spec.populations else 0, kept, held, elsewhere)
        errors |= {ours[i].name: message for i, message in answer.errors.items()}
        jobs += [_job([ours[i] for i in each.runs], each.members) for each in answer.jobs]
    _raise(errors)
    for job in jobs:
        _require_same_members(job, folder)
    order = {entry.name: i for i, entry in enumerate(entries)}
    return sorted(jobs, key=lambda job: order[job.runs[0].name])


def _require_no_run(folder: pathlib.Path) -> None:
    """Raises BadInput if the sweep's folder is that of a run, among whose files its runs would lie."""
    if not (folder / FILE).exists() and ((folder / schema.CONFIG).exists() or has_snapshots(folder)):
        raise BadInput(f"--workdir {folder} is the folder of a run: choose another one for the sweep")


def _require_whole(begun: Sequence[Sequence[str]], asked: Collection[str]) -> None:
    """Raises BadInput if only some of the runs that have begun together are asked for: they can't go on apart."""
    for names in begun:
        missing = [name for name in names if name not in asked]
        if missing and len(missing) < len(names):
            raise BadInput(
                f"{len(names)} runs have begun as one population, of which the sweep lacks {', '.join(missing[:SHOWN])}"
                f"{' and others' if missing[SHOWN:] else ''}: ask for all of them, or choose another --workdir"
            )


def _begun(before: Sweep | None, folder: pathlib.Path) -> list[Record]:
    """The runs whose folder exists."""
    runs = before.runs if before else []
    return [record for record in runs if (folder / record.folder / schema.CONFIG).exists()]


def _together(before: Sweep | None, folder: pathlib.Path) -> list[list[str]]:
    """The names of the runs of each job that has begun."""
    together: dict[str, list[str]] = {}
    for record in _begun(before, folder):
        together.setdefault(record.folder, []).append(record.name)
    return list(together.values())


def _job(runs: Sequence[Entry], members: Sequence[Member]) -> Job:
    if not members:
        return Job(runs[0].name, tuple(runs))
    digest = hashlib.sha256("\n".join(entry.name for entry in runs).encode()).hexdigest()[:6]
    first = runs[0]
    name = "-".join(
        filter(None, [pathlib.Path(first.program).stem, naming.slug(first.env), f"{len(runs)}runs", digest])
    )
    return Job(name, tuple(runs), tuple(members))


def _raise(errors: Mapping[str, str]) -> None:
    """Raises BadInput with each error once, and the runs that it concerns."""
    concerned: dict[str, list[str]] = {}
    for name, message in errors.items():
        concerned.setdefault(message.replace(name, "…"), []).append(name)
    lines = [
        f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {errors[names[0]]}"
        for names in list(concerned.values())[:SHOWN]
    ]
    if lines:
        more = f"\nand {len(concerned) - SHOWN} more" if len(concerned) > SHOWN else ""
        raise BadInput("runs of the sweep can't work:\n" + "\n".join(lines) + more)


def _require_same_members(job: Job, folder: pathlib.Path) -> None:
    """Raises BadInput if a population's folder holds one with other settings."""
    path = folder / job.name
    if not job.members or not (path / schema.CONFIG).exists():
        return
    old = read_config(path).settings
    changed = {name: value for name, value in job.population.items() if old.get(name) != value}
    if changed:
        listed = "; ".join(f"{name} was {old.get(name)}, is {value}" for name, value in changed.items())
        raise BadInput(f"{path} holds a population with other settings: {listed}. Choose another --workdir")
