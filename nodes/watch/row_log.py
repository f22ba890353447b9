"""When the monitor writes rows of metrics, and what it remembers between two of them."""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from boonta.nodes import metrics
from boonta.nodes.sinks.base import TrackedRun
from boonta.nodes.sinks.files import Files
from boonta.nodes.snapshots import schema
from boonta.nodes.watch import rows
from boonta.nodes.watch.health import Health

FIRST_INTERVAL = 0.25  # Time from the first row to the second, in units of `every_s`; it doubles from row to row.

Look = Callable[[], tuple[Mapping[str, float], Collection[Mapping[str, Any]], Collection[str]]]


class RowLog:
    """Makes rows for the sinks: with the first episode, then at growing intervals, and with each evaluation.

    So short runs have a curve, and no evaluation is lost between two rows. Only `flush` and `close` write to the disk,
    which may stall; the monitor holds no lock meanwhile.

    Args:
      folder: the run's folder.
      log: the sinks that `--log` names, see `Files`.
      every_s: seconds between rows; the first ones are closer.
      look: the program's counters now, its nodes' newest reports, and the names of those that are away.
      warn: takes what rules of health find, and what sinks complain of.

    Attributes:
      health: judges the rows.
      row: the newest one, written or not; empty before the first.
      begun: whether the sinks are open.
    """

    def __init__(
        self, folder: pathlib.Path, log: Sequence[str], every_s: float, look: Look, warn: Callable[[str], None]
    ):
        self.health = Health()
        self.row: dict[str, float] = {}
        self._folder, self._every_s, self._look, self._warn = folder, every_s, look, warn
        self._files = Files(log, warn)
        self._samples = rows.Samples()
        self._evaluated: dict[str, float] = {}  # By node, the version of its last evaluation.
        self._interval_s: float | None = None  # From the last row to the next; None before the first.
        self._unwritten: collections.deque[dict[str, float]] = collections.deque()  # The oldest first.
        self.begun = self._skips = self._goes_on = False

    def begin(self) -> None:
        """Opens the sinks, and remembers the rows of the run's earlier part."""
        with contextlib.suppress(OSError):  # There is no earlier part.
            self.health.remember(self._earlier_rows())
        config: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):  # Rows are written even if config.json is damaged.
            config = json.loads((self._folder / schema.CONFIG).read_bytes())
        self._files.begin(TrackedRun(self._folder, config=config))
        self._earlier = self._mark = self._now()  # Where the rates of the newest row began, and where it ended.
        self.begun = True

    def forget_start(self) -> None:
        """Notes that the params were trained before: the first returns are not those of fresh ones."""
        self._samples.forget_start()

    def skip(self) -> None:
        """Leaves the next row out: nodes have counted to an earlier monitor since the last one, so it has no rates."""
        self._skips = True

    def add(self, report: Mapping[str, Any]) -> bool:
        """Takes a node's new report; returns whether it has an evaluation that no row has yet, and makes one.

        The rates of that row are taken over the time of the last row, too, since it may come right after one.
        """
        self._samples.add(report)
        version = report["metrics"].get("eval_version")
        if version is None or not self.begun or version == self._evaluated.get(report["name"]):
            return False
        if self._skips or self._is_too_early():
            return False
        self._evaluated[report["name"]] = version
        self._put(self._earlier, self._now())
        return True

    def make_if_due(self) -> None:
        """Makes a row if it is time for one."""
        if self._is_due():
            self.make()

    def make(self) -> None:
        """Makes a row."""
        before, self._mark = self._mark, self._now()
        if self._skips:
            self._skips, self._earlier = False, self._mark
            return
        growing = FIRST_INTERVAL * self._every_s if self._interval_s is None else 2.0 * self._interval_s
        self._interval_s = min(self._every_s, growing)
        self._earlier = before
        self._put(before, self._mark)

    def last(self) -> dict[str, float]:
        """The last row, if the program ended now; the newest one while the next is left out.

        Its rates are taken over the time of the row before, too, or they would be those of the nodes' end alone.
        """
        return dict(self.row) if self._skips else self._row(self._earlier, self._now()) | self.health.metrics

    @property
    def waits(self) -> bool:
        """Whether a row has been made that `flush` hasn't written."""
        return bool(self._unwritten)

    def flush(self) -> None:
        """Writes the rows that have been made, in their order; for one thread."""
        while self._unwritten:
            self._files.write(self._unwritten.popleft())

    def close(self) -> None:
        """Writes the last row, if it isn't left out, and closes the sinks; for the thread that writes."""
        if not self._skips and not self._is_too_early():
            self._put(self._earlier, self._now())
        self.flush()
        self._files.close()

    def _earlier_rows(self) -> Iterator[dict[str, float | None]]:
        """The rows of the run's earlier part, one by one."""
        for row in metrics.each(self._folder):
            self._goes_on = self._goes_on or metrics.has_counted(row)
            yield row

    def _is_too_early(self) -> bool:
        """Whether a run that goes on hasn't got its counters back yet: rows without them would seem a new beginning."""
        return self._goes_on and not metrics.has_counted(self._look()[0])

    def _is_due(self) -> bool:
        if self._is_too_early():
            return False
        since_s = time.monotonic() - self._mark.at
        if self._interval_s is None:
            return self._samples.has_episodes or since_s >= self._every_s
        return since_s >= self._interval_s

    def _now(self) -> rows.Mark:
        totals, reports, _ = self._look()
        return rows.mark(time.monotonic(), totals, reports)

    def _row(self, before: rows.Mark, now: rows.Mark) -> dict[str, float]:
        return rows.row_of(before, now, self._samples, *self._look()[1:])

    def _put(self, before: rows.Mark, now: rows.Mark) -> None:
        row = self._row(before, now)
        for warning in self.health.feed(row):
            self._warn(warning)
        self.row = row | self.health.metrics
        self._unwritten.append(self.row)
