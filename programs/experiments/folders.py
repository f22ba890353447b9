"""The runs that the paths on a tool's command line name: folders of runs, and of sweeps."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from boonta.nodes import metrics
from boonta.nodes.snapshots import schema
from boonta.programs.experiments.results import Recorded, recorded
from boonta.programs.wiring.run import BadInput

SWEEP = "sweep.json"
COMPARISON = "comparison"  # The folder of an earlier comparison, which a pattern such as runs/* finds, too.


def folders_of(paths: Sequence[pathlib.Path]) -> list[pathlib.Path]:
    """The run folders that paths name; a sweep's names all of its runs that have been started, a comparison's none.

    Raises:
      BadInput: a path is neither, or there is no run.
    """
    found: dict[pathlib.Path, None] = {}  # A set in order.
    for path in paths:
        runs = [path] if (path / schema.CONFIG).is_file() else []
        if (path / SWEEP).is_file():
            runs = sorted(config.parent for config in path.glob(f"*/{schema.CONFIG}"))
            if not runs:
                raise BadInput(f"{path} is a sweep of which no run has been started yet")
        if not runs and path.name != COMPARISON:
            raise BadInput(f"{path} is no run's folder, with a {schema.CONFIG}, nor a sweep's, with a {SWEEP}")
        found |= dict.fromkeys(run.resolve() for run in runs)
    if not found:
        raise BadInput("there is no run: give folders of runs or of sweeps")
    return list(found)


def folder_of_all(paths: Sequence[pathlib.Path]) -> pathlib.Path:
    """The folder that is given, or that holds all that are."""
    return pathlib.Path(os.path.commonpath([path.absolute() for path in paths]))


def all_recorded(paths: Sequence[pathlib.Path]) -> tuple[list[Recorded], list[str]]:
    """Reads the files of the runs that paths name.

    Returns:
      The runs, and a warning for each run of a sweep that is left out, since it has no metrics yet.

    Raises:
      BadInput: as `folders_of` and `recorded`; or no run of a sweep has metrics.
    """
    named = {path.resolve() for path in paths}
    runs, warnings = [], []
    for folder in folders_of(paths):
        if folder in named or (folder / metrics.FILE).exists():
            runs.append(recorded(folder, folder in named))
        else:
            warnings.append(f"{folder.name} has no {metrics.FILE} yet, and is left out")
    if not runs:
        raise BadInput(f"there is nothing to show: {'; '.join(warnings)}")
    return runs, warnings
