"""A table on several replay servers: fair shares, servers that are slow, die and come back, and priorities for all."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from boonta.agents.base import Steps, Table
from boonta.nodes.tables.base import Piece
from boonta.nodes.tables.contract import PRIORITY_FLOOR
from boonta.nodes.tables.reverb.sharded import LETTERS, REOPEN_S, Shard, ShardedStream

TABLE = Table("t", "replay", 2, 1, batch_size=8, size=100, sampler="proportional")
SIZE = 2
PATIENCE_S, START_PATIENCE_S = 5.0, 60.0


class Clock:
    """A time that moves only when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Server:
    """A part of the table, which gives pieces while it is up; the keys of number n are from 1000 n on."""

    def __init__(self, number: int):
        self.number, self.up, self.ended = number, True, False
        self.mends = False  # Another stream works again.
        self.asked = self.given = self.opened = 0
        self.closed = 0
        self.updates: list[dict[int, float]] = []
        self.reached = threading.Event()  # Priorities have come.
        self.away = threading.Event()  # Unless it is set, a call of `mutate` waits.
        self.away.set()

    @property
    def shard(self) -> Shard:
        def open_stream(arrived) -> Server:
            self.opened += 1
            self.asked, self.arrived = 0, arrived
            self.ended = self.ended and not self.mends
            return self

        return Shard(open_stream, self.mutate)

    def mutate(self, updates):
        self.away.wait()
        self.updates.append(updates)
        self.reached.set()

    def ask(self, sequences):
        self.asked = max(self.asked, sequences)

    def take(self, most, timeout_s):
        assert timeout_s == 0.0
        if self.ended:
            raise RuntimeError(f"server {self.number} has ended")
        if not self.up or self.asked < SIZE:
            return None
        keys = np.arange(1000 * self.number + self.given, 1000 * self.number + self.given + SIZE).astype(np.uint64)
        self.asked, self.given = self.asked - SIZE, self.given + SIZE
        return Piece(Steps(*[np.zeros((2, SIZE))] * 7), np.ones(SIZE), keys)

    def ready(self, sequences):
        return self.up and self.asked >= sequences

    def close(self):
        self.closed += 1


def sharded(number: int = 2, table: Table = TABLE) -> tuple[ShardedStream, list[Server], Clock]:
    servers, clock = [Server(i) for i in range(number)], Clock()
    shards = [server.shard for server in servers]
    return ShardedStream(table, shards, SIZE, PATIENCE_S, START_PATIENCE_S, clock), servers, clock


