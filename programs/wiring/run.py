"""What every command line shares: where and how long a run goes, its folder, and words instead of tracebacks."""

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
from typing import IO, Annotated, Any, NoReturn

import numpy as np
import tyro

from boonta.nodes.monitor import StopRule


class BadInput(Exception):
    """The user asked for something that can't work; the message says what, and what would."""


@dataclasses.dataclass(frozen=True)
class Run:
    """Where and how long a program runs.

    Attributes:
      workdir: the run's folder; a run found there is resumed. Default: runs/ and the program's name.
      seed: of params, environments and exploration; of the latter two another is made of it where the run is resumed.
      stop: when the program has done its work; without a limit it runs until Ctrl-C.
      save_every_s: seconds between checkpoints; there is always one at the end.
      allow_changes: resume with other settings than the run was started with.
      start_from: folder of another run, of any program with the same agent; a run without checkpoints of its own goes
        on from the newest one there, counters included.
    """

    workdir: str = ""
    seed: int = 0
    stop: StopRule = StopRule()
    save_every_s: float = 300.0
    allow_changes: bool = False
    start_from: str = ""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be at least 0")
        if self.save_every_s <= 0:
            raise ValueError(f"save_every_s is {self.save_every_s}; it must be above 0")

    def path(self, name: str) -> str:
        """A path inside the run's folder."""
        return os.path.join(self.workdir, name)

    @property
    def learning(self) -> dict[str, Any]:
        """What a node that learns is told of the run."""
        return {
            "folder": self.path("checkpoints"),
            "start_from": os.path.join(self.start_from, "checkpoints") if self.start_from else None,
            "seed": self.seed,
            "save_every_s": self.save_every_s,
        }

    @property
    def acting_seed(self) -> int:
        """The seed of acting nodes: another with each checkpoint, or a resumed run would see its first steps again."""
        updates = newest_checkpoint(self.path("checkpoints"))
        return int(np.random.SeedSequence([self.seed, updates]).generate_state(1)[0] >> 1) if updates else self.seed

    @property
    def own(self) -> Run:
        """The run with this process's own folder."""
        return self

    def join(self, built_from: str) -> None:
        """Meets the other hosts of a program that has some; see `nodes.hosts.coordination.Hosts.join`."""

    def leave(self, code: int) -> None:
        """Ends the process with this code."""
        sys.exit(code)


def newest_checkpoint(folder: str) -> int:
    """The number of the newest checkpoint in a folder; 0 if there is none."""
    return max((int(path.name) for path in pathlib.Path(folder).glob("*") if path.name.isdigit()), default=0)


def end_now(code: int) -> NoReturn:
    """Ends the process without waiting for its threads, which may never end, nor for what libraries do at the end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


OwnFlags = Annotated[Run, tyro.conf.arg(name="")]  # --workdir rather than --run.workdir; of a program of one process
ProgramFunction = Callable[..., Any]  # `(run, **settings) -> program`


def command(function: Callable[..., Any], *errors: type[Exception]) -> None:
    """Runs a tool's function from the command line; bad input, and `errors` besides, end it with words and code 2."""
    told: tuple[type[Exception], ...] = (BadInput, *errors)
    try:
        tyro.cli(function)
    except told as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def parse(program_function: ProgramFunction, arguments: list[str] | None = None) -> tuple[Any, dict[str, Any]]:
    """The run and the program function's other arguments, from the command line."""

    @functools.wraps(program_function)
    def collect(run: Any, **settings: Any) -> tuple[Any, dict[str, Any]]:
        return run, settings

    collect.__annotations__ = inspect.get_annotations(program_function, eval_str=True)
    run, settings = tyro.cli(collect, args=arguments)
    # A folder must be the same wherever the run is resumed or looked at from.
    paths = {name: value for name, value in settings.items() if isinstance(value, pathlib.Path)}
    settings |= {name: str(value.expanduser().absolute()) for name, value in paths.items()}
    # Of a setting that is a path, its last part.
    named = [pathlib.PurePath(value).name for value in settings.values() if isinstance(value, str)]
    name = "-".join([name_of(program_function), *named])
    workdir = pathlib.Path(run.workdir or pathlib.Path("runs") / name).expanduser().absolute()
    start_from = run.start_from and str(pathlib.Path(run.start_from).expanduser().absolute())
    return dataclasses.replace(run, workdir=str(workdir), start_from=start_from), settings


def name_of(program_function: ProgramFunction) -> str:
    """The function's name, after its file's where that holds several programs."""
    file, function = pathlib.Path(inspect.getfile(program_function)).stem, program_function.__name__
    return function if function.startswith(file) else f"{file}_{function}"


def origin_of(program_function: ProgramFunction, arguments: list[str] | None) -> dict[str, Any]:
    """A program's file and arguments, kept in the run's folder so that other tools can build the program again."""
    return {
        "file": os.path.abspath(inspect.getfile(program_function)),
        "function": program_function.__name__,
        "arguments": sys.argv[1:] if arguments is None else arguments,
    }


def claim_workdir(name: str, run: Run, settings: dict[str, Any], origin: dict[str, Any]) -> IO[str]:
    """Makes the run's folder ours, and checks that a run found there is this one.

    Args:
      name: of the program.
      run, settings: as parsed.
      origin: see `origin_of`.

    Returns:
      The open lock file; closing it gives the folder up.

    Raises:
      BadInput: the folder can't be written, another process uses it, or it holds another run or a damaged one; or
        there is nothing to start from.
    """
    start = run.learning["start_from"]
    if start is not None and not newest_checkpoint(start):
        raise BadInput(f"--start-from {run.start_from} has no checkpoint, in {start}")
    folder = pathlib.Path(run.workdir)
    held = lock(folder)
    resolved = {"program": name, "seed": run.seed, "settings": _plain(settings)}
    config = folder / "config.json"
    if config.exists():
        _require_same_run(folder, _read_config(config), resolved, run.allow_changes)
        shutil.copyfile(config, folder / f"config-until-{time.strftime('%Y%m%d-%H%M%S')}.json")
    fresh = folder / "config.json.new"
    fresh.write_text(json.dumps({**resolved, **origin, "run": _plain(dataclasses.asdict(run))}, indent=2) + "\n")
    fresh.replace(config)  # whole or not at all, whenever we are killed
    return held


def lock(folder: pathlib.Path) -> IO[str]:
    """Makes sure that nobody else works in a run's folder, as long as the file it returns is open.

    Raises:
      BadInput: the folder can't be written, or another process uses it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = open(folder / ".lock", "w")  # noqa: SIM115  # held until the caller closes it
    except OSError as error:
        raise BadInput(f"--workdir {folder} can't be written: {error.strerror}") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        held.close()
        raise BadInput(f"--workdir {folder} is in use by another process") from error
    return held


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
