"""The contract against numbers counted by hand."""

from __future__ import annotations

import dataclasses
import sys

import jax
import numpy as np
import pytest

from boonta.agents.base import Steps, Table
from boonta.nodes.tables import contract
from boonta.nodes.tables.contract import learned_from, written_by


def cut(length: int, period: int) -> Table:
    return Table("t", "queue", length, period, batch_size=4, size=10)


def replay(**fields) -> Table:
    return Table(**{**dict(name="t", kind="replay", sequence_length=6, period=5, batch_size=4, size=10), **fields})


@pytest.mark.parametrize(
    ("length", "period", "ends", "overlap"),
    [(3, 2, [3, 5, 7, 9], 1), (3, 1, [3, 4, 5, 6, 7, 8, 9], 2), (3, 3, [3, 6, 9], 0), (2, 4, [2, 6], 0)],
)
def test_rows_that_complete_sequences(length, period, ends, overlap):
    table = cut(length, period)
    assert [rows for rows in range(10) if contract.completes(table, rows)] == ends
    for rows in range(10):
        assert contract.completed(table, rows) == sum(end <= rows for end in ends)
    for number, end in enumerate(ends, start=1):
        assert contract.rows_of(table, number) == end
        assert contract.first_row(table, number - 1) == end - length
    assert contract.overlap(table) == overlap


def test_sequences_are_counted_in_arrays_and_in_traced_numbers():
    table, rows = cut(3, 2), np.arange(8)
    expected = [0, 0, 0, 1, 1, 2, 2, 3]
    np.testing.assert_array_equal(contract.completed(table, rows), expected)
    np.testing.assert_array_equal(jax.jit(lambda x: contract.completed(table, x))(rows), expected)


def test_a_sequence_keeps_the_core_of_one_row():
    table = Table("t", "queue", 4, 3, batch_size=4, size=10, core_row=2)
    assert [row for row in range(12) if contract.keeps_core(table, row)] == [2, 5, 8, 11]
    step = np.arange(4 * 2).reshape(4, 2)  # [T, B]
    sequence = contract.with_one_core(table, Steps(*[step] * 7, core=(step, {"a": step})))
    assert sequence.core[0].tolist() == sequence.core[1]["a"].tolist() == [[4, 5]] and sequence.reward is step
    with pytest.raises(ValueError, match="core_row is 4; it must be a row of a sequence, from 0 to 3"):
        Table("t", "queue", 4, 3, batch_size=4, size=10, core_row=4)


def test_each_slot_keeps_its_share_of_the_table():
    assert contract.sequences_per_slot(replay(sampler="uniform", size=11), 2) == 5
    with pytest.raises(ValueError, match="size is 9; with 4 environments it must be at least 12"):
        contract.sequences_per_slot(replay(sampler="uniform", size=9, min_size=9), 4)


def test_a_queue_gives_each_sequence_out_once_and_holds_its_size():
    limit = contract.rate_limit(cut(3, 2))
    assert limit.may_insert(9, 0) and not limit.may_insert(10, 0) and limit.may_insert(10, 4, 4)
    assert not limit.may_sample(3, 0, 4) and limit.may_sample(4, 0, 4) and not limit.may_sample(7, 4, 4)


@pytest.mark.parametrize(
    ("rate", "batch_size", "min_size", "share", "highest"),
    [
        (4.0, 4, 5, 1.0, 24.0),
        (0.5, 4, 1, 1.0, 4.5),
        (4.0, 4, 5, 0.5, 14.0),
        (1.0, 1, 1, 1.0, 2.0),
        (4.0, 4, 5, 0.1, 8.0),  # Reverb demands this much, and of the next.
        (8.0, 1, 1, 0.1, 16.0),
    ],
)
def test_the_bounds_of_the_samples_owed(rate, batch_size, min_size, share, highest):
    fields = {"samples_per_insert": rate, "batch_size": batch_size, "min_size": min_size, "share": share}
    limit = contract.rate_limit(replay(sampler="uniform", **fields))
    assert (limit.lowest, limit.highest) == (-batch_size, highest)
    most = min_size + int(highest / rate)
    assert limit.may_insert(most - 1, 0) and not limit.may_insert(most, 0)
    # Those that fill the table owe nothing, so that the learner doesn't begin with a burst of updates on them.
    assert limit.may_sample(min_size, 0, batch_size) and not limit.may_sample(min_size, 0, batch_size + 1)
    assert limit.may_sample(min_size + 2, int(2 * rate), batch_size)
    assert not limit.may_sample(min_size + 2, int(2 * rate) + 1, batch_size)


