"""The counters of a program: sums over its nodes and all lives of each, which stay right when nodes restart."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import time
from collections.abc import Collection
from typing import Any

import pydantic

from boonta.nodes.snapshots import files, schema

FILE = "counters.json"
# Number of a node's past lives that are remembered, since late reports of a past life must not count. A report is late
# if it was under way when its life was killed, within the 30 s of a call, or if its host was cut off and replaced. A
# node begins fewer lives than this meanwhile, as each imports its libraries first.
REMEMBERED = 32
Counts = dict[str, float]
_FiniteCounts = dict[str, schema.Number]


@dataclasses.dataclass(frozen=True)
class _Saved:
    """The content of the file, by the attributes of `Counters`."""

    lives: dict[str, tuple[str, _FiniteCounts]]
    over: list[tuple[str, str]]
    past: dict[str, _FiniteCounts]
    base: _FiniteCounts
    seconds: schema.Number
    admitted: dict[str, schema.Size]
    lives_over: dict[str, schema.Size]
    starts: schema.Size = 0


_SAVED = pydantic.TypeAdapter(_Saved)


class Counters:
    """The sums of what nodes report. A node that restarts begins a new life, whose counters begin at 0.

    Attributes:
      lives: by node, the life that reports and what it has counted.
      admitted: by group, the first number that no node that was to join has got.
      starts: how many monitors have counted in this folder before.
      began: when the monitor was launched, by `time.monotonic`; the seconds before are those of a checkpoint, or of an
        earlier monitor.
    """

    def __init__(self) -> None:
        self.lives: dict[str, tuple[str, Counts]] = {}
        self.admitted: dict[str, int] = {}
        self.starts = 0
        # By node, its newest lives that are over, whose late heartbeats count nothing; and how many there were in all.
        self._over: dict[str, collections.deque[str]] = collections.defaultdict(
            lambda: collections.deque(maxlen=REMEMBERED)
        )
        self._lives_over: collections.Counter[str] = collections.Counter()
        self._past: dict[str, Counts] = {}  # The counts of each node's earlier lives.
        self._base: Counts = {}  # The counts with which the program was started.
        self._sums: Counts | None = None  # Of all these, once they are asked for: each of many nodes asks every second.
        self._resumed: tuple[str, Counts] | None = None
        self._seconds, self.began = 0.0, time.monotonic()

    def record(self, name: str, life: str, counts: Counts) -> None:
        """Records the counts of a life of a node since it began."""
        if self.is_over(name, life):
            return
        before, counted = self.lives.get(name, (life, {}))
        if before != life:
            self._over[name].append(before)
            self._lives_over[name] += 1
            past = self._past.setdefault(name, {})
            for counter, value in counted.items():
                past[counter] = past.get(counter, 0.0) + value
            counted = {}
        self.lives[name] = (life, dict(counts))
        if self._sums is not None:
            for counter in {*counted, *counts}:
                news = counts.get(counter, 0.0) - counted.get(counter, 0.0)
                self._sums[counter] = self._sums.get(counter, 0.0) + news

    def is_over(self, name: str, life: str) -> bool:
        """Whether a node has begun another life after this one."""
        return life in self._over.get(name, ())

    def knows(self, name: str, life: str) -> bool:
        """Whether a life of a node has reported."""
        return self.is_over(name, life) or self.lives.get(name, ("", {}))[0] == life

    def past_lives(self, name: str) -> int:
        """The number of a node's lives that are over."""
        return self._lives_over[name]

    def admit(self, group: str, declared: int, number: int, known: Collection[str]) -> int:
        """Keeps numbers for nodes that are to join a group, and returns the first; nobody else gets them any more.

        Args:
          group: the group's label.
          declared: how many nodes of the group the program names.
          number: how many are to join.
          known: names of all nodes that have ever reported.
        """
        names = (name.rpartition("/") for name in known)
        taken = [int(i) + 1 for label, _, i in names if label == group and i.isdecimal()]
        first = max([declared, self.admitted.get(group, 0), *taken])
        self.admitted[group] = first + number
        return first

    def resume(self, name: str, counts: Counts) -> None:
        """Goes on from a checkpoint's counters, or from 0. The node that restored it has reported, but not counted.

        If the program has just been started, all counters go on from there. If only this node has been started again,
        the counters that other nodes count, too, stay as they are, and the rest go back.
        """
        totals, self._sums = self.totals(), None
        self._resumed = (name, dict(counts))
        if name not in self._past:
            self._base = {counter: value for counter, value in counts.items() if counter != "seconds"}
            self._seconds = counts.get("seconds", 0.0)
            return
        others = {counter for other in {*self._past, *self.lives} - {name} for counter in self._of(other)}
        past = self._past[name]
        for counter in {*past, *counts} - others - {"seconds"}:
            past[counter] = past.get(counter, 0.0) + counts.get(counter, 0.0) - totals.get(counter, 0.0)

    def totals(self) -> Counts:
        """The sums over all nodes and lives, and the program's age in seconds."""
        if self._sums is None:
            self._sums = self._add_up()
        return {**self._sums, "seconds": self._seconds + self._age()}

    def continued_from(self, earlier: Counters) -> Counters:
        """The counters of a monitor that was restarted: these, added to the ones that it had saved before."""
        for name, (life, _) in self.lives.items():
            earlier.record(name, life, {})
        if self._resumed is not None:
            earlier.resume(*self._resumed)
        for name, (life, counts) in self.lives.items():
            earlier.record(name, life, counts)
        earlier.began, earlier.starts = self.began, self.starts
        return earlier

    def content(self) -> dict[str, Any]:
        """The content of their file, which `save` writes: a copy, so that the caller may go on counting meanwhile."""
        over = [(name, life) for name, lives in self._over.items() for life in lives]
        past, seconds = {name: dict(counts) for name, counts in self._past.items()}, self._seconds + self._age()
        # The counts of a life, and those of the start, are replaced as a whole.
        admitted, lives_over = dict(self.admitted), dict(self._lives_over)
        return vars(_Saved(dict(self.lives), over, past, self._base, seconds, admitted, lives_over, self.starts))

    def _age(self) -> float:
        return time.monotonic() - self.began

    def _add_up(self) -> Counts:
        """The sums over all nodes and lives."""
        sums: Counts = collections.defaultdict(float, self._base)
        for name in {*self._past, *self.lives}:
            for counter, value in self._of(name).items():
                sums[counter] += value
        return dict(sums)

    def _of(self, name: str) -> Counts:
        """The counts of all lives of a node."""
        _, counted = self.lives.get(name, ("", {}))
        past = self._past.get(name, {})
        return {counter: past.get(counter, 0.0) + counted.get(counter, 0.0) for counter in {*past, *counted}}


def save(folder: pathlib.Path, content: dict[str, Any]) -> None:
    """Writes the content of counters into a folder: whole or not at all.

    Raises:
      OSError: it can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files.write_whole(folder / FILE, files.sealed(content), synced=False)  # A power cut ends all nodes, too.


def load(folder: pathlib.Path) -> Counters | None:
    """The counters that a monitor saved in a folder; None if there are none, or damaged ones."""
    try:
        saved = schema.load_sealed(_SAVED, schema.parse(schema.read(folder / FILE)))
    except (OSError, ValueError):
        return None
    counters = Counters()
    counters.lives, counters.admitted, counters.starts = saved.lives, saved.admitted, saved.starts
    for name, life in saved.over:
        counters._over[name].append(life)
    counters._lives_over.update(saved.lives_over)
    counters._past = saved.past
    counters._base = saved.base
    counters._seconds = saved.seconds
    return counters
