"""Whole programs whose nodes are killed, stopped and broken, and that go on."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Callable

import psutil
import pytest

from boonta.benchmarks import restarts
from boonta.nodes import metrics
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.launched import LIGHT, finish, pids, running, start, wait_for_rows
from boonta.tests.helpers.running import COUNTERS, Running, have_grown_twice
from boonta.tests.helpers.runs import saved

pytestmark = pytest.mark.cluster
INFERENCE = "tests/helpers/inference_program.py"
STEPS_PER_S = 20  # Of each counter of the light program, at most.


def wait_until(condition: Callable[[], bool], process: subprocess.Popen, what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline or process.poll() is not None:
            process.terminate()
            raise AssertionError(f"{what}: {finish(process)}")
        time.sleep(0.2)


def preference(pid: int) -> int:
    """How much earlier than its size says Linux kills a process where memory runs out."""
    return int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text())


def rows(workdir: pathlib.Path) -> list[dict[str, float]]:
    return [row for row in metrics.read(workdir) if set(COUNTERS) <= set(row)]


def end(workdir: pathlib.Path, process: subprocess.Popen, victim: str, number: int = signal.SIGKILL) -> None:
    """Ends a node by a signal, and waits until all work again; the other nodes live on."""
    before = pids(workdir)
    os.kill(before[victim], number)
    wait_until(lambda: pids(workdir)[victim] != before[victim], process, f"{victim} did not start again")
    seen = len(rows(workdir))
    wait_until(lambda: have_grown_twice(rows(workdir)[seen:]), process, f"not all work after {victim} was ended")
    assert {**pids(workdir), victim: 0} == {**before, victim: 0}
    assert not psutil.pid_exists(before[victim])


def stop(workdir: pathlib.Path, process: subprocess.Popen) -> str:
    """Ends the program; returns what it has printed."""
    process.send_signal(signal.SIGTERM)
    output = finish(process)
    assert process.returncode == 143, output
    assert running(workdir) == []
    return output


def test_each_kind_of_node_is_killed_or_stopped_and_works_again(tmp_path):
    """The program counts nothing twice."""
    began = time.monotonic()
    process = start("--workdir", str(tmp_path), program=LIGHT)
    wait_for_rows(tmp_path, process)
    launcher = preference(process.pid)
    assert all(preference(pid) > launcher for pid in pids(tmp_path).values()) or launcher in (-1000, 1000)
    for victim in ("actor/0", "variables", "learner", "monitor"):
        end(tmp_path, process, victim)
    end(tmp_path, process, "actor/0", signal.SIGSTOP)
    output = stop(tmp_path, process)
    assert "warning: actor/0 has sent no heartbeat for " in output
    for victim in ("actor/0", "variables", "learner", "monitor"):
        assert f"warning: {victim} was killed by SIGKILL while " in output
    assert "  died " in output and "actor/0 2x (has sent no heartbeat for " in output
    seen = rows(tmp_path)
    for name in COUNTERS:
        assert all(old[name] <= new[name] for old, new in zip(seen, seen[1:])), name
        assert seen[-1][name] <= STEPS_PER_S * (time.monotonic() - began)


def test_a_node_that_hangs_while_its_heartbeat_goes_on_is_killed_and_works_again(tmp_path):
    with Running(tmp_path, LIGHT, "--hangs-after", "40", "--restarts.limit-s", "4") as run:
        run.wait_until(lambda: "actor/0 has been stepping for " in run.printed, "the actor is named")
        run.wait_until_it_works()
        printed = run.end()
    assert re.search(
        r"^warning: actor/0 has been stepping for \d+ s, its limit is 4 s; it starts again in ", printed, re.M
    )


def test_the_same_exception_again_and_again_ends_the_program(tmp_path):
    process = start("--workdir", str(tmp_path), "--breaks-after", "50", program=LIGHT)
    output = finish(process)
    assert process.returncode == 1, output
    cause = "failed while stepping: RuntimeError: the counter is broken"
    # A node that ends while the monitor is still starting may be unable to report why: that death counts besides.
    assert output.count(f"warning: actor/0 {cause}; it starts again in ") >= 2
    assert f"error: actor/0 {cause}; it has done so 3 times in a row. Before that it " in output
    assert running(tmp_path) == []


@pytest.mark.slow
def test_ctrl_c_during_a_back_off_ends_the_program(tmp_path):
    process = start("--workdir", str(tmp_path), "--restarts.backoff-s", "1000", program=LIGHT)
    wait_for_rows(tmp_path, process)
    os.kill(pids(tmp_path)["actor/0"], signal.SIGSEGV)
    wait_until(lambda: not psutil.pid_exists(pids(tmp_path)["actor/0"]), process, "the dead actor is still there")
    os.killpg(process.pid, signal.SIGINT)
    output = finish(process, timeout_s=30)
    assert process.returncode == 130, output
    assert running(tmp_path) == []


@pytest.mark.slow
def test_a_cluster_survives_the_death_of_each_kind_of_node(tmp_path):
    """Only the updates go back, by what the learner had not saved; actors have other seeds in their second lives."""
    process = start("--workdir", str(tmp_path), "--save-every-s", "5")
    wait_for_rows(tmp_path, process, 100)
    for victim in ("actor/0", "evaluator", "variables", "replay", "monitor"):
        end(tmp_path, process, victim)
    seen = rows(tmp_path)
    assert all(old[name] <= new[name] for name in ("env_steps", "updates") for old, new in zip(seen, seen[1:]))
    end(tmp_path, process, "learner")
    lowest = min(row["updates"] for row in rows(tmp_path)[len(seen) :])
    assert lowest >= saved_before(seen, 5.0 + 5.0)
    for victim in ("learner", "monitor"):
        end(tmp_path, process, victim, signal.SIGSTOP)
    seen = rows(tmp_path)
    assert all(old["env_steps"] <= new["env_steps"] for old, new in zip(seen, seen[1:]))
    stop(tmp_path, process)
    assert saved(tmp_path) > 0


def saved_before(seen: list[dict[str, float]], seconds: float) -> float:
    """The updates of the last row that is so much older than the newest."""
    return max((row["updates"] for row in seen if row["seconds"] <= seen[-1]["seconds"] - seconds), default=0.0)


@pytest.mark.slow
def test_actors_go_on_with_an_inference_node_that_came_back(tmp_path):
    process = start("--workdir", str(tmp_path), program=INFERENCE)
    wait_for_rows(tmp_path, process)
    end(tmp_path, process, "inference")
    assert "warning: inference was killed by SIGKILL while " in stop(tmp_path, process)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("program", restarts.PROGRAMS)
def test_on_two_idle_cores_each_kind_of_node_works_again_in_time(program):
    """The others live on, or the measurement fails."""
    found = restarts.turn(program, restarts.PROGRAMS[program], list(restarts.SIGNALS))
    killed = {victim: times.works_s for (victim, way), times in found.items() if way == "kill"}
    stopped = {victim: times.named_s for (victim, way), times in found.items() if way == "stop"}
    assert max(killed.values()) <= 20.0 and max(stopped.values()) <= 30.0, found
