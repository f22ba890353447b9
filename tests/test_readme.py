"""The README's commands are ones that can be given, and it stays short."""

from __future__ import annotations

import importlib
import pathlib
import re
import shlex

import pytest

from boonta.__main__ import RUN_TOOLS, TOOLS
from boonta.programs.wiring.arguments import parse
from boonta.programs.wiring.program import Program

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = (ROOT / "README.md").read_text()
COMMANDS = [line.partition("  #")[0].strip() for line in PAGE.splitlines() if line.startswith("    ./run ")]
PROGRAMS = [words for words in map(shlex.split, COMMANDS) if words[1] == "python" and words[2].startswith("programs/")]


@pytest.mark.parametrize("words", PROGRAMS, ids=lambda words: " ".join(words[2:4]))
def test_a_program_is_built_as_the_page_says(words, tmp_path):
    name = pathlib.Path(words[2]).stem
    function = getattr(importlib.import_module(f"boonta.programs.{name}"), name)
    run, settings = parse(function, [*words[3:], "--workdir", str(tmp_path)])
    if "data" not in settings:  # An archive, which would have to be there.
        assert isinstance(function(run=run, **settings), Program)


def test_all_programs_and_tools_are_on_the_page():
    files = {path.name for path in (ROOT / "programs").glob("*.py")} - {"__init__.py"}
    assert files == {pathlib.Path(words[2]).name for words in PROGRAMS}
    shown = {words[2] for words in map(shlex.split, COMMANDS) if words[1] == "boonta"}
    assert shown == set(TOOLS)
    for tool in RUN_TOOLS:  # Read as text: some need Reverb, which isn't everywhere.
        text = (ROOT / "programs" / "tools" / f"{tool}.py").read_text()
        assert re.search(rf"^def {tool}\(\s*workdirs?: ", text, re.MULTILINE), tool


def test_it_is_read_in_five_minutes():
    assert len([word for word in PAGE.split() if re.search(r"\w", word)]) <= 1_200
