"""trackio. Its own variables (TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL, ...) choose folder or server."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import trackio

from boonta.nodes.sinks.base import Numbered, TrackedRun

SHORT = 8  # Letters of the id in a run's name: trackio identifies runs by name, and two folders may share one.


class Trackio(Numbered):
    """A run on trackio, named by the run's folder and id; its step is the number of the row."""

    def begin(self, run: TrackedRun) -> None:
        tracker = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", "boonta"),
            name=f"{run.folder.name}-{run.id[:SHORT]}",
            group=run.group or None,
            config=dict(run.config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        self.go_on(tracker, run.rows)

    def film(self, path: pathlib.Path) -> Any:
        return trackio.Video(str(path), format="gif")
