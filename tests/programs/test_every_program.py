"""Every program can be built, as the launcher builds it before anything starts, in every way that makes sense."""

from __future__ import annotations

import importlib
import pathlib

import pytest

from boonta.programs.wiring import launch
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.command_line.arguments import parse
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import BadInput

PROGRAMS = pathlib.Path(__file__).parents[2] / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py") if path.stem not in ("__init__", "unplugged"))
FUSED_ALONE = ("meta_gradient", "population")
# Programs that a process of threads has no room for: see `test_what_can_not_be_is_refused`.
SEVERAL_SERVICES = ("central_inference",)


def build(name: str, *flags: str) -> Program:
    function = getattr(importlib.import_module(f"boonta.programs.{name}"), name)
    run, settings = parse(function, list(flags))
    return function(run, **settings)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in FUSED_ALONE])
def test_it_has_who_acts_learns_and_evaluates(name, tmp_path):
    program = build(name, "--workdir", str(tmp_path))
    check_nodes(program)
    labels = {group.label for group in program.all_groups}
    assert {"monitor", "variables", "replay", "learner", "actor", "evaluator"} <= labels


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*FUSED_ALONE, *SEVERAL_SERVICES)])
def test_it_runs_as_threads_of_one_process(name, tmp_path):
    alone = ["--actors", "1"] if name == "apex" else []  # There the number of acting devices is that of actors.
    launch.prepare(build(name, "--launch", "sebulba", "--workdir", str(tmp_path), *alone))


@pytest.mark.parametrize(
    ("name", "env"),
    [
        ("impala", "catch"),
        pytest.param("muzero", "catch", marks=pytest.mark.once),
        pytest.param("reanalyze", "catch", marks=pytest.mark.once),
        pytest.param("self_play", "pgx/tic_tac_toe", marks=pytest.mark.once),
        ("population", "catch"),
        ("sac", "gymnax/Pendulum-v1"),
        pytest.param("td3", "gymnax/Pendulum-v1", marks=pytest.mark.once),
        ("dqn", "catch"),
        pytest.param("r2d2", "catch", marks=pytest.mark.once),
    ],
)
def test_it_runs_as_one_compiled_program(name, env, tmp_path):
    flags = ["--vary", "optimiser.learning_rate=1e-3", "--seeds", "1"] if name == "population" else []
    launch.prepare(build(name, env, "--launch", "anakin", "--workdir", str(tmp_path), *flags))


@pytest.mark.parametrize(
    ("name", "flags", "words"),
    [
        ("reanalyze", ["--launch", "sebulba", "--reanalyzers", "2"], "the number of reanalyzer nodes is 2; with"),
        ("reanalyze", ["--launch", "sebulba", "--placement.lag", "1"], "needs a queue that actors fill"),
        (
            "reanalyze",
            ["catch", "--launch", "anakin", "--ratio", "0"],
            "reanalyzers need a replay table to read and one",
        ),
        (
            "impala",
            ["--launch", "sebulba", "--placement.lag", "1", "--publish-every", "2"],
            "lag is 1, but .*needs 1 of",
        ),
        ("central_inference", ["--launch", "sebulba"], r"--launch sebulba has no inference \(Inference\)"),
        ("impala", ["--launch", "sebulba", "--actors", "2"], "the number of actor nodes is 2; with --launch sebulba"),
        ("population", ["--launch", "sebulba"], r"--launch sebulba has no anakin \(Population\)"),
    ],
)
def test_what_can_not_be_is_refused(name, flags, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        launch.prepare(build(name, *flags, "--workdir", str(tmp_path)))


def test_a_game_without_planes_is_seen_flat(tmp_path):
    flags = ("--workdir", str(tmp_path))
    with pytest.raises(BadInput, match="view is 'planes', but nim has observations of shape .*; allowed: 'flat'"):
        build("self_play", "open_spiel/nim", *flags)
    check_nodes(build("self_play", "open_spiel/nim", "--env.view", "flat", *flags))
