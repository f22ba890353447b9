"""Whole programs on disks, machines and networks that fail them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from boonta.tests.helpers import damage, limits
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.running import Running
from boonta.tests.helpers.runs import saved

pytestmark = pytest.mark.cluster
TINY, LIGHT = "tests/helpers/tiny_program.py", "tests/helpers/light_program.py"
PROGRAM = """
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.programs.wiring.launch import Program, RunFlags, group, main
from boonta.tests.helpers import tiny
from simulator import Simulator


def program(run: RunFlags) -> Program:
    env, measured = Catch(rows=4, columns=3), Simulator(rows=4, columns=3)
    groups = [group(Learner), group(Actor, num_envs=4), group(Evaluator, env=measured)]
    return Program("program", run, tiny.make(env.spec), env, groups)


if __name__ == "__main__":
    main(program)
"""
# Imports what is missing, in processes that have a variable: with the module, or where an environment is made.
SIMULATOR = """
import os
from boonta.envs.catch import Catch

if os.environ.get("MISSING_FOR") == "module":
    import no_such_package


class Simulator(Catch):
    def __call__(self, num_envs, seed):
        if os.environ.get("MISSING_FOR") == "call":
            import no_such_package
        return super().__call__(num_envs, seed)
"""
LONGER_S = 4.0  # Than between two rows.
STALL_S = 3.0  # Short of the time after which a node counts as silent.
# Sends a replay server, whose process is given, a message that says that it has a field of 127 bytes, and has none.
MALFORMED = """
import contextlib
import sys
import grpc
import psutil

listening = [each for each in psutil.Process(int(sys.argv[1])).net_connections("inet") if each.status == "LISTEN"]
(port,) = {each.laddr.port for each in listening}
with contextlib.suppress(grpc.RpcError):  # It may still answer before it dies.
    grpc.insecure_channel(f"localhost:{port}").unary_unary("/deepmind.reverb.ReverbService/ServerInfo")(b"\\x0a\\x7f")
"""


def test_a_full_disk_is_told_and_nothing_is_lost_once_there_is_room(tmp_path, small_disk):
    with Running(tmp_path, TINY, "--save-every-s", "1", workdir=small_disk / "run") as run:
        run.wait_until_it_works()
        run.wait_until(lambda: saved(run.workdir) > 0, "a checkpoint is saved")
        last_s, filled = run.rows[-1]["seconds"], time.monotonic()
        damage.fill(small_disk)
        run.wait_until(lambda: "could not be saved: " in run.printed, "the learner tells")
        run.wait_until(lambda: "metrics.jsonl can't be written: " in run.printed, "the monitor tells")
        told = time.monotonic()
        actor, children = run.pids["actor/0"], psutil.Process(run.process.pid).children
        os.kill(actor, signal.SIGKILL)  # Its log, and the file with the processes' ids, can't be written either.
        run.wait_until(lambda: "actor/0 was killed by SIGKILL" in run.printed, "the actor's death is noticed")
        run.wait_until(lambda: len(children()) == len(run.pids), "the actor starts again")
        run.wait_until(lambda: time.monotonic() > told + LONGER_S, "longer than the last row was old")
        before, seen = saved(run.workdir), len(run.rows)
        full_s = time.monotonic() - filled
        damage.free(small_disk)
        run.wait_until(lambda: saved(run.workdir) > before, "a checkpoint is saved again")
        run.wait_until(lambda: len(run.rows) > seen + 2, "rows are written again")
        run.wait_until_it_works()
        printed = run.end()
    assert "Traceback" not in printed and "error: " not in printed
    rows = run.rows
    assert all(old["env_steps"] <= new["env_steps"] for old, new in zip(rows, rows[1:]))
    assert any(last_s < row["seconds"] < last_s + full_s for row in rows)  # It was kept until there was room.


def test_a_folder_that_can_not_be_written_is_refused_before_any_work(tmp_path):
    with damage.mounted(tmp_path / "disk", "size=1m,ro") as disk, Running(tmp_path, TINY, workdir=disk / "run") as run:
        printed = run.finish(2)
    assert printed.splitlines()[-1] == f"error: --workdir {disk / 'run'} can't be written: Read-only file system"


def test_a_disk_that_is_full_from_the_start_ends_the_program_before_any_work(tmp_path, small_disk):
    """With code 1, since it may have room when a platform tries again."""
    damage.fill(small_disk)
    with Running(tmp_path, TINY, workdir=small_disk / "run") as run:
        run.process.wait(timeout=DEADLINE_S)
    assert run.process.returncode == 1, run.printed
    assert run.printed.splitlines()[-1].startswith("error: ") and "No space left on device" in run.printed
    assert "Traceback" not in run.printed


def test_servers_that_answer_late_are_waited_for_and_one_that_a_message_kills_starts_again(tmp_path):
    """The fault is in the gRPC that Reverb brings along, which no other version of the two mends."""
    with Running(tmp_path, TINY) as run:
        run.wait_until_it_works()
        for server in ("variables", "replay"):
            os.kill(run.pids[server], signal.SIGSTOP)
            time.sleep(STALL_S)
            os.kill(run.pids[server], signal.SIGCONT)
            run.wait_until_it_works()
        assert "it starts again" not in run.printed
        replay = run.pids["replay"]
        command = [*_inside_the_network_of(replay), sys.executable, "-c", MALFORMED, str(replay)]
        subprocess.run(command, check=True, timeout=DEADLINE_S)
        run.wait_until(lambda: run.pids["replay"] != replay, "the replay server starts again")
        run.wait_until_it_works()
        printed = run.end()
    assert "warning: replay was killed by SIGSEGV while " in printed


def _inside_the_network_of(pid: int) -> list[str]:
    """What puts a command into the network of a process, and into the user namespace to which that belongs."""
    others = [
        kind
        for kind in ("user", "net")
        if os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    ]
    return ["nsenter", f"--target={pid}", "--preserve-credentials", *(f"--{kind}" for kind in others)] if others else []


def test_an_out_of_memory_kill_is_called_one(tmp_path):
    eats = ["--eats-mb", "50", "--restarts.number", "1"]
    with limits.memory(1 << 31) as before, Running(tmp_path, LIGHT, *eats, before=before) as run:
        printed = run.finish(1)
    assert "warning: actor/0 was killed by SIGKILL (out of memory) while " in printed
    assert "error: actor/0 was killed by SIGKILL (out of memory) while " in printed


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("module", "exited with code 1 while starting"),
        pytest.param("call", "failed while stepping", marks=pytest.mark.slow),  # A minute more.
    ],
)
def test_an_import_that_fails_for_the_evaluator_alone_ends_the_run_with_that_cause(what, words, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "simulator.py").write_text(SIMULATOR)
    flags = ("--restarts.number", "0", "--process-env", f"evaluator:MISSING_FOR={what}")
    with Running(tmp_path, str(tmp_path / "program.py"), *flags) as run:
        printed = run.finish(1)
    cause = f"error: evaluator {words}: ModuleNotFoundError: No module named 'no_such_package'"
    assert printed.splitlines()[-1].startswith(cause), printed