def draw(stream: ShardedStream, sequences: int) -> list[int]:
    """Asks for sequences and takes what is here; how many came from each of two servers."""
    stream.ask(sequences)
    found = [0, 0]
    while sum(found) < sequences and (piece := stream.take(sequences - sum(found), 0.0)) is not None:
        found[int(piece.keys[0]) // 1000] += len(piece.keys)
    return found


def test_all_give_the_same_share_in_turn():
    stream, servers, _ = sharded(3)
    stream.ask(12)
    assert [server.asked for server in servers] == [4, 4, 4]
    assert stream.ready(12) and not stream.ready(13)
    order = []
    for _ in range(6):
        piece = stream.take(8, 30.0)
        assert piece is not None
        order.append(int(piece.keys[0]) // 1000)
    assert order == [0, 1, 2, 0, 1, 2]
    assert stream.take(8, 0.0) is None
    for _ in range(4):  # What doesn't divide goes to another server each time.
        stream.ask(2)
        assert stream.take(2, 30.0) is not None
    assert [server.given for server in servers] == [8, 6, 6]


def test_a_server_that_gives_nothing_is_replaced_after_a_while_and_has_its_share_again_when_it_is_back():
    stream, (first, second), clock = sharded()
    assert draw(stream, 8) == [4, 4]
    second.up = False
    assert draw(stream, 8) == [4, 0]
    clock.now += PATIENCE_S - 0.1
    assert draw(stream, 4) == [0, 0]  # The four that are missing are its share.
    clock.now += 0.2
    assert draw(stream, 4) == [0, 0] and draw(stream, 4) == [4, 0]  # The second call finds what the first asked for.
    for _ in range(3):
        assert draw(stream, 8) == [8, 0]  # Nobody waits for it any more.
    second.up = True
    assert draw(stream, 8) == [4, 4]  # The four that it was asked for long ago.
    for _ in range(3):
        assert draw(stream, 8) == [4, 4]  # It doesn't make up for what it didn't give.


def test_a_server_has_the_whole_patience_each_time_that_it_is_waited_for():
    stream, (_, second), clock = sharded()
    assert draw(stream, 8) == [4, 4]
    for _ in range(2):
        second.up = False
        assert draw(stream, 8) == [4, 0]
        clock.now += PATIENCE_S - 0.1
        assert draw(stream, 4) == [0, 0] and draw(stream, 4) == [0, 0]
        second.up = True
        assert draw(stream, 4) == [0, 4]


def test_a_server_that_has_given_nothing_yet_has_more_time():
    stream, (_, second), clock = sharded()
    second.up = False
    assert draw(stream, 8) == [4, 0]
    clock.now += START_PATIENCE_S - 0.1
    assert draw(stream, 4) == [0, 0]
    clock.now += 0.2
    assert draw(stream, 4) == [0, 0] and draw(stream, 4) == [4, 0]


def test_nobody_is_replaced_while_all_are_slow():
    stream, servers, clock = sharded()
    for server in servers:
        server.up = False
    assert draw(stream, 8) == [0, 0]
    clock.now += 10 * START_PATIENCE_S
    assert draw(stream, 8) == [0, 0]
    assert [server.asked for server in servers] == [4, 4]


def test_a_stream_that_fails_is_opened_again_at_most_once_a_second():
    stream, (first, second), clock = sharded()
    assert draw(stream, 8) == [4, 4]
    second.ended = True
    clock.now += REOPEN_S - 0.1
    assert draw(stream, 8) == [8, 0] and (second.opened, second.closed) == (1, 0)
    clock.now += 0.2
    assert draw(stream, 8) == [8, 0] and (second.opened, second.closed) == (2, 1)
    assert draw(stream, 8) == [8, 0] and second.opened == 2
    second.ended = False
    clock.now += REOPEN_S
    draw(stream, 8)
    assert second.opened == 3
    assert draw(stream, 8) == [4, 4]


def test_one_that_has_failed_and_gives_again_may_be_the_last_that_is_left():
    stream, (first, second), clock = sharded()
    second.ended = second.mends = True
    assert draw(stream, 8) == [8, 0] and not stream.ready(1)  # What the second was asked for isn't there.
    clock.now += REOPEN_S
    assert draw(stream, 8) == [4, 4]
    first.ended = True
    assert draw(stream, 8) == [0, 8]


def test_one_that_all_wait_for_is_opened_again_though_nothing_else_arrives():
    stream, (first, second), clock = sharded()
    first.up = False
    clock.now += START_PATIENCE_S
    assert draw(stream, 8) == [0, 4]
    clock.now += START_PATIENCE_S
    assert draw(stream, 4) == [0, 0]  # From here on the first isn't waited for.
    second.ended = second.mends = True
    piece = stream.take(4, 30.0)
    assert piece is not None and int(piece.keys[0]) == 1004 and second.opened == 2


def test_where_all_fail_it_is_said():
    stream, servers, _ = sharded()
    for server in servers:
        server.ended = True
    stream.ask(8)
    with pytest.raises(RuntimeError, match=r"server \d has ended"):
        stream.take(8, 0.0)


def test_a_piece_that_arrives_ends_the_wait():
    stream, (first, second), _ = sharded()
    first.up = second.up = False
    stream.ask(4)

    def come() -> None:
        second.up = True
        second.arrived()

    timer = threading.Timer(0.05, come)
    timer.start()
    piece = stream.take(4, 30.0)
    timer.join()
    assert piece is not None and piece.keys.tolist() == [1000, 1001]


def test_priorities_go_to_all_and_nobody_waits_for_a_server_that_is_away():
    stream, (first, second), _ = sharded()
    second.away.clear()
    keys = np.array([5, 1006], np.uint64)
    for error in range(LETTERS):
        stream.prioritise(keys, np.full(2, error, np.float32))
    assert first.reached.wait(30.0) and not second.updates
    second.away.set()
    assert second.reached.wait(30.0)
    assert second.updates[0] == {5: pytest.approx(PRIORITY_FLOOR), 1006: pytest.approx(PRIORITY_FLOOR)}
    with pytest.raises(ValueError, match="must be finite and at least 0; 1 of 2 aren't, the first is nan"):
        stream.prioritise(keys, np.array([1.0, np.nan]))
    stream.close()
    assert (first.closed, second.closed) == (1, 1)


def test_priorities_go_on_after_a_server_that_ended_before_it_was_told():
    told = threading.Event()

    def mutate(updates):
        if 1 in updates:
            raise RuntimeError("the server has ended")
        told.set()

    stream = ShardedStream(TABLE, [Shard(Server(0).shard.open, mutate)], SIZE)
    for key in (1, 2):
        stream.prioritise(np.array([key], np.uint64), np.ones(1))
    assert told.wait(30.0)
    stream.close()


def test_a_uniform_table_takes_no_priorities():
    stream, (first, second), _ = sharded(table=dataclasses.replace(TABLE, sampler="uniform"))
    stream.prioritise(np.array([5], np.uint64), np.ones(1))
    assert not first.updates and not second.updates and not stream._mailboxes


def test_nothing_is_opened_again_once_it_is_closed():
    stream, servers, clock = sharded()
    stream.ask(8)
    stream.close()
    servers[0].ended, servers[1].up = True, False
    clock.now += 2 * REOPEN_S
    for _ in range(2):
        assert stream.take(8, 0.0) is None
    assert servers[0].opened == 1
