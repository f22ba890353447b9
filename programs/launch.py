"""The command line of every program, made from the program function's own signature; it launches, and resumes."""

from __future__ import annotations

import dataclasses
import fcntl
import functools
import inspect
import json
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Callable
from typing import IO, Annotated, Any, Literal

import tyro

from nodes.monitor import StopRule
from nodes.services import Program

# What a group's processes run with. Actors and evaluators act on the CPU and must not grab an accelerator; one thread
# each, since an actor overlaps stepping and acting with threads of its own.
ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "OMP_NUM_THREADS": "1"}
ON_CPU = {"JAX_PLATFORMS": "cpu", **ONE_THREAD}
GROUP_ENVIRONMENT: dict[str, dict[str, str]] = {
    "monitor": ON_CPU,
    "variables": ON_CPU,
    "replay": ON_CPU,
    "actor": ON_CPU,
    "evaluator": ON_CPU,
}


class BadInput(Exception):
    """The user asked for something that can't work; the message says what, and what would."""


@dataclasses.dataclass(frozen=True)
class Run:
    """How, where and how long a program runs.

    Attributes:
      launch: "local_mp": a process per node; "local_mt": a thread per node; "serial": one thread, for a debugger.
      workdir: the run's folder; a run found there is resumed. Default: runs/ and the program's name.
      seed: of params, environments and exploration.
      stop: when the program has done its work; without a limit it runs until Ctrl-C.
      save_every_s: seconds between checkpoints; there is always one at the end.
      environment: environment variables of a group's processes, as GROUP:NAME=VALUE.
      allow_changes: resume with other settings than the run was started with.
    """

    launch: Literal["local_mp", "local_mt", "serial"] = "local_mp"
    workdir: str = ""
    seed: int = 0
    stop: StopRule = StopRule()
    save_every_s: float = 300.0
    environment: tuple[str, ...] = ()
    allow_changes: bool = False

    def path(self, name: str) -> str:
        """A path inside the run's folder."""
        return os.path.join(self.workdir, name)


RunFlags = Annotated[Run, tyro.conf.arg(name="")]  # --workdir rather than --run.workdir
ProgramFunction = Callable[..., Program]


