"""Where the figures of a comparison come from: commits, versions and machines of its runs, and their commands."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from boonta.programs.experiments.groups import GB, commits
from boonta.programs.experiments.results import Result
from boonta.programs.wiring.run_folder.provenance import Provenance

SHORT = 2  # Origins that a picture's footer has room for.
MAIN = ("python", "jax")  # The versions in it.


def described(results: Sequence[Result]) -> list[str]:
    """A line for each origin that runs share: how many they are, commit, versions, machine, and when they started."""
    lines = []
    for starts, of in _by_origin(results).values():
        when = sorted(start.started for start in starts)
        times = when[0] if when[0] == when[-1] else f"{when[0]} to {when[-1]}"
        lines.append(f"{_full(starts[0])}; started {times}: {', '.join(of)}")
    unknown = dict.fromkeys(result.folder.name for result in results if not result.starts)
    if unknown:
        lines.append(f"not recorded: {', '.join(unknown)}")
    return lines


def footer(results: Sequence[Result]) -> str:
    """The origin of runs in brief, for a picture: a line for each that has room, see `SHORT`."""
    shown = list(dict.fromkeys(_brief(start) for result in results for start in result.starts))
    more = f" · and {len(shown) - SHORT} more" if len(shown) > SHORT else ""
    number = f"{len(results)} run{'s' if len(results) > 1 else ''}"
    return f"{number} · " + ("\n".join(shown[:SHORT]) or "origin not recorded") + more


def command_of(tool: str, folders: Sequence[pathlib.Path], options: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """The command line that makes a picture or a page again.

    Args:
      tool: the tool's name, "compare" for example.
      folders: the folders of runs that it was given.
      options: its options by name; None and [] stand for those that were not given.
      usual: the defaults of the others, which the command line leaves out.
    """
    words = ["./run", "boonta", tool, *map(str, folders)]
    for name, value in options.items():
        if value not in (None, [], usual.get(name)):
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)


def commands(results: Sequence[Result]) -> list[str]:
    """The command lines of runs; the members of a population share theirs."""
    return list(dict.fromkeys(result.config.command for result in results))


def complete(command: str, results: Sequence[Result]) -> str:
    """All about the origin of a picture, for its metadata."""
    return "\n".join([command, "", *described(results), "", *commands(results)])


def _by_origin(results: Sequence[Result]) -> dict[str, tuple[list[Provenance], dict[str, None]]]:
    """By what starts have in common, these starts, and the names of their runs' folders, each once and in order."""
    found: dict[str, tuple[list[Provenance], dict[str, None]]] = {}
    for result in results:
        for start in result.starts:
            starts, names = found.setdefault(_full(start), ([], {}))
            starts.append(start)
            names[result.folder.name] = None
    return found


def _full(start: Provenance) -> str:
    versions = ", ".join(f"{package} {version}" for package, version in start.versions.items())
    variables = "".join(f", {name}={value}" for name, value in sorted(start.machine.variables.items()))
    return f"{_state(start)}, source {start.boonta.digest}; {versions}; {_machine(start)}{variables}"


def _brief(start: Provenance) -> str:
    versions = " · ".join(f"{package} {start.versions[package]}" for package in MAIN if package in start.versions)
    return f"{_state(start)} · {versions} · {_machine(start)}"


def _state(start: Provenance) -> str:
    dirty = " with changes" if start.is_dirty else ""
    return f"commit {commits(start)}{dirty}"


def _machine(start: Provenance) -> str:
    machine = start.machine
    devices = [f"{machine.devices.count(kind)} x {kind}" for kind in dict.fromkeys(machine.devices)]
    return ", ".join([f"{machine.cores} cores of {machine.processor}", f"{machine.memory_bytes / GB:.0f} GB", *devices])
