"""Groups of runs that differ in nothing but the seed, and what else differs between runs that are compared."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from boonta.programs.experiments.curves import X, label_of
from boonta.programs.experiments.results import Result
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.provenance import Provenance

UNSET = "unset"  # What is shown of a setting that is None, or that a run's program doesn't have.
SHOWN = 3  # Runs that a message names.
FEW = 5  # A bootstrap of fewer runs hardly resamples: of two equal ones its interval is a point.
TOLERANCE = 1.05  # Runs end at equal env steps if the longest has at most this times those of the shortest.
GB = 1e9


class Group(NamedTuple):
    """Runs in one environment that differ in nothing but the seed.

    Attributes:
      name: the program's name, and the settings in which it differs from its other groups.
      results: what its runs have come to, ordered by seed.
    """

    name: str
    results: tuple[Result, ...]


Suite = dict[str, list[Group]]  # The groups that are compared, by environment; each has the same ones.


def suite_of(results: Sequence[Result]) -> Suite:
    """Groups runs, in the order in which they are given.

    Raises:
      BadInput: they are of several environments, which don't all have the same groups.
    """
    by_environment: dict[str, list[Result]] = {}
    for result in results:
        by_environment.setdefault(result.environment, []).append(result)
    suite = {environment: _groups(each) for environment, each in by_environment.items()}
    first, *others = suite.values()
    names = [group.name for group in first]
    if any({group.name for group in other} != set(names) for other in others):
        listed = "; ".join(f"{env} has {', '.join(group.name for group in groups)}" for env, groups in suite.items())
        raise BadInput(
            f"the runs are of different environments, and no suite, which has the same groups in each: {listed}. "
            "Compare each environment on its own, or add the runs that are missing"
        )
    return {env: sorted(groups, key=lambda group: names.index(group.name)) for env, groups in suite.items()}


def _groups(results: Sequence[Result]) -> list[Group]:
    """The groups of one environment's runs."""
    by_program: dict[str, list[Result]] = {}
    for result in results:
        by_program.setdefault(result.config.program, []).append(result)
    found: dict[str, list[Result]] = {}
    for program, each in by_program.items():
        varying = differing(result.settings for result in each)
        texts = {name: _texts(result.settings.get(name) for result in each) for name in varying}
        for result in each:
            settings = [f"{_short(name)} {texts[name][_key(result.settings.get(name))]}" for name in varying]
            found.setdefault(", ".join([program, *settings]), []).append(result)
    return [Group(name, tuple(sorted(each, key=lambda result: result.seed))) for name, each in found.items()]


