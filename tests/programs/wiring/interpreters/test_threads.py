"""Nodes as threads of one process: what a failure leaves for whoever looks for its cause."""

from __future__ import annotations

import pytest

from boonta.nodes.base import Node
from boonta.programs.wiring.interpreters import threads
from boonta.programs.wiring.run_folder import journal

NOTE = "For simplicity, JAX has removed its internal frames"


class Failing(Node):
    def step(self) -> None:
        error = KeyError("left")
        error.__notes__ = [NOTE]  # As JAX adds it.
        raise error


def test_the_lines_of_code_that_led_to_a_failure_are_shown_and_kept(tmp_path, capsys):
    node = Failing("learner")
    with journal.kept_in(tmp_path), pytest.raises(KeyError):
        threads._run_node(node)
    kept = (tmp_path / journal.FILE).read_text()
    for text in (capsys.readouterr().err, kept):
        assert f'"{__file__}"' in text and "in step" in text and "KeyError: 'left'" in text
    assert "learner failed" in kept
    assert node.own_failure == "learner failed while stepping: KeyError: 'left'"
