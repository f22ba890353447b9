"""Which function of a file is its program."""

from __future__ import annotations

import types

import pytest

from boonta.programs.wiring.command_line.arguments import function_of, network_of
from boonta.programs.wiring.run import BadInput

HEAD = """
from __future__ import annotations
from typing import TYPE_CHECKING
from boonta.programs.impala import impala
from boonta.programs.wiring import launch
from boonta.programs.wiring.launch import Program

if TYPE_CHECKING:
    from somewhere import Something

def helper(x: Something) -> int: ...
"""
ONE, OTHER, BARE = "def one() -> Program: ...\n", "def other() -> launch.Program: ...\n", "def mine(): ...\n"


@pytest.mark.parametrize(
    ("functions", "meant"),
    [
        (ONE, "one"),  # A copy of a program's file, whose name says what differs.
        (OTHER, "other"),
        (ONE + OTHER + BARE, "mine"),  # The file's name decides where several are there.
        (BARE, "mine"),
    ],
)
def test_a_program_is_the_function_of_the_files_name_or_the_only_one(tmp_path, functions, meant):
    file = tmp_path / "mine.py"
    file.write_text(HEAD + functions)
    assert function_of(file).__name__ == meant


@pytest.mark.parametrize(("functions", "found"), [("", "none"), (ONE + OTHER, "one, other")])
def test_a_file_from_which_it_is_not_clear_is_refused(tmp_path, functions, found):
    file = tmp_path / "mine.py"
    file.write_text(HEAD + functions)
    with pytest.raises(BadInput, match=rf"must have a function mine\(\), or only one .* a Program; it has {found}"):
        function_of(file)


def test_a_whole_network_is_announced_by_the_function_that_makes_it():
    program = types.SimpleNamespace(agent=types.SimpleNamespace(network="nets:gru_values.<locals>.init"))
    assert network_of(program) == "network nets:gru_values, in the place of the config's"


@pytest.mark.parametrize("arguments", ["", ", ['catch']"])
def test_a_file_that_would_run_its_program_when_it_is_imported_is_refused(tmp_path, arguments):
    file = tmp_path / "mine.py"
    file.write_text(HEAD + f"from boonta.programs.wiring.launch import main\n\nmain(impala{arguments})\n")
    for _ in range(2):
        with pytest.raises(BadInput, match=rf"{file} calls main\(...\) when it is imported: put the call under"):
            function_of(file)
