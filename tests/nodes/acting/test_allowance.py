"""How many sequences may be begun where data must be fresh, and that nobody waits for ever."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest

from boonta.agents.base import Slots, Table
from boonta.nodes.acting.allowance import PATIENCE_S, Allowance
from boonta.nodes.acting.refresh import allowance_of
from boonta.nodes.base import Node

TABLE = Table("t", "queue", sequence_length=3, period=3, batch_size=4, size=16, max_staleness=1)


def none_left_out() -> float:
    return 0.0


def begun(allowance: Allowance, version: int) -> int:
    """How many sequences may be begun."""
    for number in itertools.count():
        if not allowance.may_begin(version):
            return number
        allowance.begin()
    raise AssertionError


@pytest.mark.parametrize(
    ("slots", "staleness", "numbers"),
    [(4, 0, [1, 1, 1, 1]), (2, 0, [2, 2, 2, 2]), (2, 1, [4, 2, 2, 2]), (8, 1, [1, 0, 1, 0]), (8, 2, [1, 1, 0, 1])],
)
def test_each_version_has_the_sequences_of_an_update_and_the_first_some_ahead(slots, staleness, numbers):
    allowance = Allowance(dataclasses.replace(TABLE, max_staleness=staleness), slots, none_left_out)
    assert [begun(allowance, version) for version in range(7, 11)] == numbers


def test_versions_that_were_missed_count_and_those_of_an_earlier_checkpoint_begin_anew():
    allowance = Allowance(dataclasses.replace(TABLE, max_staleness=2), 2, none_left_out)
    assert [begun(allowance, version) for version in (5, 7, 20, 3, 4)] == [6, 4, 6, 6, 2]


def test_who_has_waited_for_long_begins_again_since_sequences_may_be_lost_with_a_node():
    now = [0.0]
    allowance = Allowance(dataclasses.replace(TABLE, max_staleness=0), 4, none_left_out, clock=lambda: now[0])
    assert begun(allowance, 5) == 1
    now[0] += PATIENCE_S - 1
    assert not allowance.may_begin(5)
    now[0] += 2
    assert begun(allowance, 5) == 1 and not allowance.may_begin(5)  # Once, and then it waits as long again.


def test_who_knows_that_updates_are_slow_waits_for_them_and_for_no_sequence_that_was_lost():
    now = [0.0]
    allowance = Allowance(dataclasses.replace(TABLE, max_staleness=0), 4, none_left_out, clock=lambda: now[0])
    for version, took in enumerate((100.0, 100.0, 500.0)):  # The last after a learner's restart.
        assert begun(allowance, version) == 1
        now[0] += took
    assert begun(allowance, 3) == 1 and not allowance.may_begin(3)
    now[0] += 199.0
    assert not allowance.may_begin(3)
    now[0] += 2.0
    assert begun(allowance, 3) == 1


@pytest.mark.parametrize(
    ("batch", "actors", "slots", "staleness"),
    [(8, 1, 8, 0), (8, 1, 4, 0), (8, 8, 1, 0), (8, 4, 1, 1), (8, 2, 8, 1), (8, 2, 16, 3), (6, 3, 1, 0), (4, 1, 32, 7)],
)
def test_nobody_waits_for_ever_and_nothing_is_left_out_whoever_is_faster(batch, actors, slots, staleness):
    """Actors take turns at random, each in two steps: it begins a sequence, and ends it some time later."""
    table = dataclasses.replace(TABLE, batch_size=batch, max_staleness=staleness)
    rng, updates, queue, oldest = random.Random(0), 0, [], 0
    allowances = [Allowance(table, actors * slots, none_left_out, clock=lambda: 0.0) for _ in range(actors)]
    playing: list[int | None] = [None] * actors
    idle = 0
    while updates < 50:
        who = rng.choices(range(actors + 1), [2**i for i in range(actors)] + [rng.choice([1, 100])])[0]
        idle += 1
        if who == actors:
            if len(queue) >= batch:
                oldest = max(oldest, updates - min(queue[:batch]))
                del queue[:batch]
                updates, idle = updates + 1, 0
        elif playing[who] is not None:
            queue += [playing[who]] * slots
            playing[who], idle = None, 0
        elif allowances[who].may_begin(updates):
            allowances[who].begin()
            playing[who], idle = updates, 0
        assert idle < 100_000, "all wait"
    assert oldest <= staleness


@pytest.mark.parametrize("after", ["a long wait", "the learner's restart", "its own restart"])
def test_what_was_begun_before_is_left_out_and_not_begun_again(after):
    now, left_out, newest = [0.0], [None], 6
    table = dataclasses.replace(TABLE, max_staleness=0)
    allowance = Allowance(table, 4, lambda: left_out[0], after == "its own restart", lambda: now[0])
    assert begun(allowance, newest) == 1
    if after == "a long wait":
        now[0] += PATIENCE_S + 1
        assert begun(allowance, newest) == 1
    elif after == "the learner's restart":
        newest = 5
        assert begun(allowance, newest) == 1
    for left_out[0] in (100.0, 104.0):  # Of the first hundred nobody had heard.
        assert not allowance.may_begin(newest)
    left_out[0] = 108.0
    assert begun(allowance, newest) == 1


@pytest.mark.parametrize("told", [True, False])
def test_as_many_are_begun_again_as_were_left_out(told):
    """Each sequence is left out with a chance of one in ten, of which actors hear after the update."""
    table = dataclasses.replace(TABLE, batch_size=8, max_staleness=1)
    rng, left_out, queued, updates = random.Random(0), 0, 0, 0
    hears = [(lambda: left_out) if told else none_left_out] * 4
    allowances = [Allowance(table, 8, hear, clock=lambda: 0.0) for hear in hears]
    while updates < 200:
        sequences = [rng.random() > 0.1 for allowance in allowances for _ in range(2 * begun(allowance, updates))]
        queued += sum(sequences)
        left_out += len(sequences) - sum(sequences)
        if not sequences and queued < 8:
            break  # All wait for each other.
        made = queued >= 8
        updates, queued = updates + made, queued - 8 * made
    assert (updates == 200) == told


class Resumed(Node):
    """An actor that started before its learner restored the counters of an earlier life of the program."""

    def __init__(self):
        super().__init__("actor")
        self.program_counts = {"seconds": 1.0}

    def heartbeat(self) -> None:
        self.program_counts = {"seconds": 2.0, "stale_sequences": 640.0}
        self.left_out = 640.0


def test_nothing_is_begun_again_for_what_was_left_out_before_the_program_was_resumed():
    actor = Resumed()
    allowance = allowance_of(actor, dataclasses.replace(TABLE, max_staleness=0), Slots(4, 0, 4))
    actor.heartbeat()  # It hears of the restored counters before it has params, or after.
    assert [begun(allowance, version) for version in (5, 6, 7)] == [1, 1, 1]
