"""Checks the runs of one program file, and finds those that can be members of one population, in a process of its own.

The process imports the program's file: different files may have modules of the same name beside them. `check` starts
the process, which reads a question in JSON from its standard input, and writes the answer to its standard output.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from boonta.nodes.snapshots.schema import flattened
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder.config_file import require_same_run
from boonta.programs.wiring.run_folder.recorded import plain

DEADLINE_S = 900.0  # Time to build every run's program, and to trace it if it may join a population.
TITLE = re.compile(r"\s*(╭─.*|.*\n\s*-{9,})")  # What tyro's messages begin with; the text that follows says it again.
BOX = re.compile(r"[│╭╮╰╯─]+|-{9,}")  # The frames and rules that tyro draws around its messages.

Member = dict[str, float]


@dataclasses.dataclass(frozen=True)
class JobRuns:
    """The runs of one job.

    Attributes:
      runs: their numbers.
      members: for each its seed, and its values of the config's fields that differ; empty for a single run.
    """

    runs: tuple[int, ...]
    members: tuple[Member, ...] = ()


class Answer(NamedTuple):
    """The result of a check.

    Attributes:
      errors: by the run's number, why it can't work.
      jobs: all runs, if there are no errors.
    """

    errors: dict[int, str]
    jobs: list[JobRuns]


def check(
    file: str,
    commands: Sequence[Sequence[str]],
    most: int,
    kept: Sequence[Sequence[int]] = (),
    held: Sequence[int] = (),
    elsewhere: bool = False,
) -> Answer:
    """Checks the runs of a program file; says so of several, since making each one's program takes time.

    Args:
      file: the program's file.
      commands: the command line of each run.
      most: the greatest number of members of a population; below 2 there are no populations.
      kept: the runs of populations that have begun, and stay together if they can.
      held: runs that have begun alone, and stay alone.
      elsewhere: whether the runs are for other machines, which may have packages that this one lacks.

    Raises:
      BadInput: the file can't be imported, or its runs take too long to check.
    """
    question: dict[str, Any] = {"file": file, "commands": commands, "most": most, "kept": kept, "held": held}
    question["elsewhere"] = elsewhere
    if len(commands) > 1:
        print(f"checking {len(commands)} runs of {file}", file=sys.stderr, flush=True)
    return _answer_apart(question)


def _answer_apart(question: Mapping[str, Any]) -> Answer:
    """Answers a question in a process of its own; see `check`."""
    file = question["file"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}  # The runs need the devices.
    command = [sys.executable, "-m", "boonta.programs.experiments.check"]
    try:
        done = subprocess.run(
            command, input=json.dumps(question), capture_output=True, text=True, env=environment, timeout=DEADLINE_S
        )
        answer = json.loads(done.stdout.strip().rpartition("\n")[2])  # A library may have printed before.
    except subprocess.TimeoutExpired:
        raise BadInput(f"{file}: its runs weren't checked within {DEADLINE_S:.0f} s") from None
    except ValueError:
        raise BadInput(f"{file}: its runs can't be checked: {_last_line(done.stderr)}") from None
    return Answer(
        {int(i): message for i, message in answer["errors"].items()},
        [JobRuns(tuple(job["runs"]), tuple(job["members"])) for job in answer["jobs"]],
    )


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it ended without a word"])[-1]


def _answer_here(question: Mapping[str, Any]) -> Answer:
    """Answers a question in this process."""
    return _Checker(question).answer()


class _Built(NamedTuple):
    """A run that can work.

    Attributes:
      run, settings: its parsed arguments.
      shared: a text of all settings that the members of a population share; empty if the run can't be a member.
      numbers: its config's fields that hold a number.
    """

    run: Run
    settings: dict[str, Any]
    shared: str = ""
    numbers: Mapping[str, float] = {}


class _Checker:
    """Answers a question."""

    def __init__(self, question: Mapping[str, Any]):
        from boonta.programs.wiring.command_line.arguments import function_of

        self._function = function_of(pathlib.Path(question["file"]))
        self._commands, self._most = question["commands"], question["most"]
        self._kept, self._held = question["kept"], set(question["held"])
        self._elsewhere = question["elsewhere"]

    def answer(self) -> Answer:
        built, errors = {}, {}
        for i, command in enumerate(self._commands):
            try:
                built[i] = self._build(command)
            except (BadInput, ValueError, TypeError, OSError, ImportError) as error:
                errors[i] = str(error)
        if errors:
            return Answer(errors, [])
        return Answer({}, self._jobs(built))

    def _build(self, command: Sequence[str]) -> _Built:
        """Builds a run's program as the run itself will.

        Raises:
          BadInput, ValueError, TypeError, OSError, ImportError: it can't work.
        """
        from boonta.agents.config import leaves, number_fields
        from boonta.programs.experiments.together import fused
        from boonta.programs.wiring import launch
        from boonta.programs.wiring.checks import check_nodes

        run, settings = _parsed(self._function, command)
        if dataclasses.replace(run.stop, on_collapse=False) == type(run.stop)():
            raise BadInput("it has no stop rule, and would never end: give a --stop.… flag, such as stop.env-steps")
        program = self._function(run=run, **settings)
        require_same_run(program.name, run, settings)
        here = run.launch.startswith("local") and not self._elsewhere
        launch.prepare(program) if here else launch.require(program)  # The former's ImportError names what is missing.
        if run.launch == "sebulba":
            check_nodes(program)  # It makes its nodes on the devices of the run, and refuses their settings only then.
        if run.launch != "anakin" or not fused.may_join(program, settings):
            return _Built(run, settings)
        config = settings[fused.CONFIG]
        values = leaves(config)
        numbers = {f: float(values[f]) for f in number_fields(config) if isinstance(values[f], int | float)}
        alike = dataclasses.replace(run, seed=0, workdir="")
        others = {name: value for name, value in settings.items() if name != fused.CONFIG}
        rest = {name: value for name, value in values.items() if name not in numbers}
        shared = json.dumps([plain(alike), flattened(plain(others)), plain(rest)], sort_keys=True)
        return _Built(run, settings, shared, numbers)

    def _jobs(self, built: Mapping[int, _Built]) -> list[JobRuns]:
        """Groups the runs that differ only in their seeds and traced hyper-parameters."""
        jobs = []
        for runs in self._kept:
            if len({built[i].shared for i in runs}) == 1 and built[runs[0]].shared:
                jobs.append(self._job(built, runs))
        taken = {i for job in jobs for i in job.runs} | self._held
        jobs += [JobRuns((i,)) for i in self._held]
        alike: dict[str, list[int]] = {}
        for i in sorted({*built} - taken):
            alike.setdefault(built[i].shared or f"run {i}", []).append(i)
        for runs in alike.values():
            if len(runs) == 1 or self._most < 2:
                jobs += [JobRuns((i,)) for i in runs]
                continue
            for together in self._by_shape(built, runs):
                parts = [together[at : at + self._most] for at in range(0, len(together), self._most)]
                jobs += [self._job(built, part) for part in parts]
        return sorted(jobs, key=lambda job: job.runs)

    def _job(self, built: Mapping[int, _Built], runs: Sequence[int]) -> JobRuns:
        if len(runs) == 1:
            return JobRuns(tuple(runs))
        fields = _differing(built, runs)
        members = [{"seed": built[i].run.seed, **{field: built[i].numbers[field] for field in fields}} for i in runs]
        return JobRuns(tuple(runs), tuple(members))

    def _by_shape(self, built: Mapping[int, _Built], runs: Sequence[int]) -> list[list[int]]:
        """Divides runs by the numbers that a program needs before it is compiled."""
        fixed = [field for field in _differing(built, runs) if not self._is_traced(built, runs, field)]
        parts: dict[tuple[float, ...], list[int]] = {}
        for i in runs:
            parts.setdefault(tuple(built[i].numbers[field] for field in fixed), []).append(i)
        return list(parts.values())

    def _is_traced(self, built: Mapping[int, _Built], runs: Sequence[int], field: str) -> bool:
        """Whether the members of a population may differ in a field."""
        from boonta.programs.experiments.together.fused import population
        from boonta.programs.wiring.interpreters import anakin

        first = built[runs[0]]
        other = next(built[i] for i in runs if built[i].numbers[field] != first.numbers[field])
        members: list[Member] = [{"seed": 0, field: one.numbers[field]} for one in (first, other)]
        placement = dataclasses.replace(first.run.placement, learning=1)
        run = dataclasses.replace(first.run, placement=placement)
        try:
            anakin.build(population(self._function, run, first.settings, members))
        except ValueError:  # The process of a run of its own refuses what is wrong for other reasons.
            return False
        return True


def _differing(built: Mapping[int, _Built], runs: Sequence[int]) -> list[str]:
    """The fields in whose number some of these runs differ."""
    return [field for field in built[runs[0]].numbers if len({built[i].numbers[field] for i in runs}) > 1]


def _parsed(function: Any, command: Sequence[str]) -> tuple[Run, dict[str, Any]]:
    """Parses a run's command line.

    Raises:
      BadInput: it has unknown flags or wrong values; the message is the parser's, with near matches.
    """
    from boonta.programs.wiring.command_line.arguments import parse

    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
            return parse(function, list(command))
    except SystemExit:
        text = printed.getvalue()
        untitled = text[found.end() :] if (found := TITLE.match(text)) else text
        words = " ".join(BOX.sub(" ", untitled).split())
        raise BadInput(words.partition("For full helptext")[0].strip() or "its flags can't be parsed") from None


def main() -> None:
    """Answers the question on standard input; the output of libraries goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            answer = _answer_here(json.load(sys.stdin))
        except BadInput as error:
            print(error, file=sys.stderr)
            sys.exit(2)
    print(json.dumps({"errors": answer.errors, "jobs": [dataclasses.asdict(job) for job in answer.jobs]}))


if __name__ == "__main__":
    main()
