"""Which of the learner's params are published, and when."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from boonta.envs.catch import Catch
from boonta.nodes.learner import Learner
from boonta.nodes.learning.publishing import Publisher, open_publishing
from boonta.nodes.variables import DeviceVariables, VariableServer, unpack
from boonta.tests.helpers import tiny
from boonta.tests.helpers.batches import BatchStore

SPEC = Catch().spec


class Versions(VariableServer):
    """Keeps which versions were published."""

    def __init__(self):
        super().__init__("variables")
        self.seen: list[int] = []

    def put(self, version, packed):
        self.seen.append(version)
        super().put(version, packed)


@pytest.mark.parametrize(
    ("cadence", "steps", "published", "at_end"),
    [
        ({}, 3, [0, 1, 2, 3], []),
        ({"publish_every": 3}, 8, [0, 3, 6], [8]),
        ({"publish_every": 4}, 8, [0, 4, 8], []),
        ({"updates_per_step": 4}, 2, [0, 4, 8], []),
        ({"updates_per_step": 2, "publish_every": 3}, 5, [0, 4, 6, 10], []),
    ],
)
def test_params_are_published_first_last_and_every_so_many_updates(tmp_path, cadence, steps, published, at_end):
    agent, variables = tiny.make(SPEC), Versions()
    learner = Learner("learner", agent, SPEC, BatchStore(), variables, folder=str(tmp_path), devices=1, **cadence)
    learner.start()
    for _ in range(steps):
        learner.step()
    learner.settle()
    assert variables.seen == published
    learner.close()
    assert variables.seen == published + at_end
    newest = unpack(variables.get(-1)[1], agent.update.params(learner._state))
    np.testing.assert_array_equal(newest["linear"]["w"], learner._state.weights["linear"]["w"])


@pytest.mark.parametrize(("given", "updates"), [({}, 3), ({"updates_per_step": 1}, 1)])
def test_as_many_updates_are_made_at_once_as_the_agent_names_unless_the_program_does(tmp_path, given, updates):
    agent = tiny.make(SPEC)
    agent = agent._replace(update=agent.update._replace(at_once=3))
    learner = Learner("learner", agent, SPEC, BatchStore(), Versions(), folder=str(tmp_path), devices=1, **given)
    learner.start()
    learner.step()
    assert learner.report()["counts"]["updates"] == updates
    learner.close()


def test_what_replay_tables_need_not_follow_at_once_is_published_every_tenth_update(tmp_path):
    agent, variables = tiny.make(SPEC), Versions()
    replay = dataclasses.replace(agent.tables[0], kind="replay", sampler="uniform")
    agent = agent._replace(tables=(replay,))
    learner = Learner("learner", agent, SPEC, BatchStore(), variables, folder=str(tmp_path), devices=1)
    learner.start()
    for _ in range(20):
        learner.step()
    learner.settle()
    assert variables.seen == [0, 10, 20]


def test_a_learner_that_is_stopped_before_its_first_publication_ends_without_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("boonta.nodes.learner.CHECK_S", 0.0)
    answered = threading.Event()

    class Slow(Versions):
        def put(self, version, packed):
            assert answered.wait(60)
            super().put(version, packed)

    variables = Slow()
    learner = Learner("learner", tiny.make(SPEC), SPEC, BatchStore(), variables, folder=str(tmp_path), devices=1)
    learner.stop()
    learner.start()
    threading.Timer(0.5, answered.set).start()
    learner.close()
    assert 0 in variables.seen


def test_only_what_a_variable_server_may_lose_is_looked_after(monkeypatch):
    """A thread that does so would have nothing to do where params stay in the process, or another learner publishes."""
    learner, here = Learner.__new__(Learner), DeviceVariables([])
    monkeypatch.setattr(threading, "Thread", lambda **given: pytest.fail(f"a thread was made: {given}"))
    assert open_publishing(learner, here) == here.put
    assert open_publishing(learner, None)(7, {}) is None


def test_params_of_a_learners_earlier_life_stay_until_it_has_published():
    server = VariableServer("variables")
    server.put(7, b"seven")
    Publisher(server, lambda: False).renew()
    assert server.get(-1) == (7, b"seven")


def test_an_empty_server_has_nothing_newer_and_one_with_a_smaller_version_has():
    server, there = VariableServer("variables/0"), []
    server._changed.wait_for = lambda is_there, wait_s: there.append(bool(is_there()))
    server.newest(7, 0.0)
    server.put(3, b"three")  # The learner has been started again.
    assert (server.newest(7, 0.0), server.newest(3, 0.0)) == (3, 3)
    assert there == [False, True, False]
