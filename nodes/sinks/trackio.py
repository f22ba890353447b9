"""trackio. Its own variables (TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL, ...) say where to."""

from __future__ import annotations

import os

import trackio

from boonta.nodes.sinks.base import Numbered, TrackedRun

SHORT = 8  # Letters of the id; runs are known by their names, which two folders may share.


class Trackio(Numbered):
    """A run there, named by the run's folder and id."""

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
