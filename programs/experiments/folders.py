"""The runs that the paths on a tool's command line name: folders of runs, and of sweeps."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Collection, Mapping, Sequence

from boonta.nodes import metrics
from boonta.nodes.snapshots import schema
from boonta.programs.experiments import plan
from boonta.programs.experiments.results import Recorded, recorded
from boonta.programs.wiring.run import BadInput

# The folder of an earlier comparison, and pictures of earlier plots, which a pattern such as runs/* finds, too.
COMPARISON = "comparison"
PICTURES = (".png", ".svg", ".pdf")


def folders_of(paths: Sequence[pathlib.Path]) -> dict[pathlib.Path, bool]:
    """The run folders that paths name; a sweep's names all of its runs that have been started, a comparison's none.

    Returns:
      By folder, whether a path is this very folder, and not just that of its sweep.

    Raises:
      BadInput: a path is neither, or there is no run.
    """
    found: dict[pathlib.Path, bool] = {}
    for path in paths:
        runs = [path] if (path / schema.CONFIG).is_file() else []
        if (path / plan.FILE).is_file():
            runs += sorted(config.parent for config in path.glob(f"*/{schema.CONFIG}"))
            if not runs:
                raise BadInput(f"{path} is a sweep of which no run has been started yet")
        if not runs and path.name != COMPARISON and path.suffix not in PICTURES:
            raise BadInput(f"{path} is no run's folder, with a {schema.CONFIG}, nor a sweep's, with a {plan.FILE}")
        for run in runs:
            found[run.resolve()] = run == path or found.get(run.resolve(), False)
    if not found:
        raise BadInput("there is no run: give folders of runs or of sweeps")
    return found


def folder_of_all(paths: Sequence[pathlib.Path]) -> pathlib.Path:
    """The folder that is given, or that holds all that are."""
    return pathlib.Path(os.path.commonpath([path.absolute() for path in paths]))


def all_recorded(
    folders: Mapping[pathlib.Path, bool], wanted: Collection[str] | None = None
) -> tuple[list[Recorded], list[str]]:
    """Reads the files of runs.

    Args:
      folders: from `folders_of`.
      wanted: see `recorded`.

    Returns:
      The runs, and a warning for each run of a sweep that is left out, since it has no metrics yet.

    Raises:
      BadInput: as `recorded`; or no run of a sweep has metrics.
    """
    runs, warnings = [], []
    for folder, asked in folders.items():
        if asked or (folder / metrics.FILE).exists():
            runs.append(recorded(folder, asked, wanted))
        else:
            warnings.append(f"{folder.name} has no {metrics.FILE} yet, and is left out")
    if not runs:
        raise BadInput(f"there is nothing to show: {'; '.join(warnings)}")
    return runs, warnings
