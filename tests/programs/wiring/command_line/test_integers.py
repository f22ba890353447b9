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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stop.env-steps", "1e6x"], "--stop.env-steps: '1e6x' must be a whole number, None "),
        (["--seed", "1x"], "--seed: '1x' must be a whole number "),
        (
            ["--start-which", "bset"],
            "--start-which: 'bset' must be a whole number, newest or best: did you mean 'best'?",
        ),
        (["--start-which", "1x"], "--start-which: '1x' must be a whole number, newest or best "),
    ],
)
def test_what_it_must_be_is_said_in_a_line(capsys, monkeypatch, words, message):
    monkeypatch.setenv("COLUMNS", "150")
    with pytest.raises(SystemExit, match="2"):
        parse(impala, ["catch", *words])
    error = capsys.readouterr().err
    assert message in error and "Got errors" not in error


def test_a_word_or_none_may_stand_for_an_integer():
    run, _ = parse(impala, ["catch", "--stop.updates", "None", "--start-which", "best"])
    assert (run.stop.updates, run.start_which) == (None, "best")
    assert parse(impala, ["catch", "--start-which", "1e3"])[0].start_which == 1000
