"""`boonta play` on a program in another folder, which imports a module beside it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.programs.wiring.launch import Program, RunFlags, group, main
from boonta.tests.helpers import tiny
from beside import NUM_ENVS


def program(run: RunFlags) -> Program:
    env = Catch(rows=4, columns=3)
    groups = [group(Learner), group(Actor, num_envs=NUM_ENVS)]
    return Program("program", run, tiny.make(env.spec), env, groups)


if __name__ == "__main__":
    main(program)
"""


@pytest.mark.once
@pytest.mark.timeout(300)
def test_it_is_found_again_from_elsewhere_and_a_missing_module_is_named(tmp_path):
    project, run = tmp_path / "project", tmp_path / "run"
    project.mkdir()
    (project / "program.py").write_text(PROGRAM)
    (project / "beside.py").write_text("NUM_ENVS = 16\n")

    def call(*words: str) -> subprocess.CompletedProcess:
        command = [sys.executable, *words, "--workdir", str(run)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)

    trained = call(str(project / "program.py"), "--launch", "anakin", "--stop.updates", "2")
    assert trained.returncode == 0, trained.stderr
    played = call("-m", "boonta", "play")
    assert played.returncode == 0 and (run / "play.gif").exists(), played.stderr
    (project / "beside.py").unlink()
    refused = call("-m", "boonta", "play")
    assert refused.returncode == 2 and "program.py can't be imported: No module named 'beside'" in refused.stderr
    assert refused.stderr.startswith("error: ") and "Traceback" not in refused.stderr
