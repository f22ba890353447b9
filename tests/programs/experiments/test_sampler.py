"""Trials whose flags a sampler chooses: towards the best, early ends, and what another start goes on with."""

from __future__ import annotations

import json
import os
import pathlib

import optuna
import pytest
from optuna.trial import TrialState

from boonta.nodes import metrics
from boonta.programs.experiments import plan, sampler, spec
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.scheduler import DONE, FAILED, PRUNED, Scheduler, State
from boonta.programs.experiments.slots import Slot
from boonta.programs.wiring.run import BadInput

pytestmark = pytest.mark.once

STAND_IN = str(pathlib.Path(__file__).resolve().parents[2] / "helpers" / "stand_in.py")
SLOTS = [Slot(0, tuple(os.sched_getaffinity(0)), {})]
X = {"x": {"low": 0.0, "high": 1.0}}


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    """The stand-in is no program that could be built."""

    def alone(given, entries, folder):
        return [Job(entry.name, (entry,)) for entry in entries]

    monkeypatch.setattr(plan, "plan", alone)
    monkeypatch.setattr(sampler, "LOOK_EVERY_S", 0.0)


def source(folder: pathlib.Path, flags=X, **settings) -> sampler.Sampler:
    sample = {"trials": 3, "flags": flags, **settings}
    given = spec.made({"program": STAND_IN, "seeds": 2, "sample": sample}, "sweep.yaml")
    made = sampler.Sampler(given, folder, ["boonta", "sweep"])
    made.begin()
    return made


def run(folder: pathlib.Path, trials: sampler.Sampler) -> Scheduler:
    scheduler = Scheduler(folder, [], SLOTS, 0, source=trials)
    scheduler.run()
    return scheduler


def test_a_trial_has_a_run_for_each_seed_and_its_value_is_their_mean(tmp_path):
    scheduler = run(tmp_path, source(tmp_path))
    assert [state.job.name for state in scheduler.states] == [
        f"stand_in-trial{i}-seed{seed}" for i in range(3) for seed in (0, 1)
    ]
    assert {state.stage for state in scheduler.states} == {DONE}
    written = plan.read(tmp_path)
    assert written is not None
    flags = {record.name: record.differs["x"] for record in written.runs}
    again = source(tmp_path)
    for i, trial in enumerate(again._study.get_trials()):
        x = flags[f"stand_in-trial{i}-seed0"]
        assert x == flags[f"stand_in-trial{i}-seed1"] == trial.params["x"]
        assert trial.value == pytest.approx(-((x - 0.3) ** 2))


def written(folder: pathlib.Path, *rows: dict) -> pathlib.Path:
    """A run's metrics."""
    folder.mkdir(parents=True, exist_ok=True)
    counted = ({"env_steps": row["updates"], "seconds": row["updates"], **row} for row in rows)
    (folder / metrics.FILE).write_text("".join(json.dumps(row) + "\n" for row in counted))
    return folder


def test_evaluations_that_a_run_has_gone_back_on_do_not_count(tmp_path):
    evaluations = ((10, 5.0), (20, 9.0), (10, 5.0), (20, 1.0), (30, 2.0))
    rows = [{"updates": n, "eval_version": n, "eval_return": value} for n, value in evaluations]
    assert sampler.values_of(metrics.read(written(tmp_path, *rows)), "eval_return") == [5.0, 1.0, 2.0]


@pytest.mark.parametrize(("diverged", "state"), [(0, TrialState.COMPLETE), (2, TrialState.FAIL)])
def test_a_trial_with_members_that_diverged_has_failed(tmp_path, diverged, state):
    """Its metrics are means over the others."""
    trials = source(tmp_path)
    jobs = trials.take()
    for job in jobs:
        written(tmp_path / job.name, {"updates": 10, "eval_version": 10, "eval_return": 0.9, "diverged": diverged})
    for job in jobs:
        ended = State(job)
        ended.stage = DONE
        trials.ended(ended)
    assert trials._study.get_trials()[0].state == state


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ({"eval_retrun": 0.9}, "has no eval_return; did you mean 'eval_retrun'?"),
        ({"x": 0.9}, "has no eval_return; allowed: x."),
        ({"eval_return": None}, "its eval_return isn't finite, or not that of an evaluation"),
        ({"eval_return": 0.9, "diverged": 2}, "2 of its members have diverged"),
        (None, "has no eval_return; it has measured nothing"),
    ],
)
def test_a_job_that_gives_its_trial_no_value_has_failed_for_this_start_and_the_next(tmp_path, row, cause):
    trials = source(tmp_path, trials=1)
    jobs = trials.take()
    sound = {"updates": 10, "eval_version": 10, "eval_return": 0.9}
    written(tmp_path / jobs[0].name, sound)
    if row is not None:
        counted = {"updates": 10, "eval_version": 10}
        (tmp_path / jobs[1].name).mkdir()
        (tmp_path / jobs[1].name / metrics.FILE).write_text(
            json.dumps({**counted, **row, "env_steps": 10, "seconds": 10}) + "\n"
        )
    states = [State(job, DONE) for job in jobs]
    for state in states:
        trials.ended(state)
    told = [(state.stage, state.cause) for state in states]
    assert told == [(DONE, ""), (FAILED, cause)]
    again = Scheduler(tmp_path, [], SLOTS, 0, source=source(tmp_path, trials=1))
    assert again.run() == 1 and [(state.stage, state.cause) for state in again.states] == told


