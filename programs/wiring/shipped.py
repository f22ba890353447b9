"""The programs that come with Boonta."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from boonta.programs.wiring.run_folder.provenance import ROOT

FOLDER = ROOT / "programs"  # The files on top are programs, which users copy and change.


def programs() -> Mapping[str, pathlib.Path]:
    """The file of each program, by its name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.py")) if path.stem != "__init__"}
