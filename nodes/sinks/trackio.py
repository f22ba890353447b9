"""trackio. Its own variables (TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL, ...) choose folder or server."""

from __future__ import annotations

import os
from collections.abc import Mapping

import trackio

from boonta.nodes.sinks.base import TrackedRun

SHORT = 8  # Letters of the id in a run's name: trackio identifies runs by name, and two folders may share one.


class Trackio:
    """A run on trackio, named by the run's folder and id; its step is the number of the row."""

    def begin(self, run: TrackedRun) -> None:
        self._run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", "boonta"),
            name=f"{run.folder.name}-{run.id[:SHORT]}",
            group=run.group or None,
            config=dict(run.config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        self._number = run.rows

    def write(self, row: Mapping[str, float]) -> None:
        self._run.log(dict(row), step=self._number)
        self._number += 1

    def close(self) -> None:
        self._run.finish()
