"""Rules of an agent's tables that agents need as well as stores; `nodes.tables.contract` has the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from boonta.agents.base import Agent, Table


def sequence_counts(tables: Sequence[Table]) -> tuple[int, ...]:
    """How many of a batch's sequences come from each of the learner's tables: their shares, rounded, at least 1.

    Args:
      tables: as `nodes.tables.contract.learned_from` gives them; the first takes what rounding leaves.
    """
    batch_size = tables[0].batch_size
    others = [max(1, round(table.share * batch_size)) for table in tables[1:]]
    while sum(others) >= batch_size:
        others[others.index(max(others))] -= 1
    return (batch_size - sum(others), *others)


def from_archives(agent: Agent) -> Agent:
    """The agent with a table, its only one, that reanalyzers fill, "reanalyzed", with recorded steps as they are.

    They store what the core remembers with the newest params, and add nothing else that is learned from. Give a
    `conservative_cost` where the trajectories don't show what every action leads to.
    """
    (table,) = agent.tables
    return agent._replace(tables=(dataclasses.replace(table, name="reanalyzed", writer="reanalyzer", errors=None),))
