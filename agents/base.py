"""The vocabulary every agent and node shares.

Glossary of shapes: B batch, T time, A actions, K unroll, N bootstrap, L history, Z support.
Suffixes: `_tm1` the step an action was chosen in, `_t` the step it led to.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

Nest = Any  # a pytree of arrays


class Steps(NamedTuple):
    """Raw steps as the writer stores them; after the dataset every leaf is [T, B, ...], time-major.

    Row t holds the time step the environment showed and what the policy did in it: the reward and discount of row t
    belong to the action of row t-1. Shifting, masking and stacking happen once, in `agents.sequences`.

    Attributes:
      observation: nest [T, B, ...].
      step_type: int32 [T, B].
      reward: float32 [T, B], raw; 0 on FIRST.
      discount: float32 [T, B]; on LAST, 0 is termination and above 0 truncation.
      action: [T, B, ...]; on LAST it is ignored by the environment.
      extras: nest [T, B, ...], whatever the policy wants remembered (behaviour logits, search statistics, core state).
      version: int32 [T, B], version of the params that acted.
    """

    observation: Nest
    step_type: Any
    reward: Any
    discount: Any
    action: Any
    extras: Nest
    version: Any


class Batch(NamedTuple):
    """What the dataset hands to the update.

    Attributes:
      steps: `Steps`, leaves [T, B, ...].
      probability: float32 [B], N p: p is the probability with which the table drew each sequence, N the number of
        sequences it held then. 1 where it draws uniformly, and from a queue, so that tables of any size compare.
    """

    steps: Steps
    probability: Any


class Policy(NamedTuple):
    """How an agent acts: pure, always batched, always with state (frame stack, LSTM core, or ()).

    Attributes:
      initial_state: `(batch_size) -> state`, leaves [B, ...].
      step: `(params, key, timestep [B], state) -> (action [B], extras [B], state)`. Resets its own state where
        `timestep.step_type` is FIRST.
    """

    initial_state: Callable[[int], Nest]
    step: Callable[[Nest, Any, Any, Nest], tuple[Any, Nest, Nest]]


class Update(NamedTuple):
    """How an agent learns: pure functions that the learner jits over its mesh.

    Attributes:
      init: `(key) -> learner state`, a pytree of arrays only, so that it can be placed and checkpointed.
      step: `(state, batch) -> (state, priorities [B] or None, metrics)`; metrics are scalars by name. Priorities are
        the sequences' plain errors, at least 0, scaled so that 1 is large; the table's sampler decides what becomes of
        them.
      params: `(state) -> the params the policy acts with`.
      warning: `(metrics as floats) -> what they say is set wrong, in words, or ""`, on the host.
    """

    init: Callable[[Any], Nest]
    step: Callable[[Nest, Batch], tuple[Nest, Any, dict[str, Any]]]
    params: Callable[[Nest], Nest]
    warning: Callable[[dict[str, float]], str] = lambda metrics: ""


Sampler = Literal["fifo", "uniform", "proportional", "rank"]
Author = Literal["actor", "reanalyzer"]


@dataclasses.dataclass(frozen=True)
class Table:
    """The contract between writer, replay and dataset: what one sequence is and how it is kept and drawn.

    Attributes:
      name: of the table in the replay server.
      kind: "queue" hands every sequence to the learner once, in order; "replay" keeps and samples them.
      sequence_length: raw steps in a sequence, the context for stacking and the bootstrap step included.
      period: raw steps between the starts of two sequences.
      batch_size: B, sequences in one update, over all tables and learner devices.
      size: most sequences kept; a full queue blocks its writers, a full replay drops its oldest.
      sampler: how a replay table draws; a queue is always "fifo". "uniform"; "proportional", p ~ error^alpha; "rank",
        p ~ (1 / rank)^alpha, rank 1 being the largest error. A new sequence counts as error 1 and as rank 1 until it
        is first drawn: its writer knows no agent, so it can't do better. Reverb's samplers can't be seeded, so a run
        on a replay table is not repeatable, not even under the serial schedule.
      samples_per_insert: how often a sequence is drawn on average; None leaves it free. A queue's is 1.
      min_size: sequences a replay table holds before it serves any.
      priority_exponent: alpha, at least 0, where 0 draws uniformly; only "proportional" and "rank" use it. See
        "Prioritized Experience Replay" (https://arxiv.org/abs/1511.05952), section 3.3.
      writer: the kind of node that fills it. All tables of one kind of writer hold the same sequences.
      share: of an update's sequences that come from here, in [0, 1]. From a table with share 0 the learner takes
        none: it is there for reanalyzers to read.
    """

    name: str
    kind: Literal["queue", "replay"]
    sequence_length: int
    period: int
    batch_size: int
    size: int
    sampler: Sampler = "fifo"
    samples_per_insert: float | None = 1.0
    min_size: int = 1
    priority_exponent: float = 1.0
    writer: Author = "actor"
    share: float = 1.0

    def __post_init__(self) -> None:
        for field in ("sequence_length", "period", "batch_size", "size", "min_size"):
            if getattr(self, field) < 1:
                raise ValueError(f"table {self.name!r}: {field} is {getattr(self, field)}; it must be at least 1")
        if self.kind not in ("queue", "replay"):
            raise ValueError(f"table {self.name!r}: kind is {self.kind!r}; allowed: 'queue', 'replay'")
        if self.writer not in ("actor", "reanalyzer"):
            raise ValueError(f"table {self.name!r}: writer is {self.writer!r}; allowed: 'actor', 'reanalyzer'")
        if not 0 <= self.share <= 1:
            raise ValueError(f"table {self.name!r}: share is {self.share}; it must be in [0, 1]")
        if self.kind == "queue" and (self.sampler != "fifo" or self.samples_per_insert != 1.0):
            raise ValueError(f"table {self.name!r}: a queue is drawn in order ('fifo') and once (samples_per_insert 1)")
        if self.kind == "replay":
            self._check_replay()

    def _check_replay(self) -> None:
        if self.sampler not in ("uniform", "proportional", "rank"):
            raise ValueError(
                f"table {self.name!r}: sampler is {self.sampler!r}; a replay table draws 'uniform', 'proportional' or "
                "'rank'"
            )
        if self.samples_per_insert is not None and not 0 < self.samples_per_insert < math.inf:
            raise ValueError(
                f"table {self.name!r}: samples_per_insert is {self.samples_per_insert}; it must be above 0, or None"
            )
        if not 0 <= self.priority_exponent < math.inf:
            raise ValueError(
                f"table {self.name!r}: priority_exponent is {self.priority_exponent}; it must be at least 0"
            )
        if self.min_size > self.size:
            raise ValueError(
                f"table {self.name!r}: min_size is {self.min_size}, but the table keeps at most {self.size} (size)"
            )


def owed_bounds(table: Table) -> tuple[float, float]:
    """Between which a replay table keeps the samples owed, inserted * samples_per_insert - sampled.

    No reader goes below the lower one, and, once `min_size` is reached, no writer above the upper one:

        -B                                              the reader may be one batch ahead, which the dataset prefetches
        2 * share * samples_per_insert * min_size + B   the writer may be as far ahead again as when sampling begins

    A table that gives only a share of a batch is caught up with more slowly: its writer may be as many updates ahead
    as if it gave all, which is fewer samples, but no fewer than are owed when sampling begins.

    So sampled / inserted tends to `samples_per_insert` whichever side is faster, and what is there when sampling begins
    is drawn as often as what comes later. While one side waits, the other can go on: the reader for a whole batch, the
    writer for min_size sequences at least. That should hold the sequences that all groups of
    environments complete at the same step, or else they wait for the learner in the middle of an append. The bounds are
    always as far apart as Reverb demands, 2 * max(1, samples_per_insert), so that one side can always go on.
    """
    if table.samples_per_insert is None:
        return -math.inf, math.inf
    owed = table.samples_per_insert * table.min_size
    ahead = max(owed, 2 * table.share * owed + table.batch_size, 2 * max(1.0, table.samples_per_insert))
    return -float(table.batch_size), ahead


class Agent(NamedTuple):
    """All that nodes need to know of an agent.

    Attributes:
      policy: explores, for actors.
      eval_policy: plays its best, for evaluators.
      update: learns.
      tables: where sequences go and come from; see `written_by` and `learned_from`.
    """

    policy: Policy
    eval_policy: Policy
    update: Update
    tables: tuple[Table, ...]


MakeAgent = Callable[[Any], Agent]  # `(config) -> agent`


def written_by(writer: Author, tables: Sequence[Table]) -> tuple[Table, ...]:
    """The tables that this kind of node fills, with the same sequences each.

    Raises:
      ValueError: there is none, or their sequences differ in length or period.
    """
    own = tuple(table for table in tables if table.writer == writer)
    if not own:
        raise ValueError(f"no table of the agent's is for the {writer} to write to: {[table.name for table in tables]}")
    shapes = {table.name: (table.sequence_length, table.period) for table in own}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"tables of one {writer} must hold sequences of one length and period: {shapes}")
    return own


def learned_from(tables: Sequence[Table]) -> tuple[Table, ...]:
    """The tables that the learner's batches are drawn from, in order: those with a share.

    Raises:
      ValueError: the shares don't add up to 1, the tables differ in what a batch is, or a batch has fewer sequences
        than there are tables.
    """
    learned = tuple(table for table in tables if table.share > 0)
    shares = {table.name: table.share for table in learned}
    if not math.isclose(sum(shares.values()), 1.0):
        raise ValueError(f"shares of the learner's tables must add up to 1: {shares}")
    shapes = {table.name: (table.batch_size, table.sequence_length) for table in learned}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"the learner's tables must have one batch_size and sequence_length: {shapes}")
    if learned[0].batch_size < len(learned):
        raise ValueError(f"batch_size is {learned[0].batch_size}; it must be at least 1 for each of {list(shares)}")
    return learned


def sequence_counts(tables: Sequence[Table]) -> tuple[int, ...]:
    """How many of a batch's sequences come from each of the learner's tables: their shares, rounded, at least 1.

    Args:
      tables: as `learned_from` gives them; the first takes what rounding leaves.
    """
    batch_size = tables[0].batch_size
    others = [max(1, round(table.share * batch_size)) for table in tables[1:]]
    while sum(others) >= batch_size:
        others[others.index(max(others))] -= 1
    return (batch_size - sum(others), *others)


def sequences_per_slot(table: Table, slots: int) -> int:
    """How many of a table's sequences each of so many environments keeps, where each keeps its own.

    Raises:
      ValueError: the table is too small.
    """
    per_slot = table.size // slots
    if per_slot * slots < table.min_size:
        raise ValueError(
            f"table {table.name!r}: size is {table.size}; with {slots} environments it must be at least "
            f"{slots * -(-table.min_size // slots)}, for each keeps its own sequences"
        )
    return per_slot
