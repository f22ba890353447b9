"""A population's table and picture."""

from __future__ import annotations

import json

import imageio.v3 as imageio
import pytest

from programs import members
from programs.run import BadInput


def test_the_best_combination_comes_first(tmp_path, capsys):
    rows = [
        {"member": i, "seed": i % 2, "learning_rate": rate, "updates": updates, "eval_return": value, "return": 9.0}
        for updates, values in ((10, (0, 0, 1, 1)), (20, (0.25, 0.75, -1, 0)))
        for i, (rate, value) in enumerate(zip((0.1, 0.1, 0.5, 0.5), values))
    ]
    (tmp_path / "members.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert members.curves_of(tmp_path)[(("learning_rate", 0.5),)] == {10: [1, 1], 20: [-1, 0]}
    members.members(tmp_path)
    said = capsys.readouterr().out
    assert said.index("0.500") < said.index("-0.500")
    assert imageio.imread(tmp_path / "members.png").shape[:2] == (440, 770)


def test_a_folder_of_no_population(tmp_path):
    with pytest.raises(BadInput, match="has no members.jsonl"):
        members.members(tmp_path)
