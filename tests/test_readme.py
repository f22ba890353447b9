"""The README shows all programs and tools, and stays short; its commands are tested with those of all pages."""

from __future__ import annotations

import pathlib
import re
import shlex
import textwrap

from boonta.__main__ import TOOLS
from boonta.tests.helpers.examples import python_blocks

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = (ROOT / "README.md").read_text()
COMMANDS = [line.partition("  #")[0].strip() for line in PAGE.splitlines() if line.startswith("    ./run ")]
RUN_TOOLS = ("compare", "evaluate", "explain", "export", "join", "match", "play", "plot", "report", "runs", "status",
             "sweep")  # fmt: skip
PROGRAMS = [words for words in map(shlex.split, COMMANDS) if words[1] == "python" and words[2].startswith("programs/")]


def test_all_programs_and_tools_are_on_the_page():
    files = {path.name for path in (ROOT / "programs").glob("*.py")} - {"__init__.py"}
    assert files == {pathlib.Path(words[2]).name for words in PROGRAMS}
    shown = {words[2] for words in map(shlex.split, COMMANDS) if words[1] == "boonta"}
    assert shown == set(TOOLS)
    for tool in RUN_TOOLS:  # Read as text: some need Reverb, which isn't everywhere.
        text = (ROOT / "programs" / "tools" / f"{tool}.py").read_text()
        assert re.search(rf"^def {tool}\(\s*workdirs?: ", text, re.MULTILINE), tool


def test_it_is_read_in_five_minutes():
    assert len([word for word in PAGE.split() if re.search(r"\w", word)]) <= 1_100


def test_the_picture_in_code_is_the_program():
    """The page leaves the indentation out."""
    (block,) = python_blocks(ROOT / "README.md")
    program = (ROOT / "programs" / "impala_atari.py").read_text()
    assert textwrap.indent(block, "    ") in program
