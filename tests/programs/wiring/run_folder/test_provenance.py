"""Hosts recognise by a description whether they have built the same program; a run records what it came from."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import shutil
import subprocess
import sys

import gymnasium
import jax
import numpy as np
import pytest

from boonta.envs.gymnasium import Gymnasium
from boonta.nodes.actor import Actor
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.watch.stopping import StopRule
from boonta.programs.impala import impala
from boonta.programs.wiring.command_line.arguments import origin_of, parse
from boonta.programs.wiring.construction import node_arguments, seeds_of
from boonta.programs.wiring.program import group
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.run_folder import provenance
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.programs.wiring.run_folder.folder import claim_workdir
from boonta.programs.wiring.run_folder.provenance import ROOT, built_from, differs_from, provenance_of
from boonta.programs.wiring.trained import call_of
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.unit_program import unit_program


class Held(gymnasium.Env):
    """A user's environment."""


def test_words_are_equal_for_the_same_settings_and_seed_only():
    one = built_from(unit_program, Run("/a"), {"batch_size": 12})
    assert one == built_from(unit_program, Run("/b"), {"batch_size": 12})
    made = [built_from(unit_program, Run("/a"), {"env": Gymnasium(make)}) for make in (Held, Held, lambda: Held())]
    assert made[0] == made[1] != made[2]  # A user's class, or a function that makes one.
    partials = [functools.partial(lambda: Held()) for _ in range(2)]  # The functions have other addresses.
    assert len({built_from(unit_program, Run("/a"), {"env": Gymnasium(each)}) for each in partials}) == 1
    other, seed = (built_from(unit_program, Run(seed=s), {"batch_size": b}) for s, b in ((0, 13), (1, 12)))
    stop = built_from(unit_program, Run(stop=StopRule(updates=9)), {"batch_size": 12})
    assert len({one, other, seed, stop}) == 4  # Hosts of one program must end together.
    assert one.split(", ")[0] == other.split(", ")[0] == seed.split(", ")[0]  # The program file is the same.


def test_settings_may_be_dataclasses():
    @dataclasses.dataclass(frozen=True)
    class Config:
        width: int

    narrow, wide = (built_from(unit_program, Run(), {"config": Config(width)}) for width in (1, 2))
    assert narrow != wide


