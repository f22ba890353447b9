"""What reaches the monitor of a node's reports."""

from __future__ import annotations

import contextlib

from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.rpc.errors import DeadlineExceeded
from boonta.nodes.watch.stopping import StopRule


class Unreliable:
    """A monitor, some of whose answers are lost."""

    def __init__(self, monitor: Monitor, *answers: bool):
        self._monitor, self._answers = monitor, iter(answers)

    def beat(self, report: dict) -> dict:
        reply = self._monitor.beat(report)
        if not next(self._answers):
            raise DeadlineExceeded("the answer is lost")
        return reply


def test_samples_count_once_if_the_answers_to_their_reports_are_lost(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.start()
    node = Node("actor/0", Unreliable(monitor, False, False, True, False, True))
    for value in range(1, 6):
        node.sample("return", float(value))
        with contextlib.suppress(DeadlineExceeded):
            node.heartbeat()
    monitor._log.make()
    row = monitor.status()["row"]
    assert (row["return"], row["return_episodes"]) == (3.0, 5.0)
