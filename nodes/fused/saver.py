"""Saves all of a fused program's state in checkpoints, beside its work, and gives it back bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures

from boonta.nodes.checkpoint import Checkpointer, unsaved
from boonta.nodes.fused import fusion
from boonta.nodes.snapshots import image


class StateSaver:
    """Saves in a thread of its own, one checkpoint at a time.

    Args:
      checkpointer: writes and reads the checkpoints; it has resumed one, or found none.
      warn: called with what is wrong with a save that failed, or a state that can't be restored.
    """

    def __init__(self, checkpointer: Checkpointer, warn: Callable[[str], None]):
        self._checkpointer = checkpointer
        self._warn = warn
        self._thread = futures.ThreadPoolExecutor(1, "saver")
        self._saved: futures.Future | None = None

    def rest(self, shapes: fusion.State) -> fusion.State | None:
        """The resumed checkpoint's state without the learner's, on the devices; None if it has none that fits.

        Args:
          shapes: those of the program's state, with their shardings.
        """
        shapes = shapes._replace(learner=())
        try:
            saved = self._checkpointer.rest(image.host_shapes(shapes))
        except ValueError as error:
            self._warn(f"environments and table start afresh, since those saved don't fit: {error}")
            return None
        return None if saved is None else image.from_host(saved, shapes)

    def begin(self, updates: int, state: fusion.State, counts: dict[str, float]) -> None:
        """Waits for the save before, copies the state to the host, and begins to save the copy."""
        self.settle()
        learner, rest = image.copy(state.learner), image.to_host(state._replace(learner=()))
        self._saved = self._thread.submit(self._checkpointer.save, updates, learner, counts, rest)

    def settle(self) -> None:
        """Waits for the save that is under way. If it could not be written, a later one may be."""
        saved, self._saved = self._saved, None
        try:
            if saved is not None:
                saved.result()
        except OSError as error:
            self._warn(f"{error}; it is tried again")

    def save(self, updates: int, state: fusion.State, counts: dict[str, float]) -> None:
        """Saves a checkpoint; returns when it is on the disk.

        Raises:
          OSError: it could not be written.
        """
        self.begin(updates, state, counts)
        saved, self._saved = self._saved, None
        assert saved is not None
        try:
            saved.result()
        except OSError as error:
            raise unsaved(error) from error