def git(folder: pathlib.Path, *arguments: str) -> str:
    names = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    done = subprocess.run(["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path) -> pathlib.Path:
    """A repository with a program, in a folder of its own."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    git(tmp_path, "init", "--quiet")
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "mine.py").write_text("one = 1\n")
    (tmp_path / "other.txt").write_text("two\n")
    (tmp_path / ".gitignore").write_text(".venv\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "First")
    return tmp_path


def source_of(file: pathlib.Path) -> provenance.Source:
    return provenance_of(file, "catch", {}).program


def test_the_commit_and_its_changes_are_recorded(repository):
    file, commit = repository / "programs" / "mine.py", git(repository, "rev-parse", "HEAD")
    clean = source_of(file)
    assert (clean.commit, clean.dirty) == (commit, False)
    (repository / "runs").mkdir()
    (repository / "runs" / "note.txt").write_text("Untracked files of no account.\n")
    assert source_of(file) == clean
    (repository / "other.txt").write_text("three\n")
    assert source_of(file) == dataclasses.replace(clean, dirty=True)
    git(repository, "checkout", "--quiet", "other.txt")
    file.write_text("one = 2\n")
    changed = source_of(file)
    assert (changed.commit, changed.dirty) == (commit, True) and changed.digest != clean.digest


def test_a_program_that_is_not_tracked_is_a_change(repository):
    (repository / "new.py").write_text("")
    assert source_of(repository / "new.py").dirty


def test_an_environment_inside_of_a_repository_is_no_part_of_it(repository):
    (repository / ".venv").mkdir()
    (repository / ".venv" / "installed.py").write_text("")
    found = source_of(repository / ".venv" / "installed.py")
    assert (found.commit, found.dirty) == (None, None) and found.digest


def test_a_repository_without_a_commit_has_none(repository, tmp_path):
    shutil.rmtree(repository / ".git")
    git(repository, "init", "--quiet")
    assert source_of(repository / "programs" / "mine.py").commit is None


def test_without_a_repository_or_git_there_is_no_commit(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("")
    assert source_of(tmp_path / "mine.py").commit is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance_of(ROOT / "programs" / "impala.py", "catch", {}).boonta.commit is None


def test_a_git_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    (tmp_path / "git").write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(provenance, "GIT_S", 0.2)
    assert source_of(ROOT / "programs" / "impala.py").commit is None


def test_variables_of_gits_hooks_name_no_other_repository(repository, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert source_of(repository / "programs" / "mine.py").commit


def test_versions_and_machine_are_recorded(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
    found = provenance_of(ROOT / "programs" / "impala.py", "catch", {"learner": 3})
    assert found.versions["jax"] == jax.__version__ and found.versions["numpy"] == np.__version__
    assert found.versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"boonta", "dm-haiku", "optax", "rlax", "mctx", "ale-py", "pgx"} <= set(found.versions)
    assert found.machine.processor and found.machine.cores >= 1 and found.machine.memory_bytes > 1e8
    assert found.machine.variables["XLA_FLAGS"] == "--xla_force_host_platform_device_count=1"
    assert found.seeds == {"learner": 3}


def test_the_cores_are_those_that_a_pod_gives_time_for(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.setattr("boonta.programs.wiring.machine.cores.time_limits", lambda root: [2.0])
    assert provenance_of(pathlib.Path(__file__), "Catch", {}).machine.cores == 2


def test_nothing_starts_devices():
    code = (
        "from boonta.programs.wiring.run_folder import provenance\n"
        "from jax._src.xla_bridge import backends_are_initialized\n"
        "provenance.provenance_of(provenance.ROOT / '__init__.py', 'catch', {})\n"
        "assert not backends_are_initialized()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S)


def program(folder: pathlib.Path, *flags: str):
    run, settings = parse(impala, ["catch", "--workdir", str(folder), "--seed", "5", *flags])
    return impala(run=run, **settings), run, settings


def test_seeds_are_those_that_nodes_get(tmp_path):
    made, _, _ = program(tmp_path, "--actors", "3")
    seeds = seeds_of(made)
    assert seeds["learner"] == seeds["evaluator"] == 5
    assert {"actor/0", "actor/1", "actor/2"} <= set(seeds) and len(set(seeds.values())) == 4
    for each in made.groups:
        for i, name in enumerate(each.names):
            assert node_arguments(made, each, i, {})["seed"] == seeds[name]
    more = dataclasses.replace(made, groups=(*made.groups, group(Actor, 3, label="explorers")))
    assert seeds.items() < seeds_of(more).items() and len(set(seeds_of(more).values())) == 7
    assert seeds_of(program(tmp_path, "--launch", "anakin")[0]) == {"anakin": 5}
    made, run, _ = program(tmp_path, "--launch", "sebulba")
    assert seeds_of(made) == {"learner": 5, "actor": 5, "evaluator": 5}
    run = dataclasses.replace(run, hosts=Hosts("localhost:1", number=2, index=1))
    made = dataclasses.replace(made, run=run, groups=(*made.groups, group(Reanalyzer)))
    assert {"reanalyzer/0", "reanalyzer/1"} < set(seeds_of(made)) and len(set(seeds_of(made).values())) == 3


def test_a_runs_config_has_its_provenance(tmp_path):
    made, run, settings = program(tmp_path)
    claim_workdir(made.name, run, settings, origin_of(impala, ["catch"], made)).close()
    found = read_config(tmp_path)
    assert found.provenance is not None and found.provenance.environment == "catch"
    assert found.provenance.seeds == seeds_of(made) and found.run["launch"] == "local_mp"
    assert found.provenance.program.digest == provenance_of(ROOT / "programs" / "impala.py", "", {}).program.digest


def test_a_run_with_secrets_has_none_in_its_folder_and_is_made_again_without_them(tmp_path):
    words = ["catch", "--workdir", str(tmp_path), "--process-env", "actor:API_TOKEN=hunter2"]
    run, settings = parse(impala, words)
    made = impala(run=run, **settings)
    claim_workdir(made.name, run, settings, origin_of(impala, words, made)).close()
    assert "hunter2" not in (tmp_path / "config.json").read_text() and run.variables("actor") == {
        "API_TOKEN": "hunter2"
    }
    _, again, _ = call_of(tmp_path)
    assert again.process_env == ("actor:API_TOKEN",) and again.variables("actor") == {}
    claim_workdir(made.name, run, settings, origin_of(impala, words, made)).close()
    assert not [path for path in tmp_path.rglob("*.json") if "hunter2" in path.read_text()]


def test_a_program_of_this_repository_is_found_again_from_any_folder(tmp_path, monkeypatch):
    made, run, settings = program(tmp_path / "run")
    claim_workdir(made.name, run, settings, origin_of(impala, ["catch"], made)).close()
    monkeypatch.chdir(tmp_path)
    config = read_config(tmp_path / "run")
    assert config.file == "programs/impala.py" and config.program_file == ROOT / "programs" / "impala.py"
    function, _, _ = call_of(tmp_path / "run")
    assert function.__name__ == "impala"
    assert dataclasses.replace(config, file="/elsewhere/mine.py").program_file == pathlib.Path("/elsewhere/mine.py")


@pytest.mark.parametrize(
    ("part", "change", "told"),
    [
        ("boonta", {"commit": "fedcba9876"}, "commit fedcba98 and 01234567, source"),
        ("boonta", {"dirty": True}, "commit 01234567 with changes, source"),
        ("boonta", {"digest": "abcd"}, "source abcd, program"),
        ("program", {"digest": "abcd"}, "program abcd; here is boonta"),
    ],
)
def test_another_state_of_the_source_is_told_in_one_line(monkeypatch, part, change, told):
    monkeypatch.setattr(provenance, "revision", lambda file: ("0123456789", False))
    file = ROOT / "programs" / "impala.py"
    here = provenance_of(file, "catch", {})
    assert differs_from(here, file) == ""
    found = differs_from(dataclasses.replace(here, **{part: dataclasses.replace(getattr(here, part), **change)}), file)
    assert found.startswith("the run was started from boonta ") and told in found and "\n" not in found
    older = dataclasses.replace(here, versions={**here.versions, "boonta": "0.0.1"})
    assert "started from boonta 0.0.1, commit" in differs_from(older, file)


def test_a_config_without_it_is_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"program": "impala", "seed": 0, "settings": {}}))
    assert read_config(tmp_path).provenance is None
