"""Learning curves as pictures."""

from __future__ import annotations

import json

import imageio.v3 as imageio
import pytest

from boonta.programs.tools import plot
from boonta.programs.wiring.run import BadInput


def test_curves_of_two_runs(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        rows = [
            {"seconds": 1.0},
            {"env_steps": 10.0, "return": -1.0},
            {"eval_return": 0, "eval_version": 0},
            {"env_steps": 20.0, "return": 1, "eval_return": 2, "eval_version": 9},
            {"env_steps": 30.0, "return": None, "eval_return": None, "eval_version": 12},
        ]
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plot.plot((tmp_path / "a", tmp_path / "b"), tmp_path / "curve.png")
    picture = imageio.imread(tmp_path / "curve.png")
    assert picture.shape[:2] == (440, 770)
    assert len({tuple(pixel) for row in picture[::4, ::4] for pixel in row}) > 3  # Two colours of curve at the least.


def test_a_folder_without_metrics_is_named(tmp_path):
    with pytest.raises(BadInput, match=f"--workdir {tmp_path} has no metrics"):
        plot.plot((tmp_path,), tmp_path / "curve.png")
    (tmp_path / "metrics.jsonl").write_text('{"seconds": 1.0}\n')
    with pytest.raises(BadInput, match=f"--workdir {tmp_path} has no returns by env_steps yet"):
        plot.plot((tmp_path,), tmp_path / "curve.png")


def test_rows_that_are_no_numbers_are_left_out(tmp_path):
    rows = ['{"env_steps": 1, "return": "1"}', '{"env_steps": 1, "eval_return": 1}', "[]", '{"env_steps": 1']
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows))
    with pytest.raises(BadInput, match="has no returns by env_steps yet"):
        plot.plot((tmp_path,), tmp_path / "curve.png")


@pytest.mark.parametrize("name", ["curve.nonsense", "missing/curve.png"])
def test_a_picture_that_cannot_be_written(tmp_path, name):
    (tmp_path / "metrics.jsonl").write_text('{"env_steps": 1.0, "return": 1.0}\n')
    with pytest.raises(BadInput, match=f"--out {tmp_path}/{name} can't be written"):
        plot.plot((tmp_path,), tmp_path / name)