def differing(settings: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of settings that don't have one value in all of these; None is that of a program that lacks one."""
    every = list(settings)
    names = dict.fromkeys(name for each in every for name in each)
    return [name for name in names if len({_key(each.get(name)) for each in every}) > 1]


def results_in(suite: Suite) -> list[Result]:
    """All results of a suite."""
    return [result for groups in suite.values() for group in groups for result in group.results]


def warnings_of(suite: Suite) -> list[str]:
    """What a reader must know who compares these runs: in what they differ besides their groups' settings."""
    results = results_in(suite)
    found = [*_sizes(suite), *_seeds(suite), *_ends(suite), *shortened(suite, "env_steps")]
    found += [*_points(suite), *_environments(suite), *_across(suite)]
    unrecorded = [result for result in results if not result.starts]
    if unrecorded:
        found.append(f"nothing is recorded of source, versions and machine of {_named(unrecorded)}")
    dirty = [result for result in results if any(start.is_dirty for start in result.starts)]
    if dirty:
        found.append(f"files differed from the commit (the tree was dirty) in {_named(dirty)}")
    for what, fact in FACTS.items():
        found += _difference(what, [(str(fact(start)), result) for result in results for start in result.starts])
    for program in dict.fromkeys(result.config.program for result in results):
        files = [(start.program.digest, r) for r in results if r.config.program == program for start in r.starts]
        found += _difference(f"the file of {program} (digest)", files)
    for environment, groups in suite.items():
        own = [(start.env.digest, r) for group in groups for r in group.results for start in r.starts if start.env]
        found += _difference(f"the file of {environment} (digest)", own)
    packages = dict.fromkeys(name for result in results for start in result.starts for name in start.versions)
    for package in packages:
        versions = [(start.versions.get(package, "none"), result) for result in results for start in result.starts]
        found += _difference(f"version of {package}", versions)
    scores = [(result.score.source, result) for result in results]
    episodes = [(str(result.score.episodes or "unknown"), result) for result in results]
    return [*found, *_difference("source of the final score", scores), *_difference("number of episodes", episodes)]


FACTS: dict[str, Callable[[Provenance], Any]] = {
    "commit": lambda start: commits(start),
    "source of Boonta (digest)": lambda start: start.boonta.digest,
    "processor": lambda start: start.machine.processor,
    "number of cores": lambda start: start.machine.cores,
    "memory in GB": lambda start: f"{start.machine.memory_bytes / GB:.0f}",
    "devices": lambda start: ", ".join(start.machine.devices) or "none",
    "environment variables": lambda start: " ".join(f"{k}={v}" for k, v in sorted(start.machine.variables.items())),
}


def commits(start: Provenance) -> str:
    """The commit of Boonta, and the program's if it is in another repository."""
    boonta, program = ((source.commit or "none")[:12] for source in (start.boonta, start.program))
    return boonta if boonta == program else f"Boonta {boonta}, program {program}"


def shortened(suite: Suite, x: X) -> list[str]:
    """Warnings about groups whose curves end before their longest runs do: a curve goes as far as all of its runs."""
    found = []
    for environment, groups in suite.items():
        for group in groups:
            if uneven := _uneven(group.results, x):
                (first, short), (last, long) = uneven
                unit = "s" if x == "seconds" else label_of(x, (each.counter for each in group.results))
                found.append(
                    f"the curve of {group.name} in {environment} ends after {short:,.0f} {unit}, as {first} does; "
                    f"{last} goes on to {long:,.0f}"
                )
    return found


def _uneven(results: Sequence[Result], x: X) -> tuple[tuple[str, float], tuple[str, float]] | None:
    """The runs whose curves end first and last, and where on this axis; None if all end at about the same point."""
    ends = sorted(((each.name, float(each.curve.on(x)[-1])) for each in results), key=lambda end: end[1])
    return (ends[0], ends[-1]) if ends[-1][1] > TOLERANCE * ends[0][1] else None


def _difference(what: str, values: Sequence[tuple[str, Result]]) -> list[str]:
    """A warning if runs don't share a value; a run that was resumed may have several."""
    by_value: dict[str, dict[str, Result]] = {}
    for value, result in values:
        by_value.setdefault(value, {})[result.name] = result
    if len(by_value) < 2:
        return []
    listed = [f"{value or 'none'} in {_named(list(each.values()))}" for value, each in by_value.items()]
    return [f"{what} differs: {'; '.join(listed)}"]


def _sizes(suite: Suite) -> list[str]:
    numbers = {f"{group.name} in {env}": len(group.results) for env, groups in suite.items() for group in groups}
    found = []
    if len(set(numbers.values())) > 1:
        found.append("number of runs differs: " + ", ".join(f"{n} of {name}" for name, n in numbers.items()))
    single = [name for name, number in numbers.items() if number == 1]
    if single:
        found.append(f"a single run has no interval, and shows little: {', '.join(single)}")
    few = [f"{number} of {name}" for name, number in numbers.items() if 1 < number < FEW]
    if few:
        text = f"intervals and probabilities of fewer than {FEW} runs are not to be relied on, and mostly too narrow"
        found.append(f"{text}: {_listed(few)}")
    return found


def _seeds(suite: Suite) -> list[str]:
    found = []
    for environment, groups in suite.items():
        for group in groups:
            seeds = [result.seed for result in group.results]
            twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
            if twice:
                found.append(f"{group.name} in {environment} has several runs with seed {twice[0]}: they may be equal")
    return found


def _ends(suite: Suite) -> list[str]:
    found = []
    for environment, groups in suite.items():
        results = [result for group in groups for result in group.results]
        if uneven := _uneven(results, "env_steps"):
            (first, short), (last, long) = uneven
            unit = label_of("env_steps", (each.counter for each in results))
            found.append(
                f"final scores in {environment} are not at equal {unit}: the curve of {first} ends at {short:,.0f}, "
                f"that of {last} at {long:,.0f}"
            )
    return found


def _points(suite: Suite) -> list[str]:
    """A warning about runs of one evaluation, whose curves are points."""
    single = [result for result in results_in(suite) if len(result.curve.values) == 1]
    if not single:
        return []
    flag = "--evaluation.every-updates or --evaluation.every-s"
    return [f"a curve of one point shows no course: {_named(single)}; to evaluate more often, use {flag}"]


def _environments(suite: Suite) -> list[str]:
    """Warnings about settings of an environment: returns under other rules are of another task."""
    found = []
    for environment, groups in suite.items():
        settings = [result.settings for group in groups for result in group.results]
        for name in differing({k: v for k, v in each.items() if k.startswith("env.")} for each in settings):
            values = sorted(_texts(each.get(name) for each in settings).values())
            found.append(f"{environment} has other rules in some runs: {name} is {' and '.join(values)}")
    return found


def _across(suite: Suite) -> list[str]:
    """Warnings about groups that have one name, and other settings in other environments."""
    found = []
    for groups in zip(*suite.values()):  # A suite has the same groups, in the same order, in each environment.
        settings = {env: group.results[0].settings for env, group in zip(suite, groups)}
        for name in differing(settings.values()):
            texts = _texts(each.get(name) for each in settings.values())
            if not name.startswith("env."):
                listed = ", ".join(f"{texts[_key(each.get(name))]} in {env}" for env, each in settings.items())
                found.append(f"{groups[0].name} has other settings in some environments: {_short(name)} is {listed}")
    return found


def _named(results: Sequence[Result]) -> str:
    """A few runs by name, or how many there are."""
    return _listed([result.name for result in results])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= SHOWN else f"{names[0]} and {len(names) - 1} others"


def _short(setting: str) -> str:
    return setting.removeprefix("config.")


def _key(value: Any) -> str:
    """A setting's value as JSON; a whole number has one key, since members of populations have it as 4.0."""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def _texts(values: Iterable[Any]) -> dict[str, str]:
    """The texts of a setting's values by their keys: six digits of a number, or all where others have the same six."""
    by_key = {_key(value): value for value in values}
    texts = {key: _text(value) for key, value in by_key.items()}
    often = collections.Counter(texts.values())
    return {key: text if often[text] == 1 else repr(by_key[key]) for key, text in texts.items()}


def _text(value: Any) -> str:
    if value is None:
        return UNSET
    return f"{value:g}" if isinstance(value, float) else str(value)
