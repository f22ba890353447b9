"""The command `boonta` itself."""

from __future__ import annotations

import sys

import pytest

from boonta.__main__ import FOLDER, TOOLS, main
from boonta.programs.tools.list import described

pytestmark = pytest.mark.once


def test_help_lists_each_tool_with_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["boonta"])
    assert main() == 0
    page = capsys.readouterr().out
    for tool in TOOLS:
        assert f"\n  {tool:10}  {described(FOLDER / f'{tool}.py')}\n" in page
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == set(TOOLS)


def test_a_wrong_tool_is_named_with_near_ones(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["boonta", "pla", "--workdir", "x"])
    assert main() == 2
    assert "error: tool 'pla' is unknown: did you mean 'play'" in capsys.readouterr().err
