"""What `join` does with its nodes when it is asked to leave."""

from __future__ import annotations

import signal
import subprocess
import sys
import types

import pytest

from boonta.programs.tools import join
from boonta.programs.wiring.joining import Servers
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.config_file import Config
from boonta.programs.wiring.supervision import dependent

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
HEARS = "import time; print(flush=True); time.sleep(600)"


class Asked:
    """Stands for the signals of a process that has got one."""

    number = signal.SIGINT


@pytest.mark.parametrize(("code", "exit_code", "returned"), [(DEAF, 1, -signal.SIGKILL), (HEARS, 0, -signal.SIGTERM)])
def test_a_node_that_does_not_leave_is_killed(monkeypatch, capsys, code, exit_code, returned):
    monkeypatch.setattr(join, "KILL_S", 0.2 if code == DEAF else 60.0)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as node:
        node.stdout.readline()  # It has got so far.
        assert join._stay({"actor/4": node}, Asked()) == exit_code
    assert node.returncode == returned
    assert ("actor/4 did not leave within 0.2 s" in capsys.readouterr().err) == (code == DEAF)


def test_actors_that_join_take_what_is_not_recorded_from_the_command_s_environment(monkeypatch):
    words = ("catch", "--process-env", "actor:API_TOKEN", "actor:OMP_NUM_THREADS=2", "learner:OTHER", "--seed", "3")
    run = {"process_env": list(words[2:5])}
    config = Config(program="p", seed=3, settings={}, file="p.py", function="p", arguments=words, run=run)
    monkeypatch.delenv("API_TOKEN", raising=False)
    with pytest.raises(BadInput, match="API_TOKEN must be set here, as the run's --process-env does for 'actor': .*=…"):
        join._without_secrets(config, "actor")
    monkeypatch.setenv("API_TOKEN", "hunter2")
    left = join._without_secrets(config, "actor").arguments
    assert left == ("catch", "--process-env", "actor:OMP_NUM_THREADS=2", "--seed", "3")


@pytest.mark.parametrize("network", [0, 77])
def test_actors_that_join_end_with_the_command_that_lets_them(tmp_path, network):
    config = types.SimpleNamespace(program_file=tmp_path / "program.py", arguments=())
    command = join._command(config, tmp_path, Servers({"monitor": "host:1"}, process=network), "actor", 4)
    tie = dependent.command(sys.executable, "-m", "boonta.deploy.node")
    at = command.index(dependent.__file__) - 3
    assert command[at : at + len(tie)] == tie and (at > 0) == bool(network)
