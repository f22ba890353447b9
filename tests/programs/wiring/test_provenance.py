"""Hosts recognise by a description whether they have built the same program."""

from __future__ import annotations

import dataclasses

from boonta.nodes.watch.stopping import StopRule
from boonta.programs.wiring.provenance import built_from
from boonta.programs.wiring.run import Run
from boonta.tests.helpers.unit_program import unit_program


def test_words_are_equal_for_the_same_settings_and_seed_only():
    one = built_from(unit_program, Run("/a"), {"batch_size": 12})
    assert one == built_from(unit_program, Run("/b"), {"batch_size": 12})
    other, seed = (built_from(unit_program, Run(seed=s), {"batch_size": b}) for s, b in ((0, 13), (1, 12)))
    stop = built_from(unit_program, Run(stop=StopRule(updates=9)), {"batch_size": 12})
    assert len({one, other, seed, stop}) == 4  # Hosts of one program must end together.
    assert one.split(", ")[0] == other.split(", ")[0] == seed.split(", ")[0]  # The program file is the same.


def test_settings_may_be_dataclasses():
    @dataclasses.dataclass(frozen=True)
    class Config:
        width: int

    narrow, wide = (built_from(unit_program, Run(), {"config": Config(width)}) for width in (1, 2))
    assert narrow != wide
