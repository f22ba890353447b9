"""The rows of a run that goes on, for those who look at them again and again."""

from __future__ import annotations

from boonta.nodes import metrics
from boonta.nodes.snapshots import schema
from boonta.programs.wiring.run_folder.state import GrowingRows


def test_a_look_parses_only_the_rows_that_are_new(tmp_path, monkeypatch):
    parsed, load = [], schema.load
    monkeypatch.setattr(schema, "load", lambda form, line: parsed.append(line) or load(form, line))
    rows, chosen = GrowingRows(tmp_path), GrowingRows(tmp_path, ("a", "c"))
    assert rows.look() == []
    with open(tmp_path / metrics.FILE, "a", buffering=1) as file:
        file.write('{"a": 1.0, "b": null}\nno row\n{"a": 2.0, "b"')
        file.flush()
        assert rows.look() == rows.look() == [{"a": 1.0, "b": None}] and len(parsed) == 2
        file.write(": 3.0}\n")
        assert rows.look() == [{"a": 1.0, "b": None}, {"a": 2.0, "b": 3.0}] == metrics.read(tmp_path)
        assert parsed[2] == b'{"a": 2.0, "b": 3.0}\n'
    assert chosen.look() == [{"a": 1.0}, {"a": 2.0}]
    (tmp_path / metrics.FILE).write_text('{"a": 4.0}\n')
    assert rows.look() == [{"a": 4.0}]
