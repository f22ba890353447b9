"""Flags that are true, false or None on the command line: with a word, and without one."""

from __future__ import annotations

import dataclasses

import pytest

from boonta.envs.catch import Catch
from boonta.programs.experiments import values
from boonta.programs.impala import impala
from boonta.programs.wiring.command_line.arguments import parse
from boonta.programs.wiring.command_line.booleans import spelled_out

ENV = f"{__name__}:Windy"


@dataclasses.dataclass(frozen=True)
class Windy(Catch):
    """Catch with a setting that does nothing.

    Attributes:
      windy: whether there is wind; None leaves it open.
    """

    windy: bool | None = None


@pytest.mark.parametrize("value", [True, False, None])
def test_a_sweep_can_set_them(value):
    flags: values.Flags = {"evaluation.deterministic": value, "env.windy": value, "stop.updates": 1}
    _, settings = parse(impala, [ENV, *values.words(flags)])
    assert (settings["evaluation"].deterministic, settings["env"].windy) == (value, value)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--evaluation.deterministic"], True),
        (["--evaluation.no_deterministic", "--actors", "2"], False),
        (["--evaluation.deterministic", "False"], False),
        (["--evaluation.deterministic=True"], True),
        ([], None),
    ],
)
def test_a_command_line_needs_no_word_for_them(words, value):
    assert parse(impala, ["catch", *words])[1]["evaluation"].deterministic is value


def test_another_word_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(impala, ["catch", "--evaluation.deterministic", "perhaps"])
    assert "--evaluation.deterministic" in capsys.readouterr().err


def test_flags_of_other_types_stay():
    words = ["--windy", "--no-wind", "--rows", "-1", "--loud"]
    assert spelled_out(words, {"": Windy, "loud": bool}) == ["--windy", "True", *words[1:]]
