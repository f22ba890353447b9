"""Whole programs of one process: how they start, end, resume and are played, without the cluster's packages."""

from __future__ import annotations

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from boonta.nodes import metrics
from boonta.nodes.actor import Actor
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.population import Population
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.programs.central_inference import central_inference
from boonta.programs.impala import impala
from boonta.programs.reanalyze import reanalyze
from boonta.programs.tools import play
from boonta.programs.wiring import launch
from boonta.programs.wiring.command_line.arguments import parse
from boonta.programs.wiring.interpreters import anakin
from boonta.programs.wiring.launch import Program, Run, group
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import journal
from boonta.tests.helpers import traces
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.fused import ENV
from boonta.tests.helpers.fused import agent as make_agent
from boonta.tests.helpers.runs import undeclared
from boonta.tests.helpers.solo_program import solo_program

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
ROOT = pathlib.Path(__file__).parents[4]
FILE = str(ROOT / "tests" / "helpers" / "solo_program.py")
PROGRAM = [sys.executable, FILE]
# The same file, where the cluster's packages can't be imported, after what a user may import with it.
ALONE = f"""
import runpy, sys
sys.modules.update(launchpad=None, reverb=None, tensorflow=None, courier=None)
from boonta.programs import central_inference, impala, muzero, population, reanalyze, self_play
from boonta.programs.tools import compare, play
runpy.run_path({FILE!r}, run_name="__main__")
"""


def run(folder, *flags: str, program=PROGRAM) -> subprocess.CompletedProcess:
    command = [*program, "--workdir", str(folder), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)


def run_here(folder, *flags: str) -> int:
    """Runs the program in this process, which has imported all already; returns its exit code."""
    with pytest.raises(SystemExit) as ended:
        launch.main(solo_program, ["--workdir", str(folder), *flags])
    return ended.value.code


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that ended by its stop rule, and what it printed; it had none of the cluster's packages."""
    folder = tmp_path_factory.mktemp("run")
    done = run(folder, "--stop.updates", "40", "--stop.seconds", "200", program=[sys.executable, "-c", ALONE])
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def resumed(finished, tmp_path_factory):
    """A copy of that run which goes on, and is traced now; and what it printed."""
    folder = tmp_path_factory.mktemp("resumed") / "run"
    shutil.copytree(finished[0], folder)
    assert not (folder / "profile").exists()
    done = run(folder, "--stop.updates", "100", "--profile", "5")
    assert done.returncode == 0, done.stderr
    return folder, done


def test_it_ends_by_its_rule_without_the_clusters_packages_and_leaves_what_every_run_leaves(finished):
    folder, done = finished
    assert "done: updates reached 40 (limit 40)" in done.stdout
    assert {"config.json", "metrics.jsonl", "tensorboard", "checkpoints"} <= {path.name for path in folder.iterdir()}
    assert not undeclared(folder)
    rows = metrics.read(folder)
    last = rows[-1]
    assert last["updates"] == 40 and last["env_steps"] == 8 * (1 + 40 * 4) and last["eval_version"] == 40
    assert last["compile_s"] > 0 and "return" in last
    assert any("share/anakin/compiling" in row for row in rows)  # It may have ended before the last row began.
    assert json.loads((folder / "config.json").read_text())["function"] == "solo_program"
    started, ended, code = journal.lines(folder)
    assert " DEBUG started: --launch anakin, process " in started and ended.endswith(
        "INFO done: updates reached 40 (limit 40)"
    )
    assert code.endswith("DEBUG ended with code 0")


def test_it_ends_when_evaluations_get_no_better_and_counts_anew_when_it_is_resumed(tmp_path, capsys):
    """Episodes of two steps have no return. The first evaluations come after 2, 5, 10, 20 and 40 updates."""
    flags = ("--stop.patience", "2", "--max-steps", "2")
    for first, last in ((2, 10), (20, 60)):
        assert run_here(tmp_path, *flags) == 0
        reason = f"patience: 2 evaluations in a row not above the best, 0 at {first} updates"
        assert f"done: {reason}" in capsys.readouterr().out
        assert metrics.read(tmp_path)[-1]["eval_version"] == last


def test_it_is_resumed_and_other_settings_are_refused(finished, resumed, capsys):
    assert run_here(finished[0], "--width", "4") == 2 and "width was 8, is 4" in capsys.readouterr().err
    folder, _ = resumed
    assert metrics.read(folder)[-1]["updates"] == 100
    assert (folder / "checkpoints" / "100").exists()


def test_its_checkpoint_is_played_in_the_environments_batch(finished, capsys):
    folder, _ = finished
    play.play(folder)
    assert capsys.readouterr().out in (f"return {total} in 9 env steps: {folder}/play.gif\n" for total in (-1, 1))


def test_its_updates_are_traced_on_request_also_where_it_is_resumed(resumed):
    folder, done = resumed
    where = f"profile: 5 updates of the learner are traced, after the first 10 of each of its lives, into {folder}"
    assert f"{where}/profile\n" in done.stdout and "no trace" not in done.stdout
    assert traces.updates(folder / "profile" / "anakin")[0] >= 40 + 10


