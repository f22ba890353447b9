"""Evaluations after a run, in a file in its folder: `boonta evaluate` appends them, and `boonta compare` reads them."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

import pydantic

from boonta.nodes import metrics
from boonta.nodes.snapshots import schema
from boonta.nodes.watch.evaluation import MAX_STEPS
from boonta.nodes.watch.means import mean, standard_error
from boonta.programs.wiring.run import Which, named

FILE = "evaluations.jsonl"
MATCHES = "matches.txt"  # What `boonta match` has printed.


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """A line of the file: one evaluation of one checkpoint.

    Attributes:
      updates: the checkpoint's updates.
      which: which of the run's checkpoints was asked for.
      episodes: number of episodes.
      deterministic: whether the policy took its best action, or drew one.
      seed: seed of the environments and the policy.
      max_steps: env steps after which an episode was cut.
      cut: number of episodes that were; None if an earlier version has written the line.
      returns: the return of each episode; None where it isn't finite.
      metrics: means of the environment's other numbers of episodes, over those that weren't cut, by name.
      member: the member's number in a population; None in any other run.
    """

    updates: int
    which: Which
    episodes: int
    deterministic: bool
    seed: int
    returns: tuple[schema.Number | None, ...]
    member: int | None = None
    max_steps: int = MAX_STEPS
    cut: int | None = None
    metrics: Mapping[str, schema.Number] = dataclasses.field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """What is evaluated, and how."""
        return tuple(value for name, value in sorted(vars(self).items()) if name not in ("returns", "cut", "metrics"))

    @property
    def mean(self) -> float:
        """The mean return; NaN where a return isn't finite."""
        return mean(self._numbers)

    @property
    def error(self) -> float | None:
        """Its standard error, see `standard_error`."""
        return standard_error(self._numbers)

    @property
    def _numbers(self) -> list[float]:
        return [math.nan if value is None else value for value in self.returns]

    @property
    def source(self) -> str:
        """How its returns were measured, in words; those of other words aren't the same score."""
        policy = "deterministic" if self.deterministic else "sampled"
        cut = "" if self.max_steps == MAX_STEPS else f", cut after {self.max_steps:,} steps"
        return f"evaluation after the run, {named(self.which)}, {policy}{cut}"


_EVALUATED = pydantic.TypeAdapter(Evaluated)


def read(folder: pathlib.Path) -> tuple[list[Evaluated], list[int]]:
    """The evaluations in a run's folder, none if it has no such file, and the numbers of malformed lines.

    Raises:
      OSError: the file can't be read.
    """
    try:
        return schema.load_lines(_EVALUATED, folder / FILE)
    except FileNotFoundError:
        return [], []


def append(folder: pathlib.Path, evaluations: list[Evaluated]) -> None:
    """Appends evaluations to those in a run's folder.

    Raises:
      OSError: they can't be written.
    """
    path = folder / FILE
    lines = [{name: value for name, value in vars(each).items() if value not in (None, {})} for each in evaluations]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    try:
        torn = metrics.ends_within_a_line(path)
        with path.open("ab") as file:
            file.write((b"\n" if torn else b"") + text.encode())
    except OSError as error:
        raise OSError(f"{FILE} can't be written, so the evaluation isn't kept: {error.strerror}") from error
