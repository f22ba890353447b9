"""How far apart programs are: what a user has to edit to get from one to another."""

from __future__ import annotations

import ast
import difflib
import pathlib

import pytest

PROGRAMS = pathlib.Path(__file__).parents[2] / "programs"
MOST = 6  # Lines.


def body(name: str) -> list[str]:
    """The program function's lines as they are written, its docstring left out."""
    source = (PROGRAMS / f"{name}.py").read_text()
    (function,) = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name)
    docstring = function.body[0]
    assert ast.get_docstring(function) is not None and function.end_lineno and docstring.end_lineno
    lines = source.splitlines()
    return lines[function.lineno - 1 : docstring.lineno - 1] + lines[docstring.end_lineno : function.end_lineno]


def distance(one: list[str], other: list[str]) -> int:
    """Lines that must be added, removed or replaced; a replaced line counts once."""
    changes = difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in changes if kind != "equal")


def test_a_line_replaced_added_or_removed_counts_once():
    assert distance(list("abcd"), list("abcd")) == 0
    assert distance(list("abcd"), list("aXcd")) == 1
    assert distance(list("abcd"), list("abcdef")) == distance(list("abcdef"), list("abcd")) == 2
    assert distance(list("abcd"), list("aXYZd")) == 3


@pytest.mark.parametrize(("one", "other"), [("impala", "muzero"), ("muzero", "reanalyze")])
def test_a_program_is_a_few_lines_from_the_next(one, other):
    lines = body(one), body(other)
    assert all(len(line) > 10 for line in lines)
    assert 0 < distance(*lines) <= MOST, "\n".join(difflib.unified_diff(*lines, lineterm=""))
