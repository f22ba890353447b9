"""The final score of a run, by an evaluation after it or by its last evaluation."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from boonta.nodes.snapshots.manifest import Unsound
from boonta.nodes.snapshots.store import MEMBERS, SnapshotFolder, numbers
from boonta.programs.experiments.curves import Curve, Moment, counter_of, label_of
from boonta.programs.experiments.evaluations import Evaluated
from boonta.programs.wiring.run import Which, checkpoints_of

STALE = 0.05  # A run's last evaluation is called early where more than this share of its env steps come after it.


class Score(NamedTuple):
    """The final score of a run.

    Attributes:
      value: the mean return.
      source: how it was measured.
      episodes: number of episodes; None where it isn't known.
    """

    value: float
    source: str
    episodes: int | None


def of_evaluations(
    curve: Curve,
    after: Evaluated | None,
    checkpoint: int | None,
    past: Sequence[Moment],
    settings: Mapping[str, Any],
    learners: int,
) -> tuple[Score, str]:
    """The score by an evaluation after the run, or else by the last one in it.

    Args:
      curve: the run's evaluations, at least one.
      after: the evaluation after the run, if there is one.
      checkpoint: the number of the checkpoint that such an evaluation would be of now, see `checkpoint_now`.
      past: the run's moments.
      settings: the run's settings, by dotted name.
      learners: the number of learners, which have equal shares of the run's env steps.

    Returns:
      The score; and a warning where it isn't of the params at the run's end, else an empty text.
    """
    why_not = "" if after is None else _unfit(after, checkpoint, past)
    if after is not None and not why_not:
        return Score(after.mean, after.source, len(after.returns)), ""
    episodes = settings.get("evaluation.episodes")  # A flag is a text.
    score = Score(float(curve.values[-1]), "last evaluation of the run", None if episodes is None else int(episodes))
    return score, why_not or _early(curve, past, learners)


def checkpoint_now(folder: pathlib.Path, which: Which, evaluated: Collection[int]) -> int | None:
    """The number of a run's newest sound checkpoint, or of its best one; None if there is none.

    Args:
      folder: the run's folder.
      which: the choice.
      evaluated: the numbers of those that have been evaluated. They were sound then, and aren't read again.
    """
    members = folder / MEMBERS
    path = members if which == "newest" and numbers(members) else checkpoints_of(folder, which)
    there = numbers(path)
    if there and there[-1] in evaluated:
        return there[-1]
    try:
        return SnapshotFolder(path, "checkpoint").newest(warn=lambda _: None)
    except Unsound:
        return None


def _unfit(evaluated: Evaluated, checkpoint: int | None, past: Sequence[Moment]) -> str:
    """Why an evaluation after the run isn't its final score; empty if it is.

    The rows of a run that was killed go further than its newest checkpoint. They decide only where there is none.
    """
    made = f"was evaluated after {evaluated.updates:,} updates"
    counts = "its last evaluation in the run counts"
    if evaluated.which == "best":
        if checkpoint not in (None, evaluated.updates):
            return f"{made}, and its best checkpoint is that of {checkpoint:,} now: {counts}; evaluate it again"
    elif checkpoint is not None:
        if checkpoint > evaluated.updates:
            return f"{made}, and has a checkpoint of {checkpoint:,}: {counts}; evaluate it again"
    elif past and past[-1].updates > evaluated.updates:
        return f"{made}, and has made {past[-1].updates:,.0f}: {counts}; evaluate it again"
    return "" if math.isfinite(evaluated.mean) else f"{made} with returns that aren't finite: {counts}"


def _early(curve: Curve, past: Sequence[Moment], learners: int) -> str:
    """Why the last evaluation in a run isn't of the params at its end; empty if it nearly is."""
    made = past[-1].env_steps / learners if past else 0.0
    evaluated = float(curve.env_steps[-1])
    if made - evaluated <= STALE * made:
        return ""
    unit = label_of("env_steps", [counter_of([moment.row for moment in past])])
    return f"was last evaluated after {evaluated:,.0f} of {made:,.0f} {unit}: `boonta evaluate` measures its end"
