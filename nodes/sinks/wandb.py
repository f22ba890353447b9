"""Weights & Biases. Its own variables (WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE, WANDB_API_KEY, ...) say where to."""

from __future__ import annotations

import os

import wandb

from boonta.nodes.sinks.base import Numbered, TrackedRun

REACH_S = 30.0  # Time that its server has for the first answer; then it is tried again.


class WandB(Numbered):
    """A run there, whose charts are over env steps; its files are in `wandb/` in the run's folder."""

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

    def close(self) -> None:
        super().close()
        wandb.teardown()  # Offline, its own process may still write after `finish`.
