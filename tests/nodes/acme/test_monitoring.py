"""Acme's parts count with the program, and log to its monitor."""

from __future__ import annotations

import numpy as np
import pytest

from boonta.nodes.base import Node

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.nodes.acme.monitoring import MonitorLogger, ProgramCounter  # noqa: E402

from acme.utils import counting  # noqa: E402  # isort: skip


def test_the_program_is_the_parent_of_acme_s_counters():
    node = Node("mine")
    node.program_counts = {"env_steps": 90.0, "updates": 7.0, "acme/learner_walltime": 3.0, "episodes": 10.0}
    parent = ProgramCounter(node, counted=("env_steps", "episodes"))
    actor = counting.Counter(parent, prefix="actor", time_delta=0.0)
    learner = counting.Counter(parent, prefix="learner", time_delta=0.0)
    counts = actor.increment(steps=9, episodes=1, resets=2)
    assert (counts["actor_steps"], counts["actor_episodes"], counts["learner_steps"]) == (90.0, 10.0, 7.0)
    learner.increment(steps=3, walltime=0.5)
    learner.increment(steps=1)
    assert node.report()["counts"] == {"updates": 4.0, "acme/learner_walltime": 0.5, "acme/actor_resets": 2.0}
    assert parent.get_counts()["learner_walltime"] == 3.0


def test_numbers_are_logged_and_the_rest_is_left_out():
    node = Node("mine")
    logger = MonitorLogger(node)
    logger.write({"loss": np.float32(0.5), "steps": 3, "logits": np.zeros(4), "note": "x", "bad": float("nan")})
    logger.write({"loss": np.array(0.25), "none": None})
    logger.close()
    assert node.report()["metrics"] == {"acme/loss": 0.25, "acme/steps": 3.0}
