"""Integers on the command line, of every flag."""

from __future__ import annotations

import pytest

from boonta.programs.impala import impala
from boonta.programs.wiring.command_line.arguments import parse, run_of


@pytest.mark.parametrize(("text", "number"), [("1e6", 10**6), ("1_000", 1000), ("2.5e1", 25), ("1000000.0", 10**6)])
def test_an_integer_may_have_an_exponent(text, number):
    run, settings = parse(impala, ["catch", "--stop.env-steps", text, "--env.rows", "1e1", "--actors", text])
    assert (run.stop.env_steps, settings["env"].rows, settings["actors"]) == (number, 10, number)
    known = run_of(impala, ["catch", "--launch", "anakin", "--stop.updates", text])
    assert known is not None and known.stop.updates == number


@pytest.mark.parametrize("text", ["1.5", "1e-3", "inf", "nan", "x", ""])
def test_what_is_no_integer_is_refused(capsys, text):
    with pytest.raises(SystemExit, match="2"):
        parse(impala, ["catch", "--stop.updates", text])
    assert "--stop.updates" in capsys.readouterr().err
