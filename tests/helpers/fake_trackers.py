"""The least of trackers' packages, for where they aren't installed: what their sinks call, in memory."""

from __future__ import annotations

import pathlib
import types
from typing import Any, NamedTuple

Calls = list[tuple[str, dict[str, Any]]]  # What was called, and with what.


class _Run:
    """A run of Weights & Biases or trackio."""

    def __init__(self, calls: Calls):
        self._calls = calls

    def define_metric(self, name: str, *, step_metric: str) -> None:
        self._calls.append(("define_metric", {"name": name, "step_metric": step_metric}))

    def log(self, data: dict[str, float], step: int) -> None:
        self._calls.append(("log", {**data, "step": step}))

    def finish(self) -> None:
        self._calls.append(("finish", {}))


def runs(name: str) -> tuple[types.ModuleType, Calls]:
    """`wandb` or `trackio`, and the calls that it gets."""
    module: Any = types.ModuleType(name)
    calls: Calls = []

    def init(**settings: Any) -> _Run:
        calls.append(("init", settings))
        return _Run(calls)

    module.init = init
    module.Settings, module.teardown = dict, lambda: None
    module.Video = lambda path, format: {"video": path, "format": format}
    module.Histogram = lambda np_histogram: {"shares": np_histogram[0], "edges": np_histogram[1]}
    return module, calls


class Metric(NamedTuple):
    """A value of a metric."""

    key: str
    value: float
    timestamp: int
    step: int


class Param(NamedTuple):
    """A parameter of a run."""

    key: str
    value: str


class MlflowException(Exception):
    """What MLflow raises."""


def mlflow() -> dict[str, types.ModuleType]:
    """`mlflow` and its modules, by name; a client has one store, as with a server."""
    found: dict[str, types.SimpleNamespace] = {}  # Runs by id.
    history: dict[tuple[str, str], list[Metric]] = {}
    artifacts: list[tuple[str, str]] = []

    class MlflowClient:
        def get_experiment_by_name(self, name: str) -> Any:
            return types.SimpleNamespace(experiment_id="1") if found else None

        def create_experiment(self, name: str) -> str:
            return "1"

        def search_runs(self, experiments: list[str], filter_string: str = "", max_results: int = 1000) -> list:
            wanted = filter_string.partition("= '")[2].rstrip("'")
            return [run for run in found.values() if run.data.tags["boonta.id"] == wanted or not wanted]

        def create_run(self, experiment: str, tags: dict[str, str], run_name: str) -> Any:
            info = types.SimpleNamespace(run_id=f"run{len(found)}", run_name=run_name, status="RUNNING")
            found[info.run_id] = types.SimpleNamespace(info=info, data=types.SimpleNamespace(tags=tags, params={}))
            return found[info.run_id]

        def update_run(self, run_id: str, status: str) -> None:
            found[run_id].info.status = status

        def set_terminated(self, run_id: str) -> None:
            found[run_id].info.status = "FINISHED"

        def log_batch(self, run_id: str, metrics: Any = (), params: Any = ()) -> None:
            assert len(metrics) <= 1000 and len(params) <= 100
            found[run_id].data.params.update(params)
            for metric in metrics:
                history.setdefault((run_id, metric.key), []).append(metric)

        def log_artifact(self, run_id: str, path: str, folder: str) -> None:
            artifacts.append((run_id, f"{folder}/{pathlib.Path(path).name}"))

        def list_artifacts(self, run_id: str, folder: str) -> list[Any]:
            return [types.SimpleNamespace(path=path) for run, path in artifacts if run == run_id]

        def get_metric_history(self, run_id: str, key: str) -> list[Metric]:
            return history.get((run_id, key), [])

    modules: dict[str, Any] = {
        name: types.ModuleType(name) for name in ("mlflow", "mlflow.entities", "mlflow.exceptions")
    }
    modules["mlflow"].MlflowClient = MlflowClient
    modules["mlflow.entities"].Metric, modules["mlflow.entities"].Param = Metric, Param
    modules["mlflow.exceptions"].MlflowException = MlflowException
    return modules
