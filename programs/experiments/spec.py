"""The specification of a sweep: a short file, or a command line, that stands for many runs; see README.md."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic

from boonta.envs.base import suggest
from boonta.nodes.snapshots import schema
from boonta.programs.experiments import values
from boonta.programs.experiments.slots import Slots
from boonta.programs.experiments.values import Value
from boonta.programs.wiring import shipped
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import naming

SUFFIXES = (".yaml", ".yml")  # A sweep's file ends in one of these.
MOST_RUNS = 10_000
OWN = {"workdir": "each run has its own folder, in the sweep's", "seed": "give the seeds of all runs in seeds"}


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers that a sampler may choose for a flag: integers if both ends are, otherwise real numbers.

    Attributes:
      low, high: the ends, both included.
      log: whether the numbers are uniform on a logarithmic scale.
    """

    low: int | float
    high: int | float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"low is {self.low} and high {self.high}; low must be below high, and above 0 with log")


@dataclasses.dataclass(frozen=True)
class Sample:
    """Trials whose flags a sampler chooses; each trial has a run for every seed.

    Attributes:
      trials: number of trials.
      flags: by flag, the range of its numbers, or the list of its values.
      metric: the metric to maximise, a column of metrics.jsonl.
      prune: whether a trial ends early if it is worse than the median of earlier trials after as many evaluations.
      seed: the sampler's seed.
    """

    trials: int
    flags: dict[str, Range | list[Value]]
    metric: str = "eval_return"
    prune: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trials < 1 or not self.flags or not all(self.flags.values()):
            raise ValueError(
                f"trials is {self.trials} and flags {self.flags}; there must be a trial, and a flag with values"
            )


@dataclasses.dataclass(frozen=True)
class Spec:
    """The content of a sweep's file.

    Attributes:
      program: the file of the program, or one of ours by its name; or a list of them.
      env: the environment's name, or a list of names; empty for the program's default.
      seeds: the number of seeds, counted from 0, or a list of seeds.
      flags: flags of all runs.
      grid: by flag, a list of values; there is a run for each combination.
      runs: variants, each with flags of its own, which override those in `flags`, and with a `name` if the flags should
        not name it. Each variant is combined with all seeds, programs, environments and grid values.
      sample: trials whose flags a sampler chooses.
      slots: the number of runs at once, and the share of the machine that each gets.
      retries: how often a run that fails is started again.
      populations: whether runs of fused programs (`--launch anakin`) become members of one population if they differ
        only in seeds and traced hyper-parameters.
      members: the greatest number of members of a population.
    """

    program: str | list[str]
    env: str | list[str] = ""
    seeds: int | list[int] = 1
    flags: dict[str, Value] = dataclasses.field(default_factory=dict)
    grid: dict[str, list[Value]] = dataclasses.field(default_factory=dict)
    runs: list[dict[str, Value]] = dataclasses.field(default_factory=list)
    sample: Sample | None = None
    slots: Slots = Slots()
    retries: int = 1
    populations: bool = True
    members: int = 64

    @property
    def programs(self) -> list[str]:
        """The programs' files."""
        return [self.program] if isinstance(self.program, str) else self.program

    @property
    def envs(self) -> list[str]:
        """The environments' names; "" is a program's default."""
        return [self.env] if isinstance(self.env, str) else self.env

    @property
    def seed_list(self) -> list[int]:
        """The seeds."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds


_SPEC = pydantic.TypeAdapter(Spec)


@dataclasses.dataclass(frozen=True)
class Entry:
    """One run of a sweep.

    Attributes:
      name: its name, which has the settings that differ.
      program: the program's file, absolute.
      env: the environment's name; "" is the program's default.
      seed: its seed.
      flags: all other flags, with their values.
      differs: the flags that differ between the sweep's runs.
    """

    name: str
    program: str
    env: str
    seed: int
    flags: dict[str, Value]
    differs: dict[str, Value]

    @property
    def arguments(self) -> list[str]:
        """The words of the command line after the program's file, without the folder."""
        return [*([self.env] if self.env else []), *values.words(self.flags), "--seed", str(self.seed)]


def read(path: pathlib.Path) -> Spec:
    """Reads a sweep's file.

    Raises:
      BadInput: it can't be read, or isn't a sweep.
    """
    try:
        content = values.load(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"sweep file {path} can't be read: {error}") from error
    if not isinstance(content, dict) or "program" not in content:
        raise BadInput(f"sweep file {path} must have keys and values, program: among them")
    return made(content, str(path))


def made(content: Mapping[str, Any], where: str) -> Spec:
    """A sweep from a file's content.

    Raises:
      BadInput: a key is unknown, or a value has the wrong type.
    """
    _require_keys(content, Spec, where)
    for key, kind in (("slots", Slots), ("sample", Sample)):
        if isinstance(content.get(key), dict):
            _require_keys(content[key], kind, f"{key} of {where}")
    try:
        spec = schema.load(_SPEC, json.dumps(content, default=str))
    except (ValueError, TypeError, RecursionError) as error:  # A key may be a date, for example, which JSON has not.
        raise BadInput(f"{where}: {error}") from error
    for field, least in (("retries", 0), ("members", 2)):
        if getattr(spec, field) < least:
            raise BadInput(f"{where}: {field} is {getattr(spec, field)}; it must be at least {least}")
    return spec


