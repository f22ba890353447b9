"""The work of a fused program's round: its parts run in turn and never wait, so that counts keep the tables' ratios."""

from __future__ import annotations

import dataclasses
import fractions
import math
from collections.abc import Sequence
from typing import NamedTuple

from boonta.agents.base import Table
from boonta.agents.tables import sequence_counts
from boonta.nodes.reanalyzer import recorded_table
from boonta.nodes.tables import contract
from boonta.nodes.tables.freshness import require_slots

MOST_ROLLOUTS = 64  # Rollouts in a round; a ratio of samples to inserts that needs more is refused.
MOST_UPDATES = 64  # Updates between two renewals; a ratio that needs more is refused.


class Schedule(NamedTuple):
    """One round: rollouts, then updates, with a renewal before each `every` of them.

    Attributes:
      period: env steps of each slot in a rollout, that of the actors' tables.
      rollouts: rollouts.
      updates: updates.
      renewed: S, sequences that are renewed at once, as reanalyzers would; 0 if no table is theirs.
      every: updates from one renewal to the next; all of the round's if nothing is renewed.
    """

    period: int
    rollouts: int
    updates: int
    renewed: int
    every: int

    @property
    def renewals(self) -> int:
        """Renewals in the round."""
        return self.updates // self.every if self.renewed else 0


def make_schedule(tables: Sequence[Table], num_envs: int, num_replayed: int, devices: int) -> Schedule:
    """The smallest round that keeps the ratios of all tables.

    Args:
      tables: the agent's.
      num_envs: B, the number of slots.
      num_replayed: most sequences that are replayed at once, unless the ratios need more; then the fewest.
      devices: devices over which they must divide.

    Raises:
      ValueError: no such program can keep these tables or ratios; names the field, its value and what it must be.
    """
    parts, period = learned_parts(tables), contract.written_by("actor", tables)[0].period
    rollouts, updates = ratio(_paced(tables, parts), num_envs)
    theirs = [part for part in parts if part.writer == "reanalyzer"]
    if not theirs:
        return Schedule(period, rollouts, updates, 0, updates)
    part = _definite(theirs)
    per_insert = part.definite_samples_per_insert
    wanted = part.batch_size / per_insert  # Renewed sequences per update.
    makes = (
        f"table {part.name!r}: samples_per_insert is {per_insert}, and a batch has {part.batch_size} of its sequences: "
        f"{wanted:g} are renewed per update"
    )
    exact = _fraction(wanted, MOST_UPDATES, makes, "a smaller samples_per_insert")
    least, every = exact.numerator, exact.denominator
    step = devices // math.gcd(least, devices)
    # Half of a table at most, so that targets of several ages are there to be drawn.
    times = range(step, min(num_replayed, part.size // 2) // least + 1, step)
    most = max((n for n in times if updates % (every * n) == 0), default=step)
    renewed, every = least * most, every * most
    rounds = every // math.gcd(updates, every)
    if rounds * rollouts > MOST_ROLLOUTS:
        raise ValueError(
            f"num_envs is {num_envs}: {rollouts} rollouts make {updates} updates, and {renewed} sequences of table "
            f"{part.name!r} are renewed every {every}: a round of whole ones has {rounds * rollouts} rollouts; it must "
            f"have at most {MOST_ROLLOUTS}: take another num_envs"
        )
    return Schedule(period, rounds * rollouts, rounds * updates, renewed, every)


def learned_parts(tables: Sequence[Table]) -> list[Table]:
    """The tables that batches are drawn from; the `batch_size` of each is its part of a batch.

    Raises:
      ValueError: a queue isn't the only table, or `contract.learned_from` refuses them.
    """
    if len(tables) > 1 and any(table.kind == "queue" for table in tables):
        names = [table.name for table in tables]
        raise ValueError(f"the agent has tables {names}; in a fused program a queue must be the only one")
    learned = contract.learned_from(tables)
    counts = sequence_counts(learned)
    return [dataclasses.replace(table, batch_size=count) for table, count in zip(learned, counts)]


def _definite(parts: Sequence[Table]) -> Table:
    """The first of tables with one writer whose ratio is definite, or the first: those that are have one pace."""
    return next((part for part in parts if part.samples_per_insert is not None), parts[0])


def _paced(tables: Sequence[Table], parts: Sequence[Table]) -> Table:
    """A table with the ratio of updates to rollouts: of those that actors fill and that are learned from, if any.

    If all that is learned from is renewed, it is drawn as often as the sequences that it is made of, times their draws.
    """
    fresh = [part for part in parts if part.writer == "actor"]
    if len(fresh) == len(parts):
        return _definite(fresh)
    past = recorded_table(tables)
    if not fresh:
        part = _definite(parts)
        draws = past.definite_samples_per_insert * part.definite_samples_per_insert
        return dataclasses.replace(part, samples_per_insert=draws)
    if past.samples_per_insert is not None:
        raise ValueError(
            f"table {past.name!r}: samples_per_insert is {past.samples_per_insert}; in a fused program, where "
            f"{fresh[0].name!r} sets the pace, it must be None"
        )
    return _definite(fresh)


def ratio(table: Table, num_envs: int) -> tuple[int, int]:
    """The number of rollouts of one period in a round, and of updates after them.

    A program that acts and learns in turn needs a definite number even of a table whose `samples_per_insert` is None;
    see `agents.base.Table.definite_samples_per_insert`.

    Args:
      table: `batch_size` of its sequences are in each batch.
      num_envs: B, the number of slots.

    Raises:
      ValueError: the slots' sequences don't make whole batches, or no small round has the table's ratio.
    """
    size = table.batch_size
    if table.kind == "queue":
        if num_envs % size:
            raise ValueError(f"num_envs is {num_envs}; it must be a multiple of batch_size, {size}")
        require_slots("a fused program", table, num_envs)
        return 1, num_envs // size
    per_insert = table.definite_samples_per_insert
    wanted = per_insert * num_envs / size  # Updates per rollout.
    makes = (
        f"samples_per_insert is {per_insert}, num_envs {num_envs}, batch_size {size}: that makes {wanted:g} updates a "
        "rollout"
    )
    exact = _fraction(wanted, MOST_ROLLOUTS, makes, "a larger num_envs, or one that divides batch_size")
    return exact.denominator, exact.numerator


def _fraction(wanted: float, most: int, makes: str, instead: str) -> fractions.Fraction:
    """The number as a fraction over at most `most`.

    Args:
      wanted: the number.
      most: the largest denominator.
      makes, instead: what makes this number, and what to take instead, for the message.

    Raises:
      ValueError: no such fraction is close to it, or only 0.
    """
    exact = fractions.Fraction(wanted).limit_denominator(most)
    if not math.isclose(exact, wanted, rel_tol=1e-3):
        raise ValueError(f"{makes}; it must be a fraction over at most {most}, and not 0: take {instead}")
    return exact
