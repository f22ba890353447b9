"""When a group of environments looks for newer params."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from boonta.agents.base import Slots, Table
from boonta.nodes.acting.allowance import Allowance
from boonta.nodes.base import Node
from boonta.nodes.rpc.errors import DeadlineExceeded
from boonta.nodes.tables import contract
from boonta.nodes.tables.freshness import POLL_S


@dataclasses.dataclass
class Refresh:
    """The steps of a group at which its params may change.

    Attributes:
      table: the table whose sequences the group writes.
      every: env steps of a slot between two looks for newer params; None looks where a sequence has just ended.
      allowance: the sequences that the group may begin, where data must be fresh; None begins any.
      rows: rows of each slot so far.
    """

    table: Table
    every: int | None
    allowance: Allowance | None = None
    rows: int = 0

    @property
    def due(self) -> bool:
        """Whether params may change before the next step."""
        if self.every is not None:
            return self.rows % self.every == 0
        return self.rows == 0 or contract.completes(self.table, self.rows)

    @property
    def waits_for(self) -> str:
        """The name of what the group waits for."""
        return "params" if self.allowance is None else "fresh params"

    def allowed(self, newest: tuple[int, Any], timeout_s: float) -> tuple[int, Any] | None:
        """A version and its params, if a sequence may begin with them; else None, after a short sleep."""
        if self.allowance is not None:
            if not self.allowance.may_begin(newest[0]):
                time.sleep(min(timeout_s, POLL_S))
                return None
            self.allowance.begin()
        return newest


def allowance_of(node: Node, table: Table, slots: Slots) -> Allowance | None:
    """The sequences that a group of the node's may begin; None if any, since the table doesn't bound their age."""
    if table.max_staleness is None:
        return None

    asked = False

    def left_out() -> float | None:
        nonlocal asked
        if not asked:
            try:  # There are params, so a learner that goes on has restored the counters; what they hold is past.
                node.heartbeat()
            except DeadlineExceeded:
                return None
            asked = True
        return node.left_out

    return Allowance(table, slots.of_all, left_out, again=bool(node.past_lives))