def test_ctrl_c_saves_and_exits_130(tmp_path):
    child = subprocess.Popen([*PROGRAM, "--workdir", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 200
    while not (tmp_path / "metrics.jsonl").exists() or not any(row.get("updates") for row in metrics.read(tmp_path)):
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 130 and "ended by SIGINT" in out
    assert list((tmp_path / "checkpoints").iterdir())


def test_a_failure_is_told_with_the_node_and_what_it_was_doing(tmp_path):
    Checkpointer(tmp_path / "other" / "checkpoints").save(1, {"other": np.zeros(3)}, {})
    done = run(tmp_path / "run", "--start-from", str(tmp_path / "other"))
    assert done.returncode == 1
    assert "error: anakin failed while restoring the checkpoint: ValueError: checkpoint" in done.stderr
    assert "is another network's" in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--num-envs", "12"], "num_envs is 12; it must be a multiple of batch_size, 8"),
        (["--placement.learning", "99"], "devices is 99; this process has"),
        (["--stop.updates", "-1"], "stop.updates is -1; it must be above 0"),
        (["--seed", "-1"], "seed is -1; it must be at least 0"),
        (["--save-every-s", "0"], "save_every_s is 0.0; it must be above 0"),
        (["--save-every-s", "nan", "--stop.updates", "1"], "save_every_s is nan; it must be above 0"),
        (["--keep-newest", "0"], "keep_newest is 0; it must be at least 1"),
        (["--profile", "0"], "profile is 0; it must be at least 1"),
        (["--keep-every-h", "-1"], "keep_every_h is -1.0; it must be above 0"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(tmp_path, capsys, flags, message):
    with pytest.raises(SystemExit) as ended:
        launch.main(solo_program, ["--workdir", str(tmp_path / "run"), *flags])
    assert ended.value.code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


class OwnActor(Actor):
    pass


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([group(Learner), group(OwnActor)], "actor is OwnActor; --launch anakin takes the place of Actor only"),
        ([group(Learner), group(Actor), group(Evaluator, cut=7)], "--launch anakin has no cut for its evaluator"),
        ([group(Learner), group(Actor), group(Evaluator, env=ENV)], "--launch anakin has no env for its evaluator"),
        ([group(Learner), group(Actor), group(Evaluator, agent=1)], "--launch anakin has no agent for its evaluator"),
        ([group(Learner), group(Actor), group(Evaluator, seed=1)], "--launch anakin has no seed for its evaluator"),
        ([group(Learner, updates_per_step=2), group(Actor)], "has no updates_per_step for its learner; leave it out"),
        ([group(Actor)], "--launch anakin needs a node of role 'learner'; the program has none"),
        ([group(Population), group(Actor)], r"anakin \(Population\) is a whole program; leave out actor"),
    ],
)
def test_groups_that_would_be_lost_are_refused(groups, message):
    with pytest.raises(ValueError, match=f"mine: .*{message}"):
        anakin.one_of(Program("mine", Run(launch="anakin"), make_agent(), ENV, groups))


def test_an_odd_number_of_environments_is_fused():
    groups = [group(Learner), group(Actor, num_envs=9)]
    assert anakin.one_of(Program("mine", Run(launch="anakin"), make_agent(), ENV, groups)).settings["num_envs"] == 9


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (impala, ["atari/Pong"], "--launch anakin needs an environment in JAX, and Atari is none"),
        (
            impala,
            ["atari/Pong"],
            "is none: use --launch sebulba or local_mp, or write it in JAX, see docs/pages/guides/",
        ),
        (central_inference, [], "central_inference: --launch anakin has no inference (Inference)"),
        (impala, ["catch", "--actors", "2"], "the number of actor nodes is 2; with --launch anakin it is 1, unless"),
    ],
)
def test_what_stands_in_the_way_of_one_compiled_program_is_named(tmp_path, capsys, function, arguments, words):
    with pytest.raises(SystemExit) as ended:
        launch.main(function, [*arguments, "--launch", "anakin", "--workdir", str(tmp_path / "run")])
    assert ended.value.code == 2 and words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_settings_reach_the_one_node(tmp_path):
    arguments = ["minatar/breakout", "--env.sticky-actions", "0.25", "--actors", "2", "--num-envs", "64"]
    run, settings = parse(impala, [*arguments, "--launch", "anakin", "--workdir", str(tmp_path)])
    _, (node,) = anakin.build(impala(run, **settings))
    assert node._fused.program.env_steps == 128 * 16  # Of a round: each environment takes a step of its unroll.
    assert (node._eval_every, node._evaluation.episodes) == (5_000, 50)
    assert node._env.sticky_actions == 0.25


def test_reanalyzers_become_a_part_of_the_one_node_and_others_are_refused(tmp_path):
    run, settings = parse(reanalyze, ["--launch", "anakin", "--reanalyzers", "2", "--workdir", str(tmp_path)])
    program = reanalyze(run, **settings)
    assert anakin.fused(program).settings["num_replayed"] == 2 * 32

    class Other(Reanalyzer):
        pass

    groups = [replace(each, node=Other) if each.node is Reanalyzer else each for each in program.groups]
    with pytest.raises(ValueError, match="reanalyzer is Other; --launch anakin takes the place of Reanalyzer only"):
        anakin.build(replace(program, groups=groups))


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(BadInput, match="holds no run"):
        play.play(tmp_path)
