"""A fused program's replay tables, on the device: what batches are made of, and sequences that are to be renewed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents.base import Author, Batch, Nest, Steps, Table
from boonta.nodes.fused.schedule import Schedule, learned_parts
from boonta.nodes.reanalyzer import recorded_table
from boonta.nodes.tables import contract, device

States = Mapping[Author, device.State]  # What the tables of each kind of writer hold.


class FusedTables(NamedTuple):
    """Pure functions over `States`: all tables that one kind of node would fill share their rows, as in every store.

    Attributes:
      init: `(one raw step, leaves [...]) -> states`.
      add: `(states, writer, steps [T, B, ...]) -> states`; the steps go on from those that it added before.
      recall: `(states, key) -> steps [T, S, ...]`, sequences to be renewed.
      draw: `(states, key) -> (batch, places)`, a batch of each table's part, and where it was found.
      prioritise: `(states, places, errors [B]) -> states`.
      origin: `(updates, batch) -> metrics`: each table's part of a batch, and its targets' age; none of a single table.
    """

    init: Callable[[Steps], States]
    add: Callable[[States, Author, Steps], States]
    recall: Callable[[States, jax.Array], Steps]
    draw: Callable[[States, jax.Array], tuple[Batch, Nest]]
    prioritise: Callable[[States, Nest, jax.Array], States]
    origin: Callable[[jax.Array, Batch], dict[str, jax.Array]]


def make_tables(tables: Sequence[Table], num_envs: int, schedule: Schedule) -> FusedTables:
    """Makes an agent's replay tables.

    Args:
      tables: the agent's, all of kind "replay".
      num_envs: B, slots that act.
      schedule: how many sequences are renewed at once, each a slot of the tables that reanalyzers would fill.

    Raises:
      ValueError: the device can't keep them; the message names the table, its value and what it must be.
    """
    parts = learned_parts(tables)
    slots: dict[Author, int] = {"actor": num_envs}
    recalled = None
    if schedule.renewed:
        slots["reanalyzer"] = schedule.renewed
        past = dataclasses.replace(recorded_table(tables), batch_size=schedule.renewed)
        recalled = device.make_device_table(past, num_envs)
    stores = {writer: device.make_device_table(_keeper(writer, tables), size) for writer, size in slots.items()}
    drawn = [device.make_device_table(part, slots[part.writer]) for part in parts]
    ends = [sum(part.batch_size for part in parts[: i + 1]) for i in range(len(parts))]

    def init(step: Steps) -> States:
        return {writer: store.init(step) for writer, store in stores.items()}

    def add(states: States, writer: Author, steps: Steps) -> States:
        return {**states, writer: stores[writer].add(states[writer], steps)}

    def recall(states: States, key: jax.Array) -> Steps:
        assert recalled is not None
        return recalled.sample(states["actor"], key).steps

    def draw(states: States, key: jax.Array) -> tuple[Batch, Nest]:
        keys = [key] if len(parts) == 1 else jax.random.split(key, len(parts))
        samples = [table.sample(states[part.writer], key) for part, table, key in zip(parts, drawn, keys)]
        steps = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *(sample.steps for sample in samples))
        probability = jnp.concatenate([sample.probability for sample in samples])
        return Batch(steps=steps, probability=probability), [sample.indices for sample in samples]

    def prioritise(states: States, places: Nest, errors: jax.Array) -> States:
        found = dict(states)
        for part, table, indices, own in zip(parts, drawn, places, jnp.split(errors, ends[:-1])):
            found[part.writer] = table.prioritise(found[part.writer], indices, own)
        return found

    def origin(updates: jax.Array, batch: Batch) -> dict[str, jax.Array]:
        found: dict[str, jax.Array] = {}
        for part, end in zip(parts, ends) if len(tables) > 1 else ():
            share = jnp.float32(part.batch_size / ends[-1])
            age = updates - batch.steps.version[:, end - part.batch_size : end]
            found |= {f"batch_share/{part.name}": share, f"batch_share_wanted/{part.name}": share}
            found[f"target_age/{part.name}"] = jnp.mean(age.astype(jnp.float32))
        return found

    return FusedTables(init, add, recall, draw, prioritise, origin)


def _keeper(writer: Author, tables: Sequence[Table]) -> Table:
    """The table that makes the state which one writer's tables share: the one with priorities, if there is one.

    Raises:
      ValueError: several have priorities, or the tables differ in size.
    """
    own = contract.written_by(writer, tables)
    sizes = {table.name: table.size for table in own}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"tables of one {writer} must have one size in a fused program: {sizes}")
    weighed = [table for table in own if table.is_prioritised]
    if len(weighed) > 1:
        samplers = {table.name: table.sampler for table in weighed}
        raise ValueError(f"of one {writer}'s tables only one may draw by errors in a fused program: {samplers}")
    return (weighed or own)[0]


def first_rows(tables: Sequence[Table], num_envs: int) -> int:
    """Rows of each slot until all tables that actors fill may be drawn from."""
    own = contract.written_by("actor", tables)
    return contract.rows_of(own[0], -(-max(table.min_size for table in own) // num_envs))


def first_renewals(tables: Sequence[Table], schedule: Schedule) -> int:
    """Renewals until all tables that reanalyzers would fill may be drawn from; 0 if none are theirs."""
    if not schedule.renewed:
        return 0
    least = max(table.min_size for table in contract.written_by("reanalyzer", tables))
    return -(-least // schedule.renewed)
