"""What the monitor makes of the rows of a run's earlier part, which may be those of weeks."""

from __future__ import annotations

import json
import pathlib
import tracemalloc
from collections.abc import Callable

from boonta.nodes import metrics
from boonta.nodes.watch.row_log import RowLog


def peak(call: Callable[[], object]) -> int:
    """The most bytes that a call has at once."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_monitor_that_starts_does_not_hold_all_earlier_rows(tmp_path: pathlib.Path):
    names = [f"metric_{i}" for i in range(200)]
    with open(tmp_path / metrics.FILE, "w") as file:
        for i in range(300):
            file.write(json.dumps({"updates": i + 1.0, **{name: i + 0.5 for name in names}}) + "\n")
    log = RowLog(tmp_path, (), 10.0, lambda: ({}, [], []), print)
    metrics.read(tmp_path)  # Imports are made before.
    assert peak(log.begin) < peak(lambda: metrics.read(tmp_path)) / 4
    assert log._is_too_early()  # It has seen that the run goes on.


def test_rows_are_made_for_as_long_as_a_run_goes_on(tmp_path: pathlib.Path):
    """Their intervals doubled without an end, so that the 1,026th was more than a float holds."""
    log = RowLog(tmp_path, (), 1_000.0, lambda: ({}, [], []), print)
    log.begin()
    for _ in range(1_100):
        log.make()
    before = log.row
    log.make_if_due()
    assert log.row is before  # The next one is due in 1,000 s.
