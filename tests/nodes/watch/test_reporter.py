"""What reaches the monitor of a node's reports."""

from __future__ import annotations

import contextlib

import jax.numpy as jnp
import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (np.zeros(3), r"an array of shape \(3,\)"),
        (jnp.zeros((1,)), r"an array of shape \(1,\)"),
        ("hi", "'hi'"),
        (np.array("hi"), r"an array of shape \(\)"),
        (np.datetime64("2026-01-02"), r"an array of shape \(\)"),
        (None, "None"),
        ([1.0], r"\[1.0\]"),
        (1j, "1j"),
    ],
)
def test_what_is_no_number_is_refused_where_it_is_given_and_counts_for_nothing(value, found):
    node = Node("norms")
    with pytest.raises(TypeError, match=f"^measure: the metric 'x' is {found}; it must be one number"):
        node.measure({"before": 1.0, "x": value})
    with pytest.raises(TypeError, match=f"^sample: the metric 'x' is {found}; it must be one number"):
        node.sample("x", value)
    with pytest.raises(TypeError, match=f"^count: the metric 'x' is {found}; it must be one number"):
        node.count(before=1, x=value)
    report = node._reporter.report(node, threads=1, started=True)
    assert not report["metrics"] and not report["samples"] and not report["counts"]


class Scalar:
    """A tensor of another library, whose dtypes have no kind."""

    shape, dtype = (), object()

    def __float__(self):
        return 2.0


TWO = [2, 2.0, np.float32(2), np.int64(2), np.array(2.0), jnp.float32(2), jnp.int32(2), Scalar()]


@pytest.mark.parametrize("value", TWO)
def test_a_number_may_be_of_any_type(value):
    node = Node("norms")
    node.measure({"x": value})
    node.sample("x", value)
    node.count(x=value)
    report = node._reporter.report(node, threads=1, started=True)
    assert (report["metrics"], report["samples"], report["counts"]) == ({"x": 2.0}, {"x": [2.0]}, {"x": 2.0})
    assert type(report["metrics"]["x"]) is float
