"""A user's own project, in a folder of its own, with packages called `agents` and `envs`, on an installed wheel."""

from __future__ import annotations

import os
import pathlib
import shutil
import site
import subprocess
import sys
from collections.abc import Sequence

import pytest

from boonta.nodes import metrics
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.examples import python_blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]

ENV = '''
"""A ball that falls, in a board of the project's own."""

from helper import ROWS

from boonta.envs.catch import Catch


def narrow() -> Catch:
    return Catch(rows=ROWS, columns=3)
'''

NODE = '''
"""A node of the project's own: it counts its rounds."""

from boonta.nodes.periodic import Periodic


class Clock(Periodic):
    def __init__(self, name, monitor=None, *, every_s: float = 0.01):
        super().__init__(name, monitor, every_s=every_s)

    def round(self) -> None:
        self.count(ticks=1)
'''

PROGRAM = '''
"""Starts with `python my_program.py`; a module beside it has the width of the network."""

from agents.mine import Config, make
from clock import Clock
from envs.narrow import narrow

from boonta.envs.base import Env
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.programs.wiring.launch import Program, RunFlags, group, main


def my_program(
    run: RunFlags, config: Config, env: Env = narrow(), clocks: int = 1, learns: bool = True
) -> Program:
    groups = [group(Learner), group(Actor, num_envs=16)] if learns else []
    if clocks:
        groups.append(group(Clock, clocks))
    return Program("my_program", run, make(config, env.spec), env, groups)


if __name__ == "__main__":
    main(my_program)
'''


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> pathlib.Path:
    """A fresh environment's interpreter, where the wheel is installed, over the packages that the lock file names.

    The wheel is built by the setuptools of the tests' own environment and installed by uv, where `./run` has it, or
    else by pip; neither needs a network.
    """
    folder = tmp_path_factory.mktemp("fresh")
    source = folder / "source"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    build = "from setuptools import build_meta; build_meta.build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True, timeout=DEADLINE_S)
    (wheel,) = source.glob("boonta_rl-*.whl")
    uv = shutil.which("uv", path=f"{ROOT / '.uv' / 'bin'}:{os.environ.get('PATH', os.defpath)}")
    options = ["--without-pip"] if uv else []
    subprocess.run([sys.executable, "-m", "venv", *options, folder / "env"], check=True, timeout=DEADLINE_S)
    python = folder / "env" / "bin" / "python"
    install = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    options = ["--no-deps", "--no-index", "--no-cache-dir"]
    subprocess.run([*install, *options, wheel], check=True, capture_output=True, env=outside(), timeout=DEADLINE_S)
    (packages,) = (folder / "env" / "lib").glob("python3*/site-packages")
    (packages / "locked.pth").write_text("\n".join(site.getsitepackages()))  # After the environment's own.
    return python


@pytest.fixture
def project(tmp_path) -> pathlib.Path:
    folder = tmp_path / "project"
    code, *_ = python_blocks(ROOT / "agents" / "README.md")
    for name, text in {
        "agents/__init__.py": "",
        "agents/mine.py": code,
        "envs/__init__.py": "",
        "envs/narrow.py": ENV,
        "clock.py": NODE,
        "helper.py": "ROWS = 5\n",
        "my_program.py": PROGRAM,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def outside() -> dict[str, str]:
    """The variables of a shell that knows nothing of the tests' environment."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def printed(command: Sequence[object], folder: pathlib.Path) -> str:
    """What a command prints that is given in a folder, and succeeds."""
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=outside(), capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(python: pathlib.Path, project: pathlib.Path, *arguments: str) -> str:
    command = [python, project / "my_program.py", *arguments, "--workdir", project / "run"]
    return printed(command, project.parent)


def test_the_wheel_is_what_is_imported(python, tmp_path):
    code = "import boonta, boonta.programs.tools.play, pathlib; print(pathlib.Path(boonta.__file__).resolve().parent)"
    folder = pathlib.Path(printed([python, "-c", code], tmp_path).strip())
    assert folder == python.parents[1].resolve() / "lib" / folder.parts[-3] / "site-packages" / "boonta"
    assert (folder / "py.typed").exists() and not (folder / "tests").exists()


def test_the_console_script_is_installed(python, tmp_path):
    boonta = python.with_name("boonta")
    assert printed([boonta, "--help"], tmp_path).startswith("Usage: boonta TOOL")
    listed = printed([boonta, "list"], tmp_path)
    assert all(word in listed for word in ("impala_atari", "self_play", "muzero", "minatar/breakout", "compare"))
    code = "import importlib.metadata as metadata; print(metadata.metadata('boonta-rl')['Name'])"
    assert printed([python, "-c", code], tmp_path) == "boonta-rl\n"


@pytest.mark.cluster
def test_it_runs_as_processes(python, project):
    run(python, project, "--stop.updates", "30")
    row = metrics.read(project / "run")[-1]
    assert row["updates"] >= 30 and row["ticks"] > 0


@pytest.mark.once
@pytest.mark.unoptimised
def test_it_runs_as_threads_of_one_process_with_its_environment_named(python, project):
    flags = ["--launch", "sebulba", "--clocks", "0", "--env.columns", "4", "--stop.updates", "30"]
    output = run(python, project, "envs.narrow:narrow", *flags)
    assert "environment catch, presets for 'catch'" in output
    assert metrics.read(project / "run")[-1]["updates"] >= 30


@pytest.mark.once
def test_its_node_runs_without_launchpad(python, project):
    run(python, project, "--launch", "serial", "--no-learns", "--stop.seconds", "1")
    assert metrics.read(project / "run")[-1]["ticks"] > 0
