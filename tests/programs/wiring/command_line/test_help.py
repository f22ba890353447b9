"""The help of a program: one page of basics, and all flags where they are asked for."""

from __future__ import annotations

import math

import pytest

from boonta.programs.wiring.command_line import arguments
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.shipped import programs

pytestmark = pytest.mark.once
FILE = programs()["impala"]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")


def shown(capsys, *words: str, file=FILE) -> str:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(arguments.function_of(file), words)
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", [("--help",), ("catch", "-h"), ("catch", "--help", "--seed", "1")])
def test_a_page_has_the_basics_and_names_the_rest(capsys, words):
    page = shown(capsys, *words)
    for flag in ("--launch", "--workdir STR", "--seed INT", "--stop.env-steps", "--log", "--actors"):
        assert flag in page
    assert "--config.lstm-size" not in page and "--restarts.number" not in page and "--hosts.index INT" not in page
    assert "--config.…" in page and "The agent's hyper-parameters (" in page
    for field in ("restarts.…", "process-env", "save-every-s", "start-from", "placement.…"):
        assert f"  --{field}" in page
    assert "Seconds between snapshots of learner and replay tables." in page
    assert "wall time since the launch, with starting and compiling" in " ".join(page.replace("│", " ").split()).lower()


@pytest.mark.parametrize("name", sorted(programs()))
@pytest.mark.parametrize(("columns", "most"), [(110, 76), (80, 90)])
def test_the_page_of_each_program_is_short_and_says_what_comes_first(name, columns, most, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    page = shown(capsys, "--help", file=programs()[name])
    assert sum(max(1, math.ceil(len(line) / columns)) for line in page.splitlines()) <= most
    description, flags = page.split("-h, --help ", 1)
    assert max(map(len, flags.splitlines())) <= columns and "--workdir STR" in flags
    takes_env = name not in ("impala_atari", "unplugged")
    assert page.startswith(f"usage: {name}.py {'[ENV] ' if takes_env else ''}[-h] [OPTIONS]\n")
    assert ("ENV is the environment: atari/Pong, " in description) == takes_env


def test_all_flags_are_shown_where_they_are_asked_for(capsys):
    page = shown(capsys, "catch", "--help-all")
    for flag in ("--config.lstm-size INT", "--restarts.number INT", "--hosts.index INT", "--stop.seconds", "--env."):
        assert flag in page
    assert "--help-all" not in page


def test_flags_that_the_page_leaves_out_are_taken():
    run, settings = arguments.parse(
        arguments.function_of(FILE), ["catch", "--save-every-s", "9", "--config.lstm-size", "4"]
    )
    assert type(run) is Run and run.save_every_s == 9.0 and settings["config"].lstm_size == 4
