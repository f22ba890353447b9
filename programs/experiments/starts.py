"""What a run's starts came from; a run that is started again keeps the config.json of the start before."""

from __future__ import annotations

import dataclasses
import pathlib

from boonta.nodes.snapshots import schema
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.config_file import Config, read_config
from boonta.programs.wiring.run_folder.provenance import Provenance
from boonta.programs.wiring.run_folder.unlearned import MEASURES

AGENTS = "config."  # Settings that are the agent's, which a run goes on with unless it is told to change them.
EVALUATIONS = tuple(f"evaluation.{name}" for name in MEASURES)


def starts_of(folder: pathlib.Path, config: Config) -> tuple[tuple[Provenance, ...], list[str]]:
    """The provenance of a run's starts, the oldest first, and warnings.

    There is a warning for each earlier start whose file is damaged, or that had other settings of the agent, or
    of what an evaluation's return is.

    Args:
      folder: the run's folder.
      config: its config.json.
    """
    earlier, warnings = [], []
    for path in sorted(folder.glob("config-until-*.json")):
        try:
            earlier.append(read_config(folder, path.name))
        except BadInput:
            warnings.append(f"{folder.name}: {path.name} is damaged; what it says of an earlier start is left out")
    starts = [*sorted(earlier, key=_started), config]
    for before, after in zip(starts, starts[1:]):
        if changes := _changes(before, after):
            warnings.append(f"{folder.name} went on with other settings: {', '.join(changes)}")
    return tuple(filter(None, map(_start, starts))), warnings


def _started(config: Config) -> str:
    """When a start began, by which starts are in order: older versions named their files by the local time."""
    return config.provenance.started if config.provenance else ""


def _changes(before: Config, after: Config) -> list[str]:
    """Differences of two starts in `AGENTS`, `EVALUATIONS` and the seed; a setting that one lacks isn't compared."""
    was, now = ({"seed": each.seed} | schema.flattened(each.settings) for each in (before, after))
    common = [name for name in now if name in was and (name in ("seed", *EVALUATIONS) or name.startswith(AGENTS))]
    return [f"{name} was {was[name]}, is {now[name]}" for name in common if was[name] != now[name]]


def _start(config: Config) -> Provenance | None:
    """The provenance of a start; that of a sweep's population has the source of the program that its members run."""
    start, inner = config.provenance, config.inner
    return start if start is None or inner is None else dataclasses.replace(start, program=inner.source)
