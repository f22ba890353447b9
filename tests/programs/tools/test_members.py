"""A population's table and picture."""

from __future__ import annotations

import json

import imageio.v3 as imageio
import pytest

from boonta.programs.tools import members
from boonta.programs.wiring.run import BadInput


def test_the_best_combination_comes_first(tmp_path, capsys):
    rows = [
        {"member": i, "seed": i % 2, "learning_rate": rate, "updates": updates, "eval_return": value, "return": 9.0}
        for updates, values in ((10, (0, 0, 1, 1)), (20, (0.25, 0.75, -1, 0)))
        for i, (rate, value) in enumerate(zip((0.1, 0.1, 0.5, 0.5), values))
    ]
    (tmp_path / "members.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert members.curves_of(tmp_path)[(("learning_rate", 0.5),)] == {10: [1, 1], 20: [-1, 0]}
    members.members(tmp_path)
    output = capsys.readouterr().out
    assert output.index("0.500") < output.index("-0.500")
    assert imageio.imread(tmp_path / "members.png").shape[:2] == (440, 770)


def write(folder, *rows: dict, cut: str = "") -> None:
    (folder / "members.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + cut)


def row(member: int, rate: float, eval_return: float, **others) -> dict:
    return {
        "member": member,
        "seed": member,
        "learning_rate": rate,
        "updates": 10,
        "eval_return": eval_return,
        **others,
    }


def test_a_resumed_run_counts_each_member_once(tmp_path):
    write(tmp_path, row(0, 0.1, 0.0), row(1, 0.1, 1.0), row(0, 0.1, 0.5), cut='{"member": 1, "se')
    assert members.curves_of(tmp_path) == {(("learning_rate", 0.1),): {10: [0.5, 1.0]}}


def test_members_that_diverged_are_counted_and_left_out(tmp_path, capsys):
    rows = [row(0, 0.1, 0.25, loss=1.0), row(1, 0.1, 0.9, loss=None), row(2, 0.5, 1.0, loss=None)]
    write(tmp_path, *rows)
    members.members(tmp_path)
    lines = capsys.readouterr().out.splitlines()
    first, second = (line.replace("│", " ").split() for line in lines if line.startswith("│"))
    assert first == ["0.1", "2", "1", "0.250", "0.250", "0.250"]
    assert second == ["0.5", "1", "1", "nan", "nan", "nan"]


def test_a_run_without_an_evaluation_is_told(tmp_path):
    write(tmp_path)
    with pytest.raises(BadInput, match="has no evaluation in members.jsonl yet"):
        members.members(tmp_path)


def test_rows_without_a_member_and_numbers_that_no_picture_has_are_told(tmp_path, capsys):
    write(tmp_path, {"updates": 1}, {"member": 1, "updates": None}, row(0, 0.1, 0.5, decay=None))
    assert members.curves_of(tmp_path) == {(("learning_rate", 0.1),): {10: [0.5]}}
    write(tmp_path, row(0, 1e308, 1e308), {**row(0, 0.1, -1e308), "updates": 1e308})
    with pytest.raises(BadInput, match="--out .* can't be written"):
        members.members(tmp_path)


def test_a_folder_of_no_population(tmp_path):
    with pytest.raises(BadInput, match="has no members.jsonl"):
        members.members(tmp_path)