def test_another_start_makes_only_the_trials_that_are_missing(tmp_path):
    run(tmp_path, source(tmp_path, trials=2))
    scheduler = run(tmp_path, source(tmp_path, trials=3))
    assert [state.stage for state in scheduler.states] == [DONE] * 6
    starts = [(tmp_path / state.job.name / "starts").read_text().splitlines() for state in scheduler.states]
    assert [len(lines) for lines in starts] == [1] * 6
    xs = {record.differs["x"] for record in plan.read(tmp_path).runs}  # type: ignore[union-attr]
    assert len(xs) == 3  # The sampler's draws don't begin anew.


def test_a_trial_that_was_cut_off_goes_on_under_its_name_and_with_its_flags(tmp_path):
    first = source(tmp_path)
    (job, *_), again = first.take(), source(tmp_path)
    assert [each.name for each in again.take()] == [each.name for each in first._jobs]
    assert again._jobs[0].runs[0].flags == job.runs[0].flags
    scheduler = run(tmp_path, source(tmp_path))
    assert sorted(state.job.name for state in scheduler.states)[::2] == [f"stand_in-trial{i}-seed0" for i in range(3)]


def test_a_start_that_is_killed_while_it_reads_the_trials_loses_none(tmp_path, monkeypatch):
    first = source(tmp_path)
    jobs = [job.name for job in first.take()]
    with monkeypatch.context() as patched, pytest.raises(InterruptedError):
        patched.setattr(optuna.Study, "tell", lambda *args, **kwargs: (_ for _ in ()).throw(InterruptedError))
        source(tmp_path)
    again = source(tmp_path)
    assert [job.name for job in again.take()] == jobs
    assert {trial.state.name for trial in again._study.get_trials()} == {"FAIL", "RUNNING"}
    assert len([trial for trial in again._study.get_trials() if trial.state.name == "RUNNING"]) == 1


def test_a_trial_that_fails_is_not_made_again(tmp_path):
    scheduler = run(tmp_path, source(tmp_path, {"act": ["fails"]}, trials=1))
    assert [state.stage for state in scheduler.states] == [FAILED] * 2
    scheduler = run(tmp_path, source(tmp_path, {"act": ["fails"]}, trials=1))
    assert [state.stage for state in scheduler.states] == [FAILED] * 2
    assert len((tmp_path / "stand_in-trial0-seed0" / "starts").read_text().splitlines()) == 1


def test_a_trial_that_is_worse_than_the_median_ends_early(tmp_path):
    given = {"program": STAND_IN, "sample": {"trials": 6, "flags": {"act": ["done", "bad"]}}}

    def begun() -> sampler.Sampler:
        trials = sampler.Sampler(spec.made(given, "sweep.yaml"), tmp_path, [])
        trials.begin()
        return trials

    trials = begun()
    for act in ["done"] * 5 + ["bad"]:
        trials._study.enqueue_trial({"act": f'"{act}"'})
    scheduler = run(tmp_path, trials)
    assert [state.stage for state in scheduler.states] == [DONE] * 5 + [PRUNED]
    assert (tmp_path / "stand_in-trial5-seed0" / "saved").exists()
    assert [state.stage for state in run(tmp_path, begun()).states] == [DONE] * 5 + [PRUNED]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"x": [1, 2]}, "other values for x"),
        ({"y": [1]}, "have ..x.."),
    ],
)
def test_trials_of_another_sample_are_not_gone_on_with(tmp_path, flags, message):
    run(tmp_path, source(tmp_path, trials=1))
    with pytest.raises(BadInput, match=message):
        source(tmp_path, flags)


@pytest.mark.parametrize("changed", [{"seeds": 3}, {"flags": {"y": 2}}, {"metric": "loss"}])
def test_trials_are_not_gone_on_with_under_other_settings(tmp_path, changed):
    run(tmp_path, source(tmp_path, trials=1))
    sample = {"trials": 2, "flags": X} | {name: changed[name] for name in changed.keys() & {"metric"}}
    whole = {"seeds": 2, **changed, "program": STAND_IN, "sample": sample}
    whole.pop("metric", None)
    name, value = next(iter(changed.items()))
    with pytest.raises(BadInput, match=f"^{name} is {value}; the trials in .*optuna.log had .*another --workdir"):
        sampler.Sampler(spec.made(whole, "sweep.yaml"), tmp_path, []).begin()


def test_a_whole_number_a_logarithm_and_a_list(tmp_path):
    flags = {"n": {"low": 1, "high": 8}, "rate": {"low": 1e-4, "high": 1.0, "log": True}, "layers": [[64], [64, 64]]}
    job, *_ = source(tmp_path, flags).take()
    chosen = job.runs[0].differs
    assert isinstance(chosen["n"], int) and 1e-4 <= chosen["rate"] <= 1 and chosen["layers"] in ([64], [64, 64])
    assert sampler.probes(spec.Sample(1, {"a": spec.Range(1, 2), "b": [3, 4, 5]})) == [
        {"a": 1, "b": 3}, {"a": 2, "b": 4}, {"a": 2, "b": 5}
    ]  # fmt: skip


@pytest.mark.parametrize("others", [{"env": ["a", "b"]}, {"grid": {"y": [1]}}, {"runs": [{"y": 1}]}])
def test_trials_of_what_does_not_compare_are_refused(tmp_path, others):
    given = spec.made({"program": STAND_IN, "sample": {"trials": 1, "flags": X}, **others}, "sweep.yaml")
    with pytest.raises(BadInput, match="sample is for one program and one env"):
        sampler.Sampler(given, tmp_path, [])
