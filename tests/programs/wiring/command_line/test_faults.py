"""Why a program can't start: a line, and the traceback where the user's own code has raised."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest

from boonta.programs.wiring.command_line import faults
from boonta.programs.wiring.command_line.loading import load
from boonta.programs.wiring.run import BadInput, Run

CASES = {
    "int('seven')": True,
    "json.loads('seven')": True,  # The standard library raises.
    "np.zeros(3).reshape(2)": True,  # An installed package does.
    "import no_such_module": True,
    "launch.Restarts(number=-1)": False,  # Boonta does, for the user.
    "launch.importlib.import_module('no_such_module')": True,
    "keys.make_once(pathlib.Path('/proc/none/key'))": False,  # The standard library does, for Boonta.
    "raise BadInput('seven')": False,
}
HEAD = """
import json, pathlib
import numpy as np
from boonta.nodes.rpc import keys
from boonta.programs.wiring import launch
from boonta.programs.wiring.run import BadInput

def own_program(run):
    """


@pytest.mark.parametrize(("code", "traced"), CASES.items())
def test_an_error_of_the_users_code_has_a_traceback(tmp_path, capsys, code, traced):
    file = tmp_path / "own_program.py"
    file.write_text(HEAD + code)
    with pytest.raises((BadInput, ValueError, OSError, ImportError)) as raised:
        load(file).own_program(Run())
    faults.tell(raised.value.with_traceback(raised.tb.tb_next))  # Without this test's own frame.
    *trace, last = capsys.readouterr().err.splitlines()
    assert last == f"error: {raised.value}"
    assert bool(trace) == traced and (f'  File "{file}", line 9, in own_program' in trace) == traced


def test_of_boontas_files_only_programs_are_the_users():
    assert faults._is_program(faults.ROOT / "programs" / "impala.py")
    assert not faults._is_program(pathlib.Path(faults.__file__).resolve())


@pytest.mark.parametrize(
    ("code", "ends", "message"),
    [
        ("int('seven')", 2, "invalid literal for int()"),
        ("{}['seven']", 1, "KeyError: 'seven'"),
        ("raise RuntimeError('the simulator is gone')", 1, "RuntimeError: the simulator is gone"),
    ],
)
def test_a_tool_shows_where_the_users_code_failed(tmp_path, capsys, monkeypatch, code, ends, message):
    file = tmp_path / "own_program.py"
    file.write_text(f"def tool() -> None:\n    {code}\n")
    monkeypatch.setattr("sys.argv", ["tool"])
    with pytest.raises(SystemExit, match=str(ends)):
        faults.command(load(file).tool, ValueError)
    printed = capsys.readouterr().err
    assert f'File "{file}", line 2, in tool' in printed and f"\nerror: {message}" in printed


def test_what_may_be_a_fault_of_boontas_is_not_told_as_the_users():
    with pytest.raises(KeyError), faults.refusing(ValueError):
        raise KeyError("seven")


@pytest.mark.parametrize(("number", "refusal"), [(errno.ENOSPC, OSError), (errno.EROFS, BadInput)])
def test_a_full_disk_may_have_room_later_for_what_a_tool_writes(number, refusal):
    with pytest.raises(refusal) as raised, faults.writing(pathlib.Path("out")):
        raise OSError(number, os.strerror(number))
    assert faults.code_of(raised.value) == (1 if refusal is OSError else 2)
