"""What an actor tells its inference node, and what it does if that doesn't answer."""

from __future__ import annotations

import math
import types

import numpy as np
import pytest

from boonta.agents.base import Slots
from boonta.deploy.core import REACH_S
from boonta.envs.catch import Catch
from boonta.nodes.acting.base import Remote, RemoteAct
from boonta.nodes.base import Node
from boonta.nodes.rpc.errors import DeadlineExceeded

pytestmark = pytest.mark.once


class Silent:
    """An inference node that is starting, overloaded or away.

    Args:
      clock: the time, in seconds; each call takes as long as a client's deadline.
      away_s: when it answers again.
    """

    def __init__(self, clock: list[float], away_s: float = math.inf):
        self._clock = clock
        self._away_s = away_s

    def register(self, *arguments):
        self._clock[0] += 30.0
        if self._clock[0] < self._away_s:
            raise DeadlineExceeded
        return True


class Listening:
    """An inference node that remembers the times and the executed actions that it is told."""

    def __init__(self):
        self.told: list = []

    def register(self, *arguments):
        return True

    def act(self, name, t, leaves, executed, timeout_s):
        self.told.append((t, executed))
        return [5, np.zeros(2, np.int32), [], []]


class Broken:
    def register(self, *arguments):
        raise RuntimeError("inference: actor/0/0 has 9 environments")


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("boonta.nodes.base.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_an_actor_waits_for_an_inference_node_as_long_as_that_may_be_away(clock):
    RemoteAct(Node("actor/0"), Remote(Silent(clock, REACH_S)), 0, Slots(2), 0)
    assert clock[0] >= REACH_S


def test_waiting_for_an_answer_ends_with_words(clock):
    with pytest.raises(TimeoutError, match="actor/0 waited 3600 s for inference"):
        RemoteAct(Node("actor/0"), Remote(Silent(clock)), 0, Slots(2), 0)
    with pytest.raises(RuntimeError, match="has 9 environments"):
        RemoteAct(Node("actor/0"), Remote(Broken()), 0, Slots(2), 0)


def test_an_action_that_the_environments_took_instead_is_told_once():
    node, other = Listening(), np.array([2, 1], np.int32)
    act, timestep = RemoteAct(Node("actor/0"), Remote(node), 0, Slots(2), 0), Catch()(2, 0).reset()
    act(timestep)
    act.executed(other)
    act(timestep)
    act(timestep)
    assert node.told == [(0, None), (1, other), (2, None)]
