"""The sinks of trackers: with the real packages, offline, where they are installed, and with the least of them."""

from __future__ import annotations

import importlib
import importlib.util
import sqlite3
import sys
from typing import Any

import pytest

from boonta.nodes.sinks import base
from boonta.tests.helpers import fake_trackers

ID = "0123456789abcdef" * 2
CONFIG = {
    "program": "impala",
    "seed": 3,
    "settings": {"config": {"optimiser": {"learning_rate": 0.1}, "widths": [64, 64]}},
    "provenance": {"program": {"commit": "c0ffee"}, "versions": {"jax": "0.6.2"}},
}
ROWS = [{"env_steps": 10.0, "loss": 0.5, "share/learner/updating": 0.25}, {"env_steps": 30.0, "loss": 0.25}]


@pytest.fixture(autouse=True)
def sinks_alone(monkeypatch, tmp_path):
    """No sink keeps a module, a store or a setting of another test's."""
    for name in ("MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES"):
        monkeypatch.setenv(name, "20")
    for name in ("WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME", "TRACKIO_PROJECT"):
        monkeypatch.setenv(name, "of-tests")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    yield
    for tracker in base.TRACKERS.values():
        sys.modules.pop(tracker.module, None)


def is_real(kind: str, package: str) -> bool:
    """Whether the test is to have the real package; skipped if it isn't installed."""
    if kind == "real" and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} isn't installed: it is an extra")
    return kind == "real"


def track(name: str, folder, *lives: list[dict[str, float]]) -> None:
    """Writes the rows of several lives of one run."""
    folder.mkdir(exist_ok=True)
    taken = 0
    for rows in lives:
        sink = base.make(name)
        sink.begin(base.TrackedRun(folder, ID, "a-sweep", CONFIG, taken))
        for row in rows:
            sink.write(row)
        sink.close()
        taken += len(rows)


both = pytest.mark.parametrize("kind", ["real", "fake"])


def test_wandb_goes_on_with_the_run_and_counts_rows(tmp_path, monkeypatch):
    module, calls = fake_trackers.runs("wandb")
    monkeypatch.setitem(sys.modules, "wandb", module)
    track("wandb", tmp_path / "impala-catch", ROWS[:1], ROWS[1:])
    init = calls[0][1]
    assert {name: init[name] for name in ("project", "id", "name", "group", "resume")} == {
        "project": "of-tests", "id": ID, "name": "impala-catch", "group": "a-sweep", "resume": "allow",
    }  # fmt: skip
    assert init["config"] == CONFIG and init["dir"] == tmp_path / "impala-catch"
    assert [what for what, _ in calls] == ["init", "define_metric", "log", "finish"] * 2
    assert calls[1][1] == {"name": "*", "step_metric": "env_steps"}
    assert [given for what, given in calls if what == "log"] == [{**ROWS[0], "step": 0}, {**ROWS[1], "step": 1}]


def test_wandbs_charts_of_a_run_without_env_steps_are_over_updates(tmp_path, monkeypatch):
    module, calls = fake_trackers.runs("wandb")
    monkeypatch.setitem(sys.modules, "wandb", module)
    sink: Any = base.make("wandb")
    sink.begin(base.TrackedRun(tmp_path, ID, "", CONFIG))
    for row in ({"loss": 1.0}, {"updates": 5.0, "loss": 0.5}, {"updates": 6.0, "loss": 0.25}):
        sink.write(row)
    sink.video(tmp_path / "film.gif", 6)
    axes = [given["step_metric"] for what, given in calls if what == "define_metric"]
    assert axes == ["env_steps", "updates"]  # Before anything is counted it is not known.
    assert calls[-1][1]["updates"] == 6 and "env_steps" not in calls[-1][1]


def test_mlflows_steps_are_updates_where_no_env_steps_are_counted(tmp_path, monkeypatch):
    for name, module in fake_trackers.mlflow().items():
        monkeypatch.setitem(sys.modules, name, module)
    track("mlflow", tmp_path / "unplugged", [{"updates": 5.0, "loss": 0.5}])
    client: Any = importlib.import_module("mlflow").MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("of-tests").experiment_id])
    assert [metric.step for metric in client.get_metric_history(run.info.run_id, "loss")] == [5]


def test_wandb_keeps_a_run_offline(tmp_path):
    is_real("real", "wandb")
    track("wandb", tmp_path / "impala-catch", ROWS)
    (kept,) = (tmp_path / "impala-catch" / "wandb").glob(f"offline-run-*-{ID}/run-{ID}.wandb")
    content = kept.read_bytes()
    assert all(word in content for word in (b"impala-catch", b"a-sweep", b"c0ffee", b"loss", b"0.25"))


