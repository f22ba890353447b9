"""What a learner saves: its checkpoints at intervals, the tables under the same numbers, and the best one."""

from __future__ import annotations

import pathlib
import threading
import time
from typing import NamedTuple

from boonta.agents.base import Nest
from boonta.nodes.base import Node
from boonta.nodes.checkpoint import Checkpointer, unsaved
from boonta.nodes.snapshots import image
from boonta.nodes.snapshots.best import Best
from boonta.nodes.snapshots.store import Retention
from boonta.nodes.watch.calls import answered

REQUEST_S = 2.0  # Longest wait, after a save, for the request that the tables are saved, too.


class Saving(NamedTuple):
    """Where a learner's checkpoints are, and when one is made.

    Attributes:
      folder: their folder.
      beside: the name of the folder beside it with the tables' snapshots; empty if there is none.
      start_from: another folder of checkpoints, or None, see `Checkpointer`.
      every_s: seconds between checkpoints.
      retention: which of them stay.
    """

    folder: pathlib.Path
    beside: str
    start_from: str | None
    every_s: float
    retention: Retention


class Saver:
    """Saves a learner's checkpoints, and has the tables saved.

    Args:
      node: the learner, in its own process.
      saving: where and when.
    """

    def __init__(self, node: Node, saving: Saving):
        self._node = node
        self._saving = saving
        self._checkpointer = Checkpointer(saving.folder, saving.retention, saving.start_from, node.warn)
        self._best: Best | None = None
        self._saved_at = time.monotonic()

    def resume(self, state: Nest) -> tuple[Nest, dict[str, float]]:
        """The state and the program's counters to go on from; arguments and errors are those of `Checkpointer`."""
        whole = bool(self._saving.beside) and not self._node.past_lives  # If it restarts alone, the tables go on.
        return self._checkpointer.resume(state, whole)

    def keep_best(self) -> None:
        """Keeps the best checkpoint, too, from now on."""
        self._best = Best(self._saving.folder, self._node.warn, self._node.evaluation)

    def begin(self) -> None:
        """Counts the seconds to the first save from now on."""
        self._saved_at = time.monotonic()

    def take_due(self) -> bool:
        """Whether a save is due. True restarts the interval, since hosts make an agreed save two updates later."""
        now = time.monotonic()
        due = now - self._saved_at > self._saving.every_s
        if due:
            self._saved_at = now
        return due

    def follow(self, updates: int, state: Nest) -> None:
        """Keeps a copy of the state where the newest evaluation asks for it; to be called between updates."""
        if self._best is not None:
            take = lambda: (image.copy(state), self._counters(updates))  # noqa: E731
            self._best.follow(self._node.evaluation, updates, take)

    def write_best(self, sound: int) -> None:
        """Writes the best checkpoint, if it has at most `sound` updates."""
        if self._best is not None:
            with self._node.stopwatch("saving the best checkpoint"):
                self._best.write(sound)

    def save(self, updates: int, state: Nest, last: bool) -> None:
        """Saves a checkpoint. One that fails is tried again after the interval, unless it is the last.

        Raises:
          OSError: the last one could not be written.
        """
        # In a thread, since a monitor that is away must not delay the learner's own save.
        request = threading.Thread(target=self._request_snapshot, args=(updates,), daemon=True)
        request.start()
        try:
            self._checkpointer.save(updates, state, self._counters(updates), beside=self._saving.beside)
        except OSError as error:
            if last:
                raise unsaved(error) from error
            self._node.warn(f"{error}; the next save is in {self._saving.every_s:.0f} s")
        if self._best is not None:
            self._best.write()
        request.join(REQUEST_S)
        self._saved_at = time.monotonic()

    def _request_snapshot(self, updates: int) -> None:
        """Has the tables saved under this number, too."""
        if self._saving.beside and self._node.monitor is not None:
            answered(self._node.monitor.request_snapshot, updates)

    def _counters(self, updates: int) -> dict[str, float]:
        """The program's counters, as of the last heartbeat, with the learner's own updates."""
        counts = {name: value for name, value in self._node.program_counts.items() if name != "eval_return"}
        return {**counts, "updates": float(updates)}