def main(program_function: ProgramFunction, arguments: list[str] | None = None) -> None:
    """Parses the command line, builds the program, launches it and exits with how it ended."""
    try:
        run, settings = parse(program_function, arguments)
        program = program_function(run, **settings)
        check_nodes(program)
        environment = group_environment(program, run)
        origin = {
            "file": os.path.abspath(inspect.getfile(program_function)),
            "function": program_function.__name__,
            "arguments": sys.argv[1:] if arguments is None else arguments,
        }
        claim = claim_workdir(program.name, run, settings, origin)
    except (BadInput, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    with claim:
        sys.exit(launch(program, run, environment))


def command(function: Callable[..., None], *errors: type[Exception]) -> None:
    """Runs a tool's function from the command line; bad input, and `errors` besides, end it with words and code 2."""
    told: tuple[type[Exception], ...] = (BadInput, *errors)
    try:
        tyro.cli(function)
    except told as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def parse(program_function: ProgramFunction, arguments: list[str] | None = None) -> tuple[Run, dict[str, Any]]:
    """The run and the program function's other arguments, from the command line."""

    @functools.wraps(program_function)
    def collect(run: Run, **settings: Any) -> tuple[Run, dict[str, Any]]:
        return run, settings

    collect.__annotations__ = inspect.get_annotations(program_function, eval_str=True)
    run, settings = tyro.cli(collect, args=arguments)
    name = "-".join([program_function.__name__, *(value for value in settings.values() if isinstance(value, str))])
    workdir = pathlib.Path(run.workdir or pathlib.Path("runs") / name).expanduser().absolute()
    return dataclasses.replace(run, workdir=str(workdir)), settings


def launch(program: Program, run: Run, environment: dict[str, dict[str, str]]) -> int:
    """Runs a program to its end.

    Returns:
      The exit code: 0 it reached a stop rule, 1 a node failed, 130 Ctrl-C, 143 SIGTERM.
    """
    if run.launch == "serial":
        from programs import serial

        return serial.run(program)
    from programs import supervise

    return supervise.run(program, run.launch, run.workdir, environment)


def check_nodes(program: Program) -> None:
    """Constructs every node once, here, with its handles unresolved.

    A node's constructor stores and checks what it is given; `start` builds, in the node's own process. So what can't
    work is refused before anything is launched.
    """
    for node in program.get_all_nodes():
        node._constructor(*node._args, **node._kwargs)


def group_environment(program: Program, run: Run) -> dict[str, dict[str, str]]:
    """Environment variables by group: the defaults, and the run's over them."""
    if run.environment and run.launch != "local_mp":
        raise BadInput(
            f"--environment {run.environment[0]!r} is for processes of its own; with --launch {run.launch} all nodes "
            "share the launcher's: set the variable before the command"
        )
    environment = {group: dict(GROUP_ENVIRONMENT.get(group, {})) for group in program.groups}
    for override in run.environment:
        group, colon, assignment = override.partition(":")
        name, equals, value = assignment.partition("=")
        if not (colon and equals and name) or group not in environment:
            raise BadInput(f"--environment {override!r} is not GROUP:NAME=VALUE with a group of {sorted(environment)}")
        environment[group][name] = value
    return environment


def claim_workdir(name: str, run: Run, settings: dict[str, Any], origin: dict[str, Any]) -> IO[str]:
    """Makes the run's folder ours, and checks that a run found there is this one.

    Args:
      name: of the program.
      run, settings: as parsed.
      origin: the program's file and arguments, kept so that other tools can build the program again.

    Returns:
      The open lock file; closing it gives the folder up.

    Raises:
      BadInput: the folder can't be written, another process uses it, or it holds another run or a damaged one.
    """
    folder = pathlib.Path(run.workdir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "w")  # noqa: SIM115  # held until the program ends
    except OSError as error:
        raise BadInput(f"--workdir {folder} can't be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise BadInput(f"--workdir {folder} is in use by another process") from error
    resolved = {"program": name, "seed": run.seed, "settings": _plain(settings)}
    config = folder / "config.json"
    if config.exists():
        _require_same_run(folder, _read_config(config), resolved, run.allow_changes)
        shutil.copyfile(config, folder / f"config-until-{time.strftime('%Y%m%d-%H%M%S')}.json")
    fresh = folder / "config.json.new"
    fresh.write_text(json.dumps({**resolved, **origin, "run": _plain(dataclasses.asdict(run))}, indent=2) + "\n")
    fresh.replace(config)  # whole or not at all, whenever we are killed
    return lock


def _read_config(path: pathlib.Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text())
        return {"program": config["program"], "seed": config["seed"], "settings": dict(config["settings"])}
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path} is damaged, or not a run's: {error!r}; mend it, or choose another --workdir") from error


def _require_same_run(folder: pathlib.Path, old: dict[str, Any], new: dict[str, Any], allow_changes: bool) -> None:
    if old["program"] != new["program"]:
        raise BadInput(f"--workdir {folder} holds a run of {old['program']}, not of {new['program']}; choose another")
    before, after = _flat(old["settings"]), _flat(new["settings"])
    before["seed"], after["seed"] = old["seed"], new["seed"]
    changed = [
        f"{field} was {before.get(field, 'unset')}, is {after.get(field, 'unset')}"
        for field in {**before, **after}
        if before.get(field) != after.get(field)
    ]
    if changed and not allow_changes:
        raise BadInput(
            f"--workdir {folder} holds a run with other settings: {'; '.join(changed)}. "
            "Give them as they were, choose another --workdir, or add --allow-changes"
        )


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=dataclasses.asdict))


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat.update(_flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return flat
