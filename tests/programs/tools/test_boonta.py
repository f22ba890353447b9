"""The command `boonta` itself."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from boonta.__main__ import CUT_OFF, FOLDER, TOOLS, main
from boonta.programs.tools import export
from boonta.programs.tools.list import described
from boonta.programs.wiring.command_line.faults import command
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once


def test_help_lists_each_tool_with_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["boonta"])
    assert main() == 0
    page = capsys.readouterr().out
    for tool in TOOLS:
        assert f"\n  {tool:10}  {described(FOLDER / f'{tool}.py')}\n" in page
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == set(TOOLS)


def test_a_wrong_tool_is_named_with_near_ones(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["boonta", "pla", "x"])
    assert main() == 2
    error = capsys.readouterr().err
    assert "error: tool 'pla' is unknown: did you mean 'play'" in error
    assert error.endswith(" `boonta --help` says what each does.\n") and error.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("reverb") is not None, reason="Reverb is here")
def test_an_export_without_reverb_says_what_it_needs(tmp_path):
    with pytest.raises(BadInput, match=r"replay checkpoints are read with Reverb, on CPython 3.10: pip install"):
        export.archive(tmp_path, tmp_path / "data")


@pytest.mark.parametrize("words", [["--help"], ["completion", "bash"], ["doctor", "--help"], ["list"], ["metrics"]])
def test_a_tool_whose_output_nobody_reads_ends_quietly(words, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "boonta", *words], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S
    )
    os.close(writer)
    assert done.stderr == "" and done.returncode in (CUT_OFF, 1)  # Rich, with which some tools print, chooses 1.


def test_another_broken_pipe_is_an_error(monkeypatch):
    def fail() -> None:
        raise BrokenPipeError("the film's")

    monkeypatch.setattr("boonta.programs.tools.doctor.main", lambda: command(fail, OSError))
    monkeypatch.setattr(sys, "argv", ["boonta", "doctor"])
    with pytest.raises(BrokenPipeError, match="the film's"):
        main()
