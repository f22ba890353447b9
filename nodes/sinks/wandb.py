"""Weights & Biases. Its own variables (WANDB_PROJECT, WANDB_ENTITY, WANDB_API_KEY, ...) choose project and account."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import wandb

from boonta.nodes.metrics import step_of
from boonta.nodes.sinks.base import Numbered, TrackedRun

REACH_S = 30.0  # Deadline of the server's first answer, after which the row is sent again.


class WandB(Numbered):
    """A run on Weights & Biases, with charts over env steps or else updates; its files lie in `wandb/` there."""

    def begin(self, run: TrackedRun) -> None:
        tracker = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "boonta"),
            id=run.id,
            name=run.folder.name,
            group=run.group or None,
            dir=run.folder,
            config=dict(run.config),
            resume="allow",
            reinit="finish_previous",
            settings=wandb.Settings(init_timeout=REACH_S, console="off"),
        )
        tracker.define_metric("*", step_metric="env_steps")
        self.go_on(tracker, run.rows)

    def write(self, row: Mapping[str, float]) -> None:
        if (axis := step_of(row)[0]) != self._axis:
            self._run.define_metric("*", step_metric=axis)
        super().write(row)

    def histogram(self, bins: Mapping[float, float]) -> Any:
        return wandb.Histogram(np_histogram=(list(bins.values()), [0.0, *bins]))

    def film(self, path: pathlib.Path) -> Any:
        return wandb.Video(str(path), format="gif")

    def close(self) -> None:
        super().close()
        wandb.teardown()  # Offline, its own process may still write after `finish`.
