"""What an actor does whose inference node doesn't answer."""

from __future__ import annotations

import math
import types

import pytest

from boonta.agents.base import Slots
from boonta.deploy.core import REACH_S
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
