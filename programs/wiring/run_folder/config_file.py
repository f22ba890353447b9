"""A run's config.json: what is read from it, and whether a run that is resumed is the same."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pydantic

from boonta.nodes.snapshots import schema
from boonta.nodes.snapshots.store import LEARNERS, has_snapshots, numbers
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.pace import Pace
from boonta.programs.wiring.run import BadInput, Run, override_of
from boonta.programs.wiring.run_folder.provenance import ROOT, VARIABLES, Inner, Provenance, from_root
from boonta.programs.wiring.run_folder.recorded import Picture, by_flag, class_defaults
from boonta.programs.wiring.run_folder.unlearned import unlearned

MAIN = "__main__"  # The module of a program that was started by its file.
MOST_SHOWN = 6  # Changed settings that a message lists.
PROCESS_ENV = "--process-env"
# The variables of `PROCESS_ENV` whose values are recorded: they choose devices, threads, memory, renderers and
# libraries. Of others the names alone are: a value may be a secret, which trackers would get, and a digest of a short
# one can be guessed.
NO_SECRETS = (
    *VARIABLES,
    "LD_PRELOAD",
    "MUJOCO_GL",
    "OMP_NUM_THREADS",
    "PYOPENGL_PLATFORM",
    "PYTHONPATH",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a run comes from, by which tools build its program again, and compare runs.

    Attributes:
      file, function: the program's file, see `from_root`, and the name of its function there.
      arguments: the words of its command line, see `without_secrets`.
      provenance: the source, versions and machine of this start.
      picture: the program's nodes and arrows.
      inner: the program whose runs are the members of a sweep's population; None for other programs.
    """

    file: str
    function: str
    arguments: tuple[str, ...]
    provenance: Provenance | None = None
    picture: Picture = Picture()
    inner: Inner | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Origin):
    """The content of a run's config.json. What has a default may be missing: an older Boonta has written the file.

    Attributes:
      program: the program's name.
      seed: the run's seed.
      settings: the program function's other arguments, in which anything but JSON's own types is a text.
      run: the fields of its `Run`.
      agent: the module of its agent, see `agent_of`.
    """

    program: str
    seed: int
    settings: dict[str, Any]
    file: str = ""
    function: str = ""
    arguments: tuple[str, ...] = ()
    run: dict[str, Any] = dataclasses.field(default_factory=dict)
    agent: str = ""

    @property
    def program_file(self) -> pathlib.Path:
        """The program's file here; one of Boonta's repository is found wherever this is, from any folder."""
        return ROOT / self.file

    @property
    def command(self) -> str:
        """The command that started the run, from the repository's folder."""
        return shlex.join(["./run", "python", str(from_root(self.program_file)), *self.arguments])

    @property
    def has_stop_rule(self) -> bool:
        """Whether the run has a limit; one of an older Boonta, which hasn't recorded it, is taken to have one."""
        limits = self.run.get("stop", {"recorded": True})
        return any(limit is not None and limit is not False for limit in limits.values())


def without_secrets(words: Sequence[str]) -> list[str]:
    """The words of a command line as they are recorded: what `PROCESS_ENV` gives is as `without_value` has it."""
    found: list[str] = []
    within = False
    for word in words:
        flag, equals, value = word.partition("=")
        if word.startswith("--"):
            within = flag.replace("_", "-") == PROCESS_ENV
            found += [flag, without_value(value)] if within and equals else [word]
        else:
            found.append(without_value(word) if within else word)
    return found


def without_value(override: str) -> str:
    """GROUP:NAME of a variable's GROUP:NAME=VALUE, unless the value is none that could be a secret.

    A command with such a word is refused, so that nobody starts a run again without the value.
    """
    group, name, _ = override_of(override)
    return override if not name or name in NO_SECRETS else f"{group}:{name}"


_CONFIG = pydantic.TypeAdapter(Config)


def read_config(folder: pathlib.Path, file: str = schema.CONFIG) -> Config:
    """Reads the settings of a run.

    Args:
      folder: the run's folder.
      file: the file there; another one has the settings of an earlier start.

    Raises:
      BadInput: it can't be read, is damaged, or not a run's.
    """
    path = folder / file
    try:
        return _without_adapter(schema.load(_CONFIG, schema.read(path)))
    except OSError as error:
        if isinstance(error, FileNotFoundError) and has_snapshots(folder):
            raise BadInput(f"{folder} has no {file}; each of its checkpoints has a copy") from error
        if (folder / schema.SWEEP).exists():
            raise BadInput(f"{folder} is a sweep's: name one of the runs' folders in it, or compare all") from error
        raise BadInput(f"{folder} holds no run: {file} can't be read: {error.strerror}") from error
    except ValueError as error:
        hint = "mend it (each of its checkpoints has a copy), or choose another --workdir"
        raise BadInput(f"{path} is damaged, or not a run's: {error}; {hint}") from error


