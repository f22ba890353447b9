"""How a batch is divided among tables."""

from __future__ import annotations

import pytest

from boonta.agents.base import Table
from boonta.agents.tables import sequence_counts


@pytest.mark.parametrize(
    ("batch_size", "shares", "counts"),
    [
        (32, (1.0,), (32,)),
        (32, (0.2, 0.8), (6, 26)),
        (32, (0.01, 0.99), (1, 31)),
        (32, (0.99, 0.01), (31, 1)),
        (4, (0.9, 0.05, 0.05), (2, 1, 1)),
        (3, (0.02, 0.49, 0.49), (1, 1, 1)),
    ],
)
def test_shares_are_rounded_to_whole_sequences_and_every_table_gives_one(batch_size, shares, counts):
    tables = [Table("t", "replay", 6, 5, batch_size, size=10, sampler="uniform", share=share) for share in shares]
    assert sequence_counts(tables) == counts
