"""Weights & Biases. Its own variables (WANDB_PROJECT, WANDB_ENTITY, WANDB_API_KEY, ...) choose project and account."""

from __future__ import annotations

import os
from collections.abc import Mapping

import wandb

from boonta.nodes.sinks.base import TrackedRun

REACH_S = 30.0  # Deadline of the server's first answer, after which the row is sent again.


class WandB:
    """A run on Weights & Biases, with charts over env steps and its files in `wandb/` in the run's folder.

    Its own step is the number of the row: a row that comes twice counts once, and a run that goes on from an older
    checkpoint, with fewer env steps than before, is not refused.
    """

    def begin(self, run: TrackedRun) -> None:
        self._run = wandb.init(
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
        self._run.define_metric("*", step_metric="env_steps")
        self._number = run.rows

    def write(self, row: Mapping[str, float]) -> None:
        self._run.log(dict(row), step=self._number)
        self._number += 1

    def close(self) -> None:
        self._run.finish()
        wandb.teardown()  # Offline, its own process may still write after `finish`.
