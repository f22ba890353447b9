"""What an actor does whose inference node doesn't answer."""

from __future__ import annotations

import pytest

from boonta.agents.base import Slots
from boonta.nodes.acting import base as acting
from boonta.nodes.acting.base import Remote, RemoteAct
from boonta.nodes.base import Node
from boonta.nodes.rpc.errors import DeadlineExceeded

pytestmark = pytest.mark.once


class Silent:
    """An inference node that is starting, or overloaded."""

    def register(self, *arguments):
        raise DeadlineExceeded


class Broken:
    def register(self, *arguments):
        raise RuntimeError("inference: actor/0/0 has 9 environments")


def test_waiting_for_an_answer_ends_with_words(monkeypatch):
    monkeypatch.setattr(acting, "ANSWER_DEADLINE_S", 0.0)
    with pytest.raises(TimeoutError, match="actor/0 waited 0 s for inference"):
        RemoteAct(Node("actor/0"), Remote(Silent()), 0, Slots(2), 0)
    with pytest.raises(RuntimeError, match="has 9 environments"):
        RemoteAct(Node("actor/0"), Remote(Broken()), 0, Slots(2), 0)
