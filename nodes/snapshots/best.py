"""The checkpoint with the best evaluation, which is never removed.

It lies in a folder of its own beside the newest ones, numbered by its updates like any other, with a record of the
evaluation. Where the evaluator is another node, the learner goes on during an evaluation: it keeps its state when the
evaluator reports that one has begun, a second or so after the params were fetched. The record has the updates of both.
A fused program keeps exactly the state that it evaluates.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping

import pydantic

from boonta.agents.base import Nest
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.snapshots import files, schema
from boonta.nodes.snapshots.store import BEST, Retention, SnapshotFolder, one_of

State = tuple[Nest, dict[str, float]]  # A copy of the learner state, and the program's counters.

RECORD = "evaluation.json"


@dataclasses.dataclass(frozen=True)
class Record:
    """The evaluation of the best checkpoint, or of a population's best member at its end.

    Attributes:
      eval_return: the mean return.
      eval_return_se: its standard error; None where it wasn't measured.
      version: the updates of the params that were evaluated.
      updates: the updates of the state that was kept.
      member: the number of the member of a population; None in any other run.
    """

    eval_return: schema.Number
    eval_return_se: schema.Number | None
    version: int
    updates: int
    member: int | None = None

    def as_files(self) -> dict[str, bytes]:
        """The files that a checkpoint has of it, by name."""
        return {RECORD: files.as_json(dataclasses.asdict(self))}


_RECORD = pydantic.TypeAdapter(Record)


class Best:
    """Keeps the learner state with the best evaluation so far, until `write` saves it.

    Writing may take longer than an evaluation, so it happens with the run's snapshots and at its end. A run that is
    killed loses a best state that was not written yet.

    Args:
      folder: the folder of the run's checkpoints.
      warn: called with a message if the best checkpoint can't be read or written.
      known: the newest report of an evaluator when the learner started, of params from an earlier life of the learner.
        `follow` leaves its evaluations out: the states are lost, or saved.

    Attributes:
      record: the record of the best so far, earlier parts of a resumed run included; None without an evaluation.
    """

    def __init__(self, folder: pathlib.Path, warn: Callable[[str], None], known: Mapping[str, float] | None = None):
        folder = folder / BEST
        self._warn = warn
        self.record: Record | None = None
        try:
            self.record = read_record(folder, warn)
        except (OSError, ValueError) as error:
            warn(f"the best checkpoint begins anew: {error}")
        self._checkpointer = Checkpointer(folder, Retention(newest=1), warn=warn)
        self._held: State | None = None
        self._candidate: tuple[float, int, State] | None = None  # The version, the updates and the state.
        self._judged = {(known or {}).get(name) for name in ("eval_version", "eval_started")}

    def offer(self, record: Record, take: Callable[[], State]) -> None:
        """Keeps the state that `take` gives, if its evaluation is the best so far; of equal ones the newest is kept.

        One that isn't finite says nothing, and no other would ever be above it.
        """
        best = -math.inf if self.record is None else self.record.eval_return
        if math.isfinite(record.eval_return) and record.eval_return >= best:
            self.record, self._held = record, take()

    def follow(self, evaluation: Mapping[str, float], updates: int, take: Callable[[], State]) -> None:
        """Handles an evaluator's newest report; to be called between updates.

        Args:
          evaluation: the newest metrics of `nodes.watch.rows.EVALUATION`.
          updates: the learner's number of updates. Params that are newer were those of an earlier life.
          take: returns a copy of its state.
        """
        version, begun = evaluation.get("eval_version"), evaluation.get("eval_started")
        if version is not None and version not in self._judged and "eval_return" in evaluation:
            self._judged.add(version)
            if version <= updates:
                self._offer_own(evaluation, updates, take)
        held = None if self._candidate is None else self._candidate[0]
        if begun is not None and begun not in (version, held) and begun <= updates:
            self._candidate = (begun, updates, take())

    def _offer_own(self, evaluation: Mapping[str, float], updates: int, take: Callable[[], State]) -> None:
        """Offers the state from when the evaluation began; today's, if it began and ended between two reports."""
        version, error = evaluation["eval_version"], evaluation.get("eval_return_se")
        own = self._candidate if self._candidate is not None and self._candidate[0] == version else None
        number = updates if own is None else own[1]
        record = Record(float(evaluation["eval_return"]), error, int(version), number)
        self.offer(record, take if own is None else lambda: own[2])

    def write(self, sound: float = math.inf) -> None:
        """Writes the best state, unless it is written already; where that fails the next call tries again.

        Args:
          sound: the updates of the newest state that is known to be sound; after a failure a newer one isn't written.
        """
        if self._held is None:
            return
        assert self.record is not None
        if self.record.updates > sound:
            return
        state, counts = self._held
        try:
            self._checkpointer.save_alone(self.record.updates, state, counts, self.record.as_files())
            self._held = None
        except OSError as error:
            self._warn(f"the best so far: {error}; it is tried again")


def read_record(folder: pathlib.Path, warn: Callable[[str], None]) -> Record | None:
    """The record of the newest checkpoint in a folder, or of the one whose own folder it is.

    Returns:
      None if there is no checkpoint, or it has none.

    Raises:
      OSError: it can't be read.
      ValueError: none is sound.
    """
    folder, number = one_of(folder)
    store = SnapshotFolder(folder, "checkpoint")
    number = store.newest(warn) if number is None else number
    if number is None or not (path := store.path(number) / RECORD).is_file():
        return None
    return schema.load(_RECORD, schema.read(path))
