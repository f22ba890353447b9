"""A replay table on the device, kept by flashbax, for a program that never leaves the device."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import flashbax
import jax
import jax.numpy as jnp

from boonta.agents.base import Nest, Steps, Table
from boonta.nodes.tables import contract
from boonta.nodes.tables.priorities import fresh_errors, knows_errors, light

MOST_ROWS = 1 << 30  # Row counts above this are reduced, as int32 would overflow within days.


class Sample(NamedTuple):
    """A batch drawn from the table.

    Attributes:
      steps: leaves [T, N, ...].
      probability: float32 [N], as in `agents.base.Batch`: times the number of sequences held; 1 if all are equal.
      indices: the places in which they lie, for `prioritise`; () where all are equal.
    """

    steps: Steps
    probability: jax.Array
    indices: Nest


class State(NamedTuple):
    """What the table holds.

    Attributes:
      buffer: flashbax's state, leaves [B, time, ...] and its own counts. In its rows `core` is a place: (slot, row).
      cores: nest [B, sequences, ...], one for each of a slot's newest sequences; () where steps have none.
      rows: int32 [], number of rows that each slot has written; large numbers are reduced by a multiple of `_turn`.
    """

    buffer: Any
    cores: Nest
    rows: jax.Array


class DeviceTable(NamedTuple):
    """Pure functions over a `State`, with a row for each environment slot.

    Attributes:
      init: `(one raw step, leaves [...]) -> state`.
      add: `(state, steps [T, B, ...]) -> state`; the steps go on from those added before.
      sample: `(state, key) -> Sample`.
      prioritise: `(state, indices, errors [N]) -> state`.
    """

    init: Callable[[Steps], State]
    add: Callable[[State, Steps], State]
    sample: Callable[[State, jax.Array], Sample]
    prioritise: Callable[[State, Nest, jax.Array], State]


def make_device_table(table: Table, num_envs: int) -> DeviceTable:
    """Makes the table's buffer.

    The sampler "proportional" is flashbax's, with the table's exponent. By itself flashbax counts a sequence that was
    never drawn as the largest error so far, and an error of 0 as never to be drawn again; here both are as
    `nodes.tables.contract` says. "uniform" is our own: flashbax counts periods from the oldest row that it keeps, where
    the contract's sequences begin at multiples of the period.

    Args:
      table: a table of kind "replay".
      num_envs: B, slots that write to it, each its own stream.

    Raises:
      ValueError: flashbax has no such sampler, or the table is too small for `num_envs` slots.
    """
    if table.sampler not in ("uniform", "proportional"):
        raise ValueError(
            f"table {table.name!r}: sampler is {table.sampler!r}; on the device it must be 'uniform' or "
            "'proportional', the two that flashbax has"
        )
    if table.sampler == "proportional" and table.priority_exponent > 1:
        raise ValueError(
            f"table {table.name!r}: priority_exponent is {table.priority_exponent}; on the device it must be at most 1"
        )
    per_slot = contract.sequences_per_slot(table, num_envs)
    prioritised = table.sampler == "proportional"
    length = _length(table, per_slot)
    buffer = _buffer(table, num_envs, length, prioritised)
    cores = _Cores(table, num_envs, _cores_kept(table, length))
    turn = _turn(table, length, cores.size)

    def init(step: Steps) -> State:
        place = cores.place(jnp.int32(0), 1) if jax.tree.leaves(step.core) else ()
        row = step._replace(core=jax.tree.map(lambda x: x[0, 0], place))
        return State(buffer.init(row), cores.init(step.core), jnp.int32(0))

    def add(state: State, steps: Steps) -> State:
        kept = state.buffer
        if prioritised:
            # Flashbax's row counter would overflow. Only its place within a turn matters, so ours replaces it.
            kept = kept.replace(running_index=state.rows)
            fresh = kept.sum_tree_state.replace(max_recorded_priority=jnp.float32(contract.NEW_PRIORITY))
            kept = kept.replace(sum_tree_state=fresh)
        number = steps.reward.shape[0]
        place = cores.place(state.rows, number) if jax.tree.leaves(steps.core) else ()
        rows = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), steps._replace(core=place))
        kept = buffer.add(kept, rows)
        if knows_errors(table):
            kept = _with_errors(buffer, table, kept, state.rows, number)
        # XLA would merge the writing into the reading of the next batch, and to that end copy most of the table.
        kept = kept.replace(experience=jax.lax.optimization_barrier(kept.experience))
        rows = state.rows + number
        fewer = rows - (rows - MOST_ROWS // 2) // turn * turn
        return State(kept, cores.add(state.cores, steps.core, state.rows), jnp.where(rows > MOST_ROWS, fewer, rows))

    def sample(state: State, key: jax.Array) -> Sample:
        if prioritised:
            drawn = buffer.sample(state.buffer, key)
            # Rounding leads flashbax's sum tree now and then, in a few of 100,000 batches, to a place that has no
            # sequence, or an old one. The likeliest of the batch takes its place.
            likeliest = jnp.argmax(drawn.probabilities)
            chosen = jnp.where(drawn.probabilities > 0, jnp.arange(table.batch_size), likeliest)
            drawn = jax.tree.map(lambda x: x[chosen], drawn)
            held = num_envs * jnp.minimum(contract.completed(table, state.rows), per_slot)
            steps, probability, indices = drawn.experience, held * drawn.probabilities, drawn.indices
        else:
            steps, probability, indices = _uniform(table, per_slot, state, key), jnp.ones(table.batch_size), ()
        steps = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), steps)
        if jax.tree.leaves(steps.core):
            steps = steps._replace(core=cores.of(state.cores, steps.core[0]))
        return Sample(steps, probability, indices)

    def prioritise(state: State, indices: Nest, errors: jax.Array) -> State:
        if not prioritised:
            return state
        return state._replace(buffer=buffer.set_priorities(state.buffer, indices, errors + contract.PRIORITY_FLOOR))

    return DeviceTable(init, add, sample, prioritise)


def _with_errors(buffer: Any, table: Table, kept: Any, before: Any, added: int) -> Any:
    """Gives the sequences that the last rows have completed the errors that their policy has for them.

    Args:
      buffer: flashbax's functions.
      table: has the errors.
      kept: flashbax's state, the rows added.
      before: int32 [], the number of rows of each slot before.
      added: how many rows were added.
    """
    rows = light(kept.experience)  # Leaves [B, time, ...].
    slots, length = rows.reward.shape
    # Flashbax has more places than a slot keeps sequences. What is out of bounds is dropped.
    places, nowhere = length // table.period, kept.sum_tree_state.nodes.shape[0]
    first, last = (contract.completed(table, number) for number in (before, before + added))
    for i in range((added - 1) // table.period + 1):
        start = contract.first_row(table, first + i)
        place = (start + jnp.arange(table.sequence_length)) % length
        sequences = jax.tree.map(lambda x, place=place: jnp.swapaxes(x[:, place], 0, 1), rows)  # [T, B, ...]
        errors = fresh_errors(table, sequences)
        there, item = first + i < last, start % length // table.period
        indices = jnp.where(there, jnp.arange(slots) * places + item, nowhere)
        kept = buffer.set_priorities(kept, indices, jnp.where(there, errors + contract.PRIORITY_FLOOR, 0.0))
    return kept


def _uniform(table: Table, per_slot: int, state: State, key: jax.Array) -> Steps:
    """Sequences of a batch, leaves [N, T, ...], all of the table's drawn alike.

    Args:
      table: the table.
      per_slot: how many sequences each slot keeps.
      state: what it holds; flashbax's state may have priorities, which don't matter.
      key: PRNG key, consumed.
    """
    slots, length = state.buffer.experience.reward.shape
    slot_key, sequence_key = jax.random.split(key)
    complete = contract.completed(table, state.rows)
    whole = -((length - state.rows) // table.period)  # The oldest sequence of which no row is overwritten.
    oldest = jnp.maximum(jnp.maximum(whole, complete - per_slot), 0)
    slot = jax.random.randint(slot_key, (table.batch_size, 1), 0, slots)
    sequence = jax.random.randint(sequence_key, (table.batch_size, 1), oldest, complete)
    place = (contract.first_row(table, sequence) + jnp.arange(table.sequence_length)) % length
    return jax.tree.map(lambda x: x[slot, place], state.buffer.experience)


class _Cores(NamedTuple):
    """Cores of sequences, which flashbax would keep in every row: pure functions over a nest [B, sequences, ...].

    Its buffers don't identify the sequence that was drawn. So each row carries its place, int32 [2]: slot and number.
    """

    table: Table
    num_envs: int
    size: int  # Cores kept for a slot.

    def init(self, core: Nest) -> Nest:
        """Room for the cores of all slots, made of one slot's core, leaves [...]."""
        return jax.tree.map(lambda x: jnp.zeros((self.num_envs, self.size, *x.shape), x.dtype), core)

    def place(self, first: jax.Array, number: int) -> jax.Array:
        """Places of `number` rows of all slots, of which the first has this number: int32 [T, B, 2]."""
        rows = jnp.broadcast_to((first + jnp.arange(number))[:, None], (number, self.num_envs))
        return jnp.stack([jnp.broadcast_to(jnp.arange(self.num_envs), rows.shape), rows], axis=-1).astype(jnp.int32)

    def add(self, cores: Nest, core: Nest, first: jax.Array) -> Nest:
        """Keeps those of the cores [T, B, ...] that `contract.keeps_core` names; the first is of the row `first`."""

        def keep(kept: jax.Array, new: jax.Array) -> jax.Array:
            row = first + jnp.arange(len(new))
            sequence = (row - self.table.core_row) // self.table.period
            at = jnp.where(contract.keeps_core(self.table, row), sequence % self.size, self.size)
            # What is out of bounds is dropped.
            return kept.at[:, at].set(jnp.swapaxes(new, 0, 1), mode="drop")

        return jax.tree.map(keep, cores, core)

    def of(self, cores: Nest, place: jax.Array) -> Nest:
        """The cores of sequences that start at these places, int32 [N, 2]: leaves [1, N, ...]."""
        slot, row = place[:, 0], place[:, 1]
        return jax.tree.map(lambda kept: kept[slot, row // self.table.period % self.size][None], cores)


def _length(table: Table, per_slot: int) -> int:
    """Rows that flashbax keeps of each slot.

    They are whole periods: a program adds as many, so that the oldest sequence is still whole when it draws; and
    flashbax numbers sequences with priorities by rows over period.
    """
    return -(-contract.rows_of(table, per_slot) // table.period) * table.period


def _cores_kept(table: Table, length: int) -> int:
    """Cores kept of each slot: one for each sequence that begins in its rows, plus at least two.

    More are kept where the turn would otherwise exceed half of `MOST_ROWS`.
    """
    least = length // table.period + 2
    return next(size for size in itertools.count(least) if _turn(table, length, size) <= MOST_ROWS // 2)


def _turn(table: Table, length: int, cores: int) -> int:
    """Rows after which rows and cores of a slot, and the beginnings of its sequences, lie where they lay before."""
    return math.lcm(length, cores * table.period)


def _buffer(table: Table, num_envs: int, length: int, prioritised: bool) -> Any:
    settings = {
        "add_batch_size": num_envs,
        "sample_batch_size": table.batch_size,
        "sample_sequence_length": table.sequence_length,
        "period": table.period,
        "min_length_time_axis": table.sequence_length,
        "max_length_time_axis": length,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Flashbax warns about sequences that don't overlap.
        if not prioritised:
            return flashbax.make_trajectory_buffer(**settings)
        return flashbax.make_prioritised_trajectory_buffer(
            priority_exponent=table.priority_exponent,
            device=jax.default_backend(),
            **settings,
        )
