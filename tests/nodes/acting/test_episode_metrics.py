"""What actors and evaluators report of episodes besides their returns."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest

from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.variables import VariableServer, pack
from boonta.nodes.watch.rows import Samples
from boonta.tests.helpers import guess, tiny

AGENT = tiny.make(guess.plain.spec, batch_size=4, length=6)


@pytest.fixture
def variables():
    server = VariableServer("variables")
    server.put(5, pack({"linear": {"w": np.zeros((2, 2), np.float32)}}))
    return server


def test_actors_sample_them_with_each_return(variables):
    node = Actor("actor/0", AGENT, guess.measured, variables, QueueTable(AGENT.tables[0]), num_envs=4, threads=1)
    node.start()
    for _ in range(4 * (guess.STEPS + 1)):
        node.step()
    samples = node.report()["samples"]
    assert set(samples["return"]) == {-1.0, 1.0}
    assert samples["episode/is_success"] == [(1 + earned) / 2 for earned in samples["return"]]
    assert samples["episode/steps"] == samples["episode_steps"] == [guess.STEPS] * len(samples["return"])
    node.close()


def test_evaluators_report_means_over_the_episodes_that_came_to_their_end(variables):
    node = Evaluator("evaluator", AGENT, guess.measured, variables, episodes=16, every_s=0.0)
    node.start()
    node.step()
    found = node.report()["metrics"]
    assert found["eval_episode/is_success"] == (1 + found["eval_return"]) / 2 and -1 < found["eval_return"] < 1
    assert found["eval_episode/steps"] == guess.STEPS
    node._evaluation = dataclasses.replace(node._evaluation, max_steps=1)
    node.round()
    found = node.report()["metrics"]
    assert found["eval_cut"] == 16 and found["eval_return"] == 0.0
    assert math.isnan(found["eval_episode/is_success"])  # The number of the evaluation before must not stay.


def test_an_environments_number_may_be_called_as_standard_errors_are():
    samples = Samples()
    report = {"name": "actor/0", "life": "a", "number": 1, "acknowledged": 0}
    samples.add({**report, "samples": {"episode/pose_se": [2.0, 4.0]}})
    assert samples.metrics() == {"episode/pose_se": 3.0}


def test_neither_actors_nor_such_environments_load_jax():
    code = "import sys, boonta.nodes.actor, boonta.tests.helpers.guess; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"False\n"
