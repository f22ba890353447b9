"""The final score of a run, by an evaluation after it or by its last evaluation."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from boonta.programs.experiments.curves import Curve, Moment
from boonta.programs.experiments.evaluations import Evaluated

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
    curve: Curve, after: Evaluated | None, past: Sequence[Moment], settings: Mapping[str, Any], learners: int
) -> tuple[Score, str]:
    """The score by an evaluation after the run, or else by the last one in it.

    Args:
      curve: the run's evaluations, at least one.
      after: the evaluation after the run, if there is one.
      past: the run's moments.
      settings: the run's settings, by dotted name.
      learners: the number of learners, which have equal shares of the run's env steps.

    Returns:
      The score; and a warning where it isn't of the params at the run's end, else an empty text.
    """
    outdated = "" if after is None else _outdated(after, past)
    if after is not None and not outdated:
        return Score(statistics.fmean(after.returns), after.source, len(after.returns)), ""
    episodes = settings.get("evaluation.episodes")  # A flag is a text.
    score = Score(float(curve.values[-1]), "last evaluation of the run", None if episodes is None else int(episodes))
    return score, outdated or _early(curve, past[-1].env_steps / learners if past else 0.0)


def _outdated(evaluated: Evaluated, past: Sequence[Moment]) -> str:
    """Why an evaluation after the run isn't of the params at the end of the run's curve; empty if it is."""
    reached = past[-1].updates if past else 0.0
    if evaluated.which != "newest" or evaluated.updates >= reached:
        return ""
    return (
        f"was evaluated after {evaluated.updates:,} updates, and has made {reached:,.0f}: its last evaluation in the "
        "run counts; evaluate it again"
    )


def _early(curve: Curve, made: float) -> str:
    """Why the last evaluation in a run isn't of the params at its end; empty if it nearly is."""
    evaluated = float(curve.env_steps[-1])
    if made - evaluated <= STALE * made:
        return ""
    return f"was last evaluated after {evaluated:,.0f} of {made:,.0f} env steps: `boonta evaluate` measures its end"
