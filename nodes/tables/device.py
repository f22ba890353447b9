"""A replay table on the device, kept by flashbax, for a program that never leaves the device."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import flashbax
import jax
import jax.numpy as jnp

from boonta.agents.base import Nest, Steps, Table
from boonta.nodes.tables import contract


class Sample(NamedTuple):
    """A batch drawn from the table.

    Attributes:
      steps: leaves [T, N, ...].
      probability: float32 [N], as in `agents.base.Batch`: times the number of sequences held; 1 if all are equal.
      indices: where they lie, for `prioritise`; () where all are equal.
    """

    steps: Steps
    probability: jax.Array
    indices: Nest


class DeviceTable(NamedTuple):
    """Pure functions over a state [B, time, ...], a row of the buffer for each environment slot.

    Attributes:
      init: `(one raw step, leaves [...]) -> state`.
      add: `(state, steps [T, B, ...]) -> state`; the steps go on from those added before.
      sample: `(state, key) -> Sample`.
      prioritise: `(state, indices, errors [N]) -> state`.
    """

    init: Callable[[Steps], Any]
    add: Callable[[Any, Steps], Any]
    sample: Callable[[Any, jax.Array], Sample]
    prioritise: Callable[[Any, Nest, jax.Array], Any]


def make_device_table(table: Table, num_envs: int) -> DeviceTable:
    """Makes the table's buffer.

    The samplers are flashbax's: "uniform", and "proportional" with the table's exponent. By itself flashbax counts a
    sequence that was never drawn as the largest error so far, and an error of 0 as never to be drawn again; here both
    are as `nodes.tables.contract` says.

    Args:
      table: of kind "replay".
      num_envs: B, slots that write to it, each its own stream.

    Raises:
      ValueError: flashbax has no such sampler, or the table is too small for so many slots.
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
    buffer = _buffer(table, num_envs, per_slot, prioritised)

    def add(state: Any, steps: Steps) -> Any:
        if prioritised:
            fresh = state.sum_tree_state.replace(max_recorded_priority=jnp.float32(contract.NEW_PRIORITY))
            state = state.replace(sum_tree_state=fresh)
        return buffer.add(state, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), steps))

    def sample(state: Any, key: jax.Array) -> Sample:
        drawn = buffer.sample(state, key)
        steps = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), drawn.experience)
        if prioritised:
            held = num_envs * jnp.minimum(contract.completed(table, state.running_index), per_slot)
            return Sample(steps, held * drawn.probabilities, drawn.indices)
        return Sample(steps, jnp.ones(table.batch_size), ())

    def prioritise(state: Any, indices: Nest, errors: jax.Array) -> Any:
        return buffer.set_priorities(state, indices, errors + contract.PRIORITY_FLOOR) if prioritised else state

    return DeviceTable(buffer.init, add, sample, prioritise)


def _buffer(table: Table, num_envs: int, per_slot: int, prioritised: bool) -> Any:
    settings = {
        "add_batch_size": num_envs,
        "sample_batch_size": table.batch_size,
        "sample_sequence_length": table.sequence_length,
        "period": table.period,
        "min_length_time_axis": table.sequence_length,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sequences that don't overlap, which a table may well ask for
        rows = contract.rows_of(table, per_slot)
        if not prioritised:
            return flashbax.make_trajectory_buffer(max_length_time_axis=rows, **settings)
        # This one numbers sequences by rows over period, so its rows must be a multiple of the period.
        return flashbax.make_prioritised_trajectory_buffer(
            max_length_time_axis=-(-rows // table.period) * table.period,
            priority_exponent=table.priority_exponent,
            device=jax.default_backend(),
            **settings,
        )
