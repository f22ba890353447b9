"""Tools on a run whose program lies in another folder, and imports a module beside it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = [pytest.mark.cluster, pytest.mark.unoptimised]
PROGRAM = """
from boonta.agents.muzero import Config, make
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.programs.wiring.launch import Program, RunFlags, group, main
from beside import NUM_ENVS


def program(run: RunFlags, config: Config) -> Program:
    env = Catch(rows=4, columns=3)
    groups = [group(Learner), group(Actor, num_envs=NUM_ENVS)]
    return Program("program", run, make(config, env.spec), env, groups)


if __name__ == "__main__":
    main(program)
"""
TINY = "num-simulations=2 search=puct consistency-cost=0 torso.widths=8 head-width=8 replay.min-size=8"
TINY += " replay.batch-size=4 replay.samples-per-insert=1"
FLAGS = [word for setting in TINY.split() for word in f"--config.{setting}".split("=")]


def call(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The folder of a program whose run is in the folder `run` beside it."""
    folder = tmp_path_factory.mktemp("folder") / "project"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (folder / "beside.py").write_text("NUM_ENVS = 4\n")
    flags = ("--workdir", "run", "--launch", "serial", "--stop.updates", "2", *FLAGS)
    trained = call(folder.parent, "project/program.py", *flags)
    assert trained.returncode == 0, trained.stderr
    return folder


@pytest.mark.parametrize(
    ("tool", "flags", "file"),
    [
        ("play", ["run"], "run/play.gif"),
        ("evaluate", ["run", "--episodes", "2"], "run/evaluations.jsonl"),
        ("explain", ["run", "--episodes", "1"], "run/explain/tree.svg"),
        ("export", ["run", "--out", "data"], "data/index.json"),
        ("report", ["run"], "run/report.html"),
    ],
)
def test_the_program_is_found_again_from_elsewhere(project, tool, flags, file):
    done = call(project.parent, "-m", "boonta", tool, *flags)
    assert done.returncode == 0 and (project.parent / file).is_file(), done.stderr


def test_a_match_finds_the_program_whose_game_has_one_player(project):
    done = call(project.parent, "-m", "boonta", "match", "run", "--opponent", "random")
    assert done.returncode == 2 and "holds a run of an environment for one player" in done.stderr


@pytest.mark.parametrize(("words", "code"), [(["play", "run"], 2), (["evaluate", "run"], 1)])
def test_a_missing_module_is_named(project, words, code, request):
    hidden = (project / "beside.py").rename(project / "hidden")
    request.addfinalizer(lambda: hidden.rename(project / "beside.py"))
    refused = call(project.parent, "-m", "boonta", *words)
    assert refused.returncode == code and "program.py can't be imported: No module named 'beside'" in refused.stderr
    assert refused.stderr.startswith("error: ") and "Traceback" not in refused.stderr
