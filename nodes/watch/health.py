"""The health of learning: it judges rows of metrics by the rules of `nodes.watch.rules`.

A rule holds once it has found its fault in several successive rows, until as many rows are without. Rows without a new
update count once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from boonta.nodes.watch.history import Numbers, Seen
from boonta.nodes.watch.rules import EVALUATED, RULES, Rule

Row = Mapping[str, float | None]

PREFIX = "health/"  # The first letters of the metrics that show which rules hold.


@dataclasses.dataclass
class _State:
    """The state of a rule.

    Attributes:
      found: number of rows in succession in which it was found.
      clean: number of rows in succession in which it was not.
      since: the updates at the first of those in which it was found.
      text: the newest warning, while the rule holds; otherwise empty.
    """

    found: int = 0
    clean: int = 0
    since: float = 0.0
    text: str = ""


class Health:
    """Judges the rows of a run, or of one member of a population, in their order.

    A population judges its members itself. Of its own rows, which are means over them, only the age of evaluations is
    judged: a mean hides a member's collapse, or shows one's as that of all.
    """

    def __init__(self) -> None:
        self._seen = Seen()
        self._states = {rule: _State() for rule in RULES}
        self._updates: float | None = None
        self._members = self._members_collapsed = 0.0

    def remember(self, rows: Iterable[Row]) -> None:
        """Reads the rows of an earlier part of the run."""
        for row in rows:
            self.feed(row)
        self._updates = None  # The run may go on from before the last of them.

    def feed(self, row: Row) -> list[str]:
        """Judges the next row; returns a warning for each rule that begins to hold."""
        numbers = {name: value for name, value in row.items() if value is not None and not math.isnan(value)}
        updates = numbers.get("updates")
        if updates is None or updates == self._updates:
            return []
        self._updates = updates
        if "members" in numbers:
            self._members, self._members_collapsed = numbers["members"], numbers.get("members_collapsed", 0.0)
            numbers = {name: value for name, value in numbers.items() if name in ("updates", *EVALUATED)}
        self._seen.add(numbers)
        news = [self._judge(rule, state, numbers, updates) for rule, state in self._states.items()]
        self._seen.add_typical(numbers)
        return [text for text in news if text]

    @property
    def holding(self) -> dict[str, str]:
        """The warnings of the rules that hold now, by name; for a population, the number of collapsed members."""
        found = {rule.name: state.text for rule, state in self._states.items() if state.text}
        if self._members_collapsed:
            found["members"] = f"{self._members_collapsed:g} of {self._members:g} members have collapsed"
        return found

    @property
    def collapsed(self) -> bool:
        """Whether a rule holds that marks collapse."""
        if self._members:
            return self._members_collapsed >= self._members
        return any(rule.collapse and state.text for rule, state in self._states.items())

    @property
    def metrics(self) -> dict[str, float]:
        """For each rule whether it holds now, 1 or 0."""
        return {PREFIX + rule.name.replace(" ", "_"): float(bool(state.text)) for rule, state in self._states.items()}

    def _judge(self, rule: Rule, state: _State, row: Numbers, updates: float) -> str:
        """Returns a warning if the rule begins to hold with this row."""
        figures = rule.find(row, self._seen)
        if figures is None:
            return ""
        if not figures:
            state.found, state.clean = 0, state.clean + 1
            if state.clean >= rule.rows:
                state.text = ""
            return ""
        if not state.found or updates < state.since:
            state.since = updates
        state.found, state.clean = state.found + 1, 0
        held = bool(state.text)
        if held or (state.found >= rule.rows and updates - state.since >= rule.share * updates):
            state.text = f"{rule.name}: {figures}; {rule.advice}"
        return "" if held else state.text
