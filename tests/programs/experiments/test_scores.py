"""Which number counts as a run's score: that of an evaluation after the run, or the run's own last one."""

from __future__ import annotations

import pytest

from boonta.nodes.snapshots import manifest
from boonta.programs.experiments.scores import Score
from boonta.tests.helpers import run_folders
from boonta.tests.helpers.run_folders import EVALUATED, read_results, write_lines, write_run

pytestmark = pytest.mark.once


def test_an_evaluation_after_the_run_is_its_score(tmp_path):
    folder = write_run(tmp_path)
    lines = [{**EVALUATED, "returns": [9.0]}, {**EVALUATED, "which": "best", "returns": [5.0]}, EVALUATED]
    write_lines(folder / "evaluations.jsonl", lines, cut='{"updates": 3, "wh')
    (result,), warnings = read_results(folder)
    assert result.score == Score(1.5, "evaluation after the run, newest checkpoint, deterministic", 2)
    (warning,) = warnings
    assert "line 4 of evaluations.jsonl is cut or malformed, and left out" in warning
    (result,), _ = read_results(folder, which="best")
    assert result.score.value == 5.0
    (folder / "evaluations.jsonl").unlink()
    (result,), (warning,) = read_results(folder, which="best")
    assert result.score.value == 1.0 and "has no evaluation of its best checkpoint after the run" in warning


def test_an_evaluation_before_the_runs_end_does_not_count(tmp_path):
    folder = write_run(tmp_path)
    write_lines(folder / "evaluations.jsonl", [{**EVALUATED, "updates": 2}])
    (result,), (warning,) = read_results(folder)
    assert result.score == Score(1.0, "last evaluation of the run", 20)
    assert "was evaluated after 2 updates, and has made 3: its last evaluation in the run counts" in warning


def write_checkpoint(folder, number):
    """A sound snapshot."""
    path = folder / str(number)
    path.mkdir(parents=True)
    (path / "params").write_text("…")
    manifest.write(path, number)
    return path


@pytest.mark.parametrize("name", ["checkpoints", "members"])
def test_an_evaluation_of_the_newest_sound_checkpoint_counts_though_the_run_was_killed_later(tmp_path, name):
    """The rows of a run go further than its last checkpoint where a kill has ended it."""
    folder = write_run(tmp_path / "run", end=())
    write_checkpoint(folder / name, 2)
    write_lines(folder / "evaluations.jsonl", [{**EVALUATED, "updates": 2}])
    (result,), (warning,) = read_results(folder)
    assert result.score.value == 1.5 and warning.startswith("run has not reached its stop rule: it was cut off")
    newer = write_checkpoint(folder / name, 3)
    (result,), (_, warning) = read_results(folder)
    assert result.score == Score(1.0, "last evaluation of the run", 20)
    expected = "run was evaluated after 2 updates, and has a checkpoint of 3: its last evaluation in the run counts"
    assert warning == f"{expected}; evaluate it again"
    (newer / "params").write_text("torn")  # `boonta evaluate` takes the one before.
    (result,), _ = read_results(folder)
    assert result.score.value == 1.5


def test_an_evaluation_of_an_earlier_best_checkpoint_does_not_count(tmp_path):
    folder = write_run(tmp_path / "run")
    write_checkpoint(folder / "checkpoints" / "best", 2)
    write_lines(folder / "evaluations.jsonl", [{**EVALUATED, "updates": 2, "which": "best"}])
    (result,), warnings = read_results(folder, which="best")
    assert result.score.value == 1.5 and not warnings
    write_checkpoint(folder / "checkpoints" / "best", 3)
    (result,), (warning,) = read_results(folder, which="best")
    assert result.score.value == 1.0
    assert warning.startswith("run was evaluated after 2 updates, and its best checkpoint is that of 3 now: its last")


def test_an_evaluation_with_returns_that_are_not_finite_does_not_count(tmp_path):
    folder = write_run(tmp_path / "run")
    write_lines(folder / "evaluations.jsonl", [{**EVALUATED, "returns": [1.0, None]}])
    (result,), (warning,) = read_results(folder)
    assert result.score.value == 1.0
    assert warning == (
        "run was evaluated after 3 updates with returns that aren't finite: its last evaluation in the run counts"
    )


@pytest.mark.parametrize("members", [0, 2])
@pytest.mark.parametrize(
    ("end", "expected"), [(315, []), (400, ["run was last evaluated after 300 of 400 env steps: `boonta evaluate`"])]
)
def test_a_last_evaluation_long_before_the_runs_end_is_named_once(tmp_path, members, end, expected):
    scale = members or 1  # A population counts the env steps of all its members.
    made = [{**row, "env_steps": row["env_steps"] * scale} for row in run_folders.rows([0.0, 0.5, 1.0])]
    made.append({"env_steps": end * scale, "seconds": end / 10, "updates": end / 100})
    folder = write_run(tmp_path / "run", metrics=made)
    if members:
        rows = [{"member": i, "seed": i, "updates": n, "eval_return": n} for n in (1, 2, 3) for i in range(members)]
        write_lines(folder / "members.jsonl", rows)
    found, warnings = read_results(folder)
    assert len(found) == scale and [line[: len(expected[0])] for line in warnings if expected] == expected
    assert bool(warnings) == bool(expected)
