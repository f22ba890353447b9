"""Programs whose actors ask an inference node, under every schedule."""

from __future__ import annotations

import os
import signal

import pytest

from boonta.nodes import metrics

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.nodes.inference import Inference  # noqa: E402
from boonta.programs.wiring import launch  # noqa: E402
from boonta.programs.wiring.interpreters import serial as interpreter  # noqa: E402
from boonta.tests.helpers.inference_program import inference_program  # noqa: E402
from boonta.tests.helpers.launched import finish, pids, running, start, wait_for_rows  # noqa: E402
from boonta.tests.helpers.runs import undeclared  # noqa: E402

PROGRAM = "tests/helpers/inference_program.py"


def serial(workdir, *flags: str) -> dict[str, float]:
    """The last row of metrics."""
    with pytest.raises(SystemExit) as ended:
        launch.main(inference_program, ["--workdir", str(workdir), "--launch", "serial", *flags])
    assert not ended.value.code
    return metrics.read(workdir)[-1]


def test_one_thread_gives_the_same_run_twice(tmp_path):
    """Every request is answered at once, by a batch of its own: 2 of the 4 environments of an actor."""
    rows = [serial(tmp_path / name, "--stop.updates", "30", "--seed", "3") for name in "ab"]
    for name in ("updates", "env_steps", "inferences", "return", "loss"):
        assert rows[0][name] == rows[1][name], name
    assert rows[0]["updates"] == 30 and rows[0]["inferences"] == rows[0]["env_steps"] / 2


def test_actors_are_dealt_to_several_inference_nodes(tmp_path, monkeypatch):
    """The first one acts for actors 0 and 2, the second for actor 1, each of which has two groups."""
    nodes, build = [], interpreter.build
    monkeypatch.setattr(interpreter, "build", lambda program: nodes.extend(build(program)) or nodes)
    row = serial(tmp_path, "--stop.updates", "30", "--inference", "2", "--actors", "3")
    assert row["updates"] == 30 and row["inferences"] == row["env_steps"] / 2
    assert {"rss_mb/inference/0", "rss_mb/inference/1"} <= set(row)
    acting = [node for node in nodes if isinstance(node, Inference)]
    groups = [sorted(name for lane in node._lanes for name in lane.groups) for node in acting]
    assert groups == [["actor/0/0", "actor/0/1", "actor/2/0", "actor/2/1"], ["actor/1/0", "actor/1/1"]]
    own = [node.report()["counts"]["inferences"] for node in acting]
    assert min(own) > 0 and sum(own) == row["inferences"]


def require_inferences(workdir) -> None:
    """The program has learned, and its actors have acted by the inference node."""
    assert not undeclared(workdir)
    rows = metrics.read(workdir)
    assert rows[-1]["updates"] >= 100 and rows[-1]["env_steps"] >= 100 * 8 * 4
    assert rows[-1]["inferences"] > 0
    # The last row has no share of nodes that have done nothing since the one before.
    assert {"share/actor/waiting_for_inference", "share/inference/acting"} <= set().union(*rows)


def test_threads_learn_until_the_rule(tmp_path):
    process = start("--workdir", str(tmp_path), "--launch", "local_mt", "--stop.updates", "100", program=PROGRAM)
    output = finish(process)
    assert process.returncode == 0, output
    require_inferences(tmp_path)
    row = metrics.read(tmp_path)[-1]
    assert row["inferences"] <= row["env_steps"] / 2  # While it runs, the actors' counters may be older.


def test_processes_learn_and_without_restarts_a_killed_inference_node_ends_them_by_name(tmp_path):
    """Its actors wait for its answers. Their processes hold neither JAX nor TensorFlow: the environment looks."""
    process = start("--workdir", str(tmp_path), "--processes", "--restarts.number", "0", program=PROGRAM)
    wait_for_rows(tmp_path, process, 300)  # Counters of actors may be a second older than the learner's.
    require_inferences(tmp_path)
    os.kill(pids(tmp_path)["inference"], signal.SIGKILL)
    output = finish(process)
    assert process.returncode == 1, output
    assert "error: inference was killed by SIGKILL while " in output
    assert running(tmp_path) == []


def test_a_failing_request_ends_the_program_with_words(tmp_path):
    """A group of 2 environments doesn't fit into a batch of 1."""
    process = start("--workdir", str(tmp_path), "--launch", "local_mt", "--max-batch", "1", program=PROGRAM)
    output = finish(process)
    assert process.returncode == 1, output
    assert "waiting for inference" in output and "max_batch is 1" in output, output
