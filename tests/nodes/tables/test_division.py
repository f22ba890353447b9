"""Parts of tables: which numbers they have, and which tables can't be divided."""

from __future__ import annotations

import dataclasses

import pytest

from boonta.agents.base import Table
from boonta.nodes.tables.division import HOSTS, SERVERS, divided, drawn_by_one, require_divisible

TABLE = Table("t", "replay", 6, 5, batch_size=12, size=100, sampler="uniform", min_size=7, share=0.5)


def test_a_part_has_its_share_of_all_that_is_counted_in_sequences():
    assert divided(TABLE, 1, SERVERS) == TABLE
    assert divided(TABLE, 4, HOSTS) == dataclasses.replace(TABLE, batch_size=3, size=25, min_size=1)
    assert divided(TABLE, 2, HOSTS) == dataclasses.replace(TABLE, batch_size=6, size=50, min_size=3)


@pytest.mark.parametrize(
    ("number", "over", "message"),
    [
        (5, SERVERS, "table 't': batch_size is 12; it must divide over 5 replay servers"),
        (3, HOSTS, "table 't': size is 100; it must divide over 3 hosts"),
    ],
)
def test_what_does_not_divide_is_refused(number, over, message):
    with pytest.raises(ValueError, match=message):
        divided(TABLE, number, over)


def test_a_table_whose_data_must_be_fresh_stays_whole():
    fresh = Table("t", "queue", 6, 6, batch_size=4, size=8, max_staleness=0)
    require_divisible(fresh, 1)
    with pytest.raises(
        ValueError, match="max_staleness is 0, .* in the order in which they were written; 2 replay serv"
    ):
        require_divisible(fresh, 2)


def test_one_of_several_learners_draws_a_part_of_each_batch_of_the_whole_table():
    assert drawn_by_one(TABLE, 1) == TABLE
    assert drawn_by_one(TABLE, 4) == dataclasses.replace(TABLE, batch_size=3)
    with pytest.raises(ValueError, match="table 't': batch_size is 12; it must divide over 5 learners"):
        drawn_by_one(TABLE, 5)
