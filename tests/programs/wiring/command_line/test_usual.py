"""Flags that newcomers expect: the message has what to write instead."""

from __future__ import annotations

import pytest

from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.programs.impala import impala
from boonta.programs.wiring.command_line.arguments import parse
from boonta.programs.wiring.launch import Program, RunFlags
from boonta.programs.wiring.run import BadInput


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "catch"], "--env is no flag: the environment is the first word, as in impala.py catch$"),
        (["--seed", "1", "--env=atari/Pong"], "is the first word, as in impala.py atari/Pong$"),
        (["--env"], "is the first word, as in impala.py ENVIRONMENT$"),
        (["catch", "--lr", "1e-3"], "--lr is no flag; did you mean --config.optimiser.learning-rate?"),
        (["catch", "--gamma=0.9"], "--gamma is no flag; did you mean --config.discount?"),
    ],
)
def test_what_to_write_instead_is_said(words, message):
    with pytest.raises(BadInput, match=message):
        parse(impala, words)


CATCH = Catch()


def named_so(run: RunFlags, env: Env = CATCH, lr: float = 1.0) -> Program:
    """A program with a flag of such a name."""
    raise AssertionError


def test_a_programs_own_flag_of_such_a_name_is_taken():
    assert parse(named_so, ["--lr", "2", "--env.rows", "7"])[1]["lr"] == 2.0
