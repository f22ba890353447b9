"""MLflow. Its own variables (MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME, ...) name the server."""

from __future__ import annotations

import json
import os
import pathlib
import re
import time
from collections.abc import Mapping
from typing import Any

# By default MLflow waits for minutes and retries by itself; here the row is sent again instead.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")

# isort: split

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from boonta.nodes.metrics import step_of
from boonta.nodes.sinks.base import VIDEOS, TrackedRun, split
from boonta.nodes.snapshots.schema import flattened

ID = "boonta.id"  # The tag that identifies a run.
MOST_PARAMS, MOST_METRICS, LONGEST = 100, 1000, 6000  # MLflow's limits of a request, and of the letters of a param.


class MLflow:
    """A run on MLflow. Its params are those of the run's first start, since MLflow can't change params."""

    def begin(self, run: TrackedRun) -> None:
        self._client = MlflowClient()
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "boonta"))
        found = self._client.search_runs([experiment], f"tags.`{ID}` = '{run.id}'", max_results=1)
        own = found[0] if found else self._client.create_run(experiment, tags=_tags(run), run_name=run.folder.name)
        self._run_id = own.info.run_id
        if found:
            self._client.update_run(self._run_id, status="RUNNING")
        params = [Param(_key(name), _text(value)) for name, value in flattened(run.config).items()]
        # An earlier `begin` may have failed between two requests.
        missing = [param for param in params if param.key not in own.data.params]
        for i in range(0, len(missing), MOST_PARAMS):
            self._client.log_batch(self._run_id, params=missing[i : i + MOST_PARAMS])

    def write(self, row: Mapping[str, float]) -> None:
        now, step = int(time.time() * 1000), step_of(row)[1]
        metrics = [Metric(_key(name), value, now, step) for name, value in split(row)[0].items()]
        for i in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=metrics[i : i + MOST_METRICS])

    def video(self, path: pathlib.Path, step: int) -> None:
        self._client.log_artifact(self._run_id, str(path), VIDEOS)

    def close(self) -> None:
        self._client.set_terminated(self._run_id)

    def _experiment(self, name: str) -> str:
        """The id of the experiment of this name, which is made if there is none."""
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return found.experiment_id
        try:
            return self._client.create_experiment(name)
        except MlflowException:  # Another run of a sweep has just made it.
            found = self._client.get_experiment_by_name(name)
            if found is None:
                raise
            return found.experiment_id


def _tags(run: TrackedRun) -> dict[str, Any]:
    source = (run.config.get("provenance") or {}).get("program") or {}
    commit = {"mlflow.source.git.commit": source["commit"]} if source.get("commit") else {}
    return {ID: run.id, "boonta.group": run.group, "boonta.folder": str(run.folder.absolute()), **commit}


def _key(name: str) -> str:
    """A name without the letters that MLflow refuses in names."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:LONGEST]