def test_a_free_table_waits_for_its_minimum_only():
    table = replay(sampler="uniform", samples_per_insert=None, min_size=3)
    limit = contract.rate_limit(table)
    assert limit.may_insert(10**9, 0) and not limit.may_sample(2, 0, 1) and limit.may_sample(3, 10**9, 4)
    assert limit.highest == sys.float_info.max


def test_a_sequences_version_is_a_mean_over_its_steps():
    version = contract.mean_version(np.array([[1, 5], [2, 5], [2, 8]], np.int32))
    assert version.dtype == np.float32
    np.testing.assert_allclose(version, [5 / 3, 6])


def table(name: str, **fields) -> Table:
    return replay(**{"name": name, "sampler": "uniform", **fields})


def test_who_writes_a_table_and_who_learns_from_it():
    fresh, past = table("fresh", share=0.25), table("past", share=0.0)
    again = table("again", share=0.75, writer="reanalyzer", period=6)
    tables = (fresh, past, again)
    assert written_by("actor", tables) == (fresh, past)
    assert written_by("reanalyzer", tables) == (again,)
    assert learned_from(tables) == (fresh, again)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ((table("a", writer="reanalyzer"),), r"no table of the agent's is for the actor to write to: \['a'\]"),
        ((table("a"), table("b", period=6)), "of one length, period and core_row: {'a': .6, 5, 0., 'b': .6, 6, 0.}"),
    ],
)
def test_writers_tables_that_cannot_work_are_refused(tables, message):
    with pytest.raises(ValueError, match=message):
        written_by("actor", tables)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"share": 0.8}, "shares of the learner's tables must add up to 1: {'a': 0.25, 'b': 0.8}"),
        ({"batch_size": 5}, "must have one batch_size and sequence_length: {'a': .4, 6., 'b': .5, 6.}"),
        ({"sequence_length": 7}, "one batch_size and sequence_length"),
        ({"share": 0.0}, "must add up to 1: {'a': 0.25}"),
    ],
)
def test_learners_tables_that_cannot_work_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        learned_from((table("a", share=0.25), table("b", **{"share": 0.75, **fields})))


def test_a_learner_without_a_table_is_refused():
    with pytest.raises(ValueError, match="the agent has no table"):
        learned_from(())


def test_a_batch_too_small_for_its_tables_is_refused():
    with pytest.raises(ValueError, match="batch_size is 1; it must be at least 1 for each of .'a', 'b'."):
        learned_from((table("a", share=0.5, batch_size=1), table("b", share=0.5, batch_size=1)))


@pytest.mark.parametrize(("length", "period", "rows"), [(6, 5, 5), (6, 8, 6), (6, 1, 1)])
def test_a_full_tables_bytes_are_those_of_its_rows_and_of_one_core_a_sequence(length, period, rows):
    shape = jax.ShapeDtypeStruct
    scalar = shape((), np.float32)
    step = Steps(
        shape((3, 2), np.uint8), scalar, scalar, scalar, scalar, {"logits": shape((4,), np.float32)}, scalar, (scalar,)
    )
    table = cut(length, period)
    assert contract.bytes_when_full(table, step) == 10 * (rows * (6 + 5 * 4 + 16) + 4)


def test_tables_that_one_node_fills_keep_to_one_pace():
    """One that may be drawn from less often would hold up its writer, and so the learner, which lacks the other."""
    few, many = (table(name, share=share) for name, share in (("few", 0.25), ("many", 0.75)))
    rates = {few.name: 0.5, many.name: 1.5}
    learned_from([dataclasses.replace(each, samples_per_insert=rates[each.name]) for each in (few, many)])
    learned_from([dataclasses.replace(few, samples_per_insert=0.5), dataclasses.replace(many, samples_per_insert=None)])
    with pytest.raises(ValueError, match=r"that the actor fills must allow one number .*'few': 0.5, 'many': 0.16"):
        learned_from([dataclasses.replace(each, samples_per_insert=0.5) for each in (few, many)])
    learned_from([dataclasses.replace(few, samples_per_insert=0.5), dataclasses.replace(many, writer="reanalyzer")])
