"""What a run keeps when its nodes are killed, as its folder shows it."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence

from boonta.agents.base import Table
from boonta.nodes import metrics
from boonta.nodes.snapshots import counters
from boonta.nodes.snapshots.store import SnapshotFolder, numbers

Row = dict[str, float]


def rows(workdir: pathlib.Path) -> list[Row]:
    """The rows of metrics so far."""
    return metrics.read(workdir) if (workdir / metrics.FILE).exists() else []


def newest_whole(workdir: pathlib.Path) -> int:
    """The number of the newest checkpoint whose tables are sound on all servers; 0 if there is none."""
    if not numbers(workdir / "checkpoints"):
        return 0
    return SnapshotFolder(workdir / "checkpoints", "checkpoint").newest_whole(lambda warning: None) or 0


def lives(workdir: pathlib.Path, name: str) -> int:
    """How many lives of a node the monitor has counted, the present one included."""
    found = counters.load(workdir)
    return 0 if found is None or name not in found.lives else found.past_lives(name) + 1


def begun_with(workdir: pathlib.Path) -> Row:
    """The counters with which the program went on when it was last started; none if that was the first time."""
    return json.loads((workdir / counters.FILE).read_text())["base"]


@dataclasses.dataclass(frozen=True)
class Down:
    """A run whose nodes have all ended, before they start again.

    Attributes:
      checkpoint: the number of the checkpoint with which it is to go on.
      counts: that checkpoint's counters.
      rows: how many rows there were.
    """

    checkpoint: int
    counts: Row
    rows: int

    @classmethod
    def of(cls, workdir: pathlib.Path) -> Down:
        """What lies in the folder of such a run."""
        number = newest_whole(workdir)
        counts = json.loads((workdir / "checkpoints" / str(number) / "counts" / "metadata").read_text())
        return cls(number, counts, len(rows(workdir)))

    def require_resumed(self, workdir: pathlib.Path) -> None:
        """Checks that it has gone on exactly from there, so that no more is lost than what came after the checkpoint.

        A row must have been written since.
        """
        counts = {name: value for name, value in self.counts.items() if name != "seconds"}
        assert begun_with(workdir) == counts and counts["updates"] == self.checkpoint
        require_no_falls(rows(workdir)[self.rows :], counts)


def require_no_falls(found: Sequence[Row], counts: Row) -> None:
    """Checks that rows have these counters, at least as high from the first row on, and that none falls."""
    assert found
    for name, value in counts.items():
        values = [row[name] for row in found]
        assert values == sorted(values) and values[0] >= value, name


def on_server(row: Row, tables: Sequence[Table], server: str) -> Row:
    """What a row says of a replay server's tables that never falls while the server lives; empty if it says nothing.

    Of a queue, whose sequences leave it when they are drawn, that is how many were inserted; of other tables also how
    many it holds.
    """
    names = [f"{table.name}/inserted/{server}" for table in tables]
    names += [f"{table.name}/size/{server}" for table in tables if table.kind == "replay"]
    return {name: row[name] for name in names if name in row}