def _require_keys(given: Mapping[str, Any], kind: Any, where: str) -> None:
    known = [field.name for field in dataclasses.fields(kind)]
    for key in given:
        if key not in known:
            raise BadInput(f"{where} has {key!r}, which is none of its keys: {suggest(str(key), known)}")


def entries(spec: Spec, trial: Mapping[str, Value] | None = None, name: str = "") -> list[Entry]:
    """The runs of a sweep, those of the first seed first.

    Args:
      spec: the sweep.
      trial: the flags that a sampler has chosen.
      name: the trial's name.

    Raises:
      BadInput: two runs would share a folder, there are no runs or too many, or a flag is set by the sweep itself.
    """
    _require_few(spec)
    programs = [_program(file) for file in spec.programs]
    variants = [_variant(spec, given) for given in spec.runs] or [("", {})]
    if trial is not None:
        variants = [(name, dict(trial))]
    fixed, grid = _flags(spec.flags, "flags"), _flags(spec.grid, "grid")
    twice = sorted(set(grid) & {*fixed, *(flag for _, flags in variants for flag in flags)})
    if twice:
        raise BadInput(f"--{twice[0]} is in grid and in flags or runs: give it once")
    short = naming.short_names([*grid, *{flag: 0 for _, flags in variants for flag in flags}])
    found = []
    axes = (spec.seed_list, programs, spec.envs, variants, [dict(zip(grid, each)) for each in _product(grid)])
    for seed, program, env, (label, own), chosen in itertools.product(*axes):
        parts = [label] if label else [naming.shown(short[flag], value) for flag, value in own.items()]
        parts += [naming.shown(short[flag], value) for flag, value in chosen.items()]
        named = "-".join(filter(None, [pathlib.Path(program).stem, naming.slug(env), *parts, f"seed{seed}"]))
        found.append(Entry(named, program, env, seed, {**fixed, **own, **chosen}, {**own, **chosen}))
    _require_apart(found, spec)
    return found


def _require_few(spec: Spec) -> None:
    """Refuses more than `MOST_RUNS` runs, before they are listed."""
    number = spec.seeds if isinstance(spec.seeds, int) else len(spec.seeds)
    axes: list[Sequence[Any]] = [spec.programs, spec.envs, spec.runs or [{}], *spec.grid.values()]
    for axis in axes:
        number *= len(axis)
    if number > MOST_RUNS:
        raise BadInput(f"that is {number:,} runs; a sweep has at most {MOST_RUNS:,}")


def _product(grid: Mapping[str, Any]) -> list[tuple[Value, ...]]:
    for flag, listed in grid.items():
        if not isinstance(listed, list) or not listed:
            raise BadInput(f"grid has {listed!r} for {flag}; it must be a list of values")
    return list(itertools.product(*grid.values()))


def _require_apart(found: Sequence[Entry], spec: Spec) -> None:
    if not found:
        raise BadInput(f"program is {spec.program}, env {spec.env} and seeds {spec.seeds}: that is no run at all")
    names: dict[str, Entry] = {}
    for entry in found:
        if entry.seed < 0:
            raise BadInput(f"seeds has {entry.seed}; seeds must be at least 0")
        if len(entry.name) > naming.LONGEST:
            raise BadInput(f"a run would be called {entry.name}, over {naming.LONGEST} letters: give it a name in runs")
        other = names.setdefault(entry.name.lower(), entry)  # Some file systems ignore case.
        if other is not entry:
            commands = " and ".join(repr(" ".join(each.arguments)) for each in (other, entry))
            raise BadInput(f"two runs have one folder, {entry.name}: {commands}; leave one out, or name it in runs")


def _variant(spec: Spec, given: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
    """A variant's name, which may be empty, and its flags."""
    own = dict(given)
    name = own.pop("name", "")
    if not isinstance(name, str) or name != naming.slug(name):
        raise BadInput(f"runs has the name {name!r}; it must be letters, digits, and . _ + - between them")
    return name, _flags(own, "runs")


def _flags(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Flags by their names in the command line's help.

    Raises:
      BadInput: a flag is given twice, or is set by the sweep itself.
    """
    flags: dict[str, Any] = {}
    for flag, value in given.items():
        name = values.normal(flag)
        if name in OWN:
            raise BadInput(f"{where} has {flag}: {OWN[name]}")
        if name in flags:
            raise BadInput(f"{where} has {flag} twice")
        flags[name] = value
    return flags


def _program(file: str) -> str:
    """The file of a program, absolute; one of ours may be given by its name.

    Raises:
      BadInput: there is no such file; the message has similar names.
    """
    try:
        path = pathlib.Path(shipped.programs().get(file, file)).expanduser().absolute()
        found = path.is_file() and path.suffix == ".py"
    except (OSError, RuntimeError) as error:  # The name is too long, or "~" is of an unknown user.
        raise BadInput(f"program {file} can't be found: {error}") from error
    if not found:
        there = [other.name for other in path.parent.glob("*.py") if other.name != "__init__.py"]
        hint = suggest(path.name, [*there, *shipped.programs()])
        raise BadInput(f"program {file} is no Python file in {path.parent}, nor the name of one of ours: {hint}")
    return str(path)