@both
def test_mlflow_goes_on_with_the_run_by_env_steps(tmp_path, monkeypatch, kind):
    if not is_real(kind, "mlflow"):
        for name, module in fake_trackers.mlflow().items():
            monkeypatch.setitem(sys.modules, name, module)
    track("mlflow", tmp_path / "impala-catch", ROWS[:1], ROWS[1:])
    client: Any = importlib.import_module("mlflow").MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("of-tests").experiment_id])
    assert (run.info.run_name, run.info.status) == ("impala-catch", "FINISHED")
    assert run.data.params["settings.config.optimiser.learning_rate"] == "0.1"
    assert run.data.params["settings.config.widths"] == "[64, 64]"
    assert run.data.params["provenance.versions.jax"] == "0.6.2"
    assert run.data.tags["mlflow.source.git.commit"] == "c0ffee" and run.data.tags["boonta.group"] == "a-sweep"
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [(metric.step, metric.value) for metric in history] == [(10, 0.5), (30, 0.25)]
    assert len(client.get_metric_history(run.info.run_id, "share/learner/updating")) == 1


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_histogram_and_a_video_come_in_the_trackers_own_form_if_it_has_one(tmp_path, monkeypatch, name):
    module, calls = fake_trackers.runs(name)
    monkeypatch.setitem(sys.modules, name, module)
    bins = {"histogram/rho/1.03": 0.75, "histogram/rho/inf": 0.25, "histogram/rho/0.97": 0.0}
    sink: Any = base.make(name)
    sink.begin(base.TrackedRun(tmp_path, ID, "", CONFIG))
    sink.write({**ROWS[0], **bins})
    sink.video(tmp_path / "film.gif", 20)
    drawn = {"histogram/rho": {"shares": [0.0, 0.75, 0.25], "edges": [0.0, 0.97, 1.03, 2.06]}}
    film = {"video": str(tmp_path / "film.gif"), "format": "gif"}
    assert [given for what, given in calls if what == "log"] == [
        {**ROWS[0], **(drawn if name == "wandb" else {}), "step": 0},
        {"videos": film, "env_steps": 20, "step": 1},
    ]


@both
def test_mlflow_keeps_videos_and_no_histograms(tmp_path, monkeypatch, kind):
    if not is_real(kind, "mlflow"):
        for name, module in fake_trackers.mlflow().items():
            monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)  # Its artifacts are in the working directory.
    (tmp_path / "film.gif").write_bytes(b"GIF89a")
    sink: Any = base.make("mlflow")
    sink.begin(base.TrackedRun(tmp_path, ID, "", CONFIG))
    sink.write({**ROWS[0], "histogram/rho/inf": 1.0})
    sink.video(tmp_path / "film.gif", 20)
    sink.close()
    client: Any = importlib.import_module("mlflow").MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("of-tests").experiment_id])
    assert [each.path for each in client.list_artifacts(run.info.run_id, "videos")] == ["videos/film.gif"]
    assert not client.get_metric_history(run.info.run_id, "histogram/rho/inf")


def test_mlflow_takes_many_metrics_and_names_in_its_own_letters(tmp_path, monkeypatch):
    """Its limits are in the fake, too."""
    for name, module in fake_trackers.mlflow().items():
        monkeypatch.setitem(sys.modules, name, module)
    track("mlflow", tmp_path / "run", [{f"loss[{i}]": float(i) for i in range(2500)}])
    client: Any = sys.modules["mlflow"].MlflowClient()  # type: ignore[attr-defined]
    assert client.get_metric_history("run0", "loss_2499_")[0].value == 2499.0


def test_mlflow_gets_the_params_that_a_broken_connection_has_withheld(tmp_path, monkeypatch):
    for name, module in fake_trackers.mlflow().items():
        monkeypatch.setitem(sys.modules, name, module)
    settings = {f"setting{i}": i for i in range(150)}  # More than go into one request.
    sink, run = base.make("mlflow"), base.TrackedRun(tmp_path / "run", ID, "", settings)
    kind: Any = sys.modules["mlflow"].MlflowClient  # type: ignore[attr-defined]
    log = kind.log_batch

    def log_once(*args: Any, **given: Any) -> None:
        log(*args, **given)
        monkeypatch.setattr(kind, "log_batch", breaks)

    def breaks(*args: Any, **given: Any) -> None:
        raise OSError("the connection is broken")

    monkeypatch.setattr(kind, "log_batch", log_once)
    with pytest.raises(OSError, match="broken"):
        sink.begin(run)
    monkeypatch.setattr(kind, "log_batch", log)
    base.make("mlflow").begin(run)
    (found,) = kind().search_runs(["1"])
    assert found.data.params == {name: str(value) for name, value in settings.items()}


@both
def test_trackio_goes_on_with_the_run_and_counts_rows(tmp_path, monkeypatch, kind):
    name = f"impala-catch-{ID[:8]}"
    calls: fake_trackers.Calls = []
    if not is_real(kind, "trackio"):
        module, calls = fake_trackers.runs("trackio")
        monkeypatch.setitem(sys.modules, "trackio", module)
    track("trackio", tmp_path / "impala-catch", ROWS[:1], ROWS[1:])
    if kind == "fake":
        assert calls[0][1]["name"] == name and calls[0][1]["config"] == CONFIG and calls[0][1]["group"] == "a-sweep"
        assert [given for what, given in calls if what == "log"] == [{**ROWS[0], "step": 0}, {**ROWS[1], "step": 1}]
    else:
        with sqlite3.connect(tmp_path / "trackio" / "of-tests.db") as store:
            found = store.execute("select run_name, step, metrics from metrics order by step").fetchall()
        assert [each[:2] for each in found] == [(name, 0), (name, 1)] and "0.25" in str(found[1][2])