def _without_adapter(config: Config) -> Config:
    """A config with a JAX environment's own settings, which Boonta 0.2 had within those of an adapter, as its `env`."""
    env = config.settings.get("env")
    adapted = isinstance(env, dict) and env.keys() == {"env"} and isinstance(env["env"], dict)
    return dataclasses.replace(config, settings={**config.settings, **env}) if env and adapted else config


def config_of(folder: pathlib.Path) -> pathlib.Path | None:
    """A run's config.json; if it is gone, the copy in the newest snapshot that has one. None if there is no run.

    Raises:
      BadInput: there are snapshots, and none has a copy.
    """
    if (folder / schema.CONFIG).exists():
        return folder / schema.CONFIG
    found = next(_copies(folder), None)
    if found is None and has_snapshots(folder):
        raise BadInput(f"{folder / schema.CONFIG} is missing, and no snapshot has a copy; choose another --workdir")
    return found


def _copies(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """The copies of a run's config.json in its snapshots, the newest first."""
    snapshots = (folder / name / str(number) for name in LEARNERS for number in reversed(numbers(folder / name)))
    return filter(pathlib.Path.exists, (path / schema.CONFIG for path in snapshots))


def checkpointed(folder: pathlib.Path, common: pathlib.Path | None = None) -> Config:
    """The settings with which a run's newest checkpoint was made; those of config.json if no checkpoint has a copy.

    config.json is the last start's, which may have failed, or been killed, before it restored or saved anything. Only
    where the program is comes from there, since its file may have been moved.

    Args:
      folder: the run's folder, or that of one of its hosts.
      common: the folder with the checkpoints, if it is another.

    Raises:
      BadInput: as `read_config`.
    """
    last = read_config(folder)
    for copy in _copies(common or folder):
        with contextlib.suppress(BadInput):  # A damaged checkpoint isn't used either.
            return dataclasses.replace(read_config(copy.parent), file=last.file, function=last.function)
    return last


def agent_of(settings: Mapping[str, Any]) -> str:
    """The module of the agent whose config is among a program's settings; empty if none is, or it is the program's.

    A config is a dataclass, but no environment, `Evaluation` or `Pace`; one with a method `preset` goes before.
    """
    configs = [
        value
        for value in settings.values()
        if dataclasses.is_dataclass(value) and not isinstance(value, Evaluation | Pace) and not hasattr(value, "spec")
    ]
    configs.sort(key=lambda value: not hasattr(value, "preset"))
    module = type(configs[0]).__module__ if configs else MAIN
    return "" if module == MAIN else module.removesuffix(".config")


def require_same_run(name: str, run: Run, settings: dict[str, Any]) -> Config | None:
    """The config of the run that the folder holds; None if it holds none. One of another run is refused.

    What changes nothing that is learned may differ, see `unlearned`, as may the fields of `Run`.

    Args:
      name: the program's name.
      run, settings: the parsed arguments.

    Raises:
      BadInput: the folder holds a run of another program, or one with other settings, or a damaged one.
    """
    folder = pathlib.Path(run.workdir)
    found = config_of(folder)
    if found is None:
        return None
    old = checkpointed(found.parent, run.common_workdir)
    if old.program != name:
        raise BadInput(f"--workdir {folder} holds a run of {old.program}, not of {name}; choose another")
    if old.agent and old.agent != agent_of(settings):
        raise BadInput(
            f"--workdir {folder} holds a run of the agent {old.agent}, not of {agent_of(settings)}; choose another"
        )
    configs = {name: value for name, value in settings.items() if hasattr(value, "preset") and name in old.settings}
    added = {name: class_defaults(value) for name, value in configs.items()}
    before = schema.flattened(by_flag(added)) | schema.flattened(old.settings) | {"seed": old.seed}
    after = schema.flattened(by_flag(settings)) | {"seed": run.seed}
    same = unlearned(settings)
    changed = [
        f"{field} was {before.get(field, 'unset')}, is {after.get(field, 'unset')}"
        for field in {**before, **after}
        if field not in same and before.get(field) != after.get(field)
    ]
    if changed and not run.allow_changes:
        more = [f"and {len(changed) - MOST_SHOWN} more"] if len(changed) > MOST_SHOWN else []
        raise BadInput(
            f"--workdir {folder} holds a run with other settings: {'; '.join([*changed[:MOST_SHOWN], *more])}. "
            "Give them as they were, choose another --workdir, or add --allow-changes"
        )
    return old
