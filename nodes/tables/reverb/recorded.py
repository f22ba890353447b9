"""What a replay server's checkpoint holds: every sequence of a table, once."""

from __future__ import annotations

import contextlib
import pathlib
import sys
import tempfile
import threading
from collections.abc import Iterator

import tensorflow as tf
from reverb.cc.checkpointing import checkpoint_pb2

from boonta.agents.base import Steps, Table
from boonta.nodes.snapshots.parts import divisions, parts_of
from boonta.nodes.snapshots.store import SnapshotFolder, numbers
from boonta.nodes.tables.reverb.client import Sample, Sampler
from boonta.nodes.tables.reverb.server import Server, make_table
from boonta.nodes.tables.reverb.signature import Column, columns, decode, unpack_columns

ANSWER_DEADLINE_S = 60.0  # Of a server that has loaded its tables already.
DRAW_DEADLINE_S = 60.0


def newest_checkpoints(folder: pathlib.Path) -> list[pathlib.Path]:
    """The newest sound snapshot of each replay server's part of the tables; servers without one are left out.

    Args:
      folder: the folder of the tables.
    """
    newest = max((number for parts in divisions(folder) for part in parts for number in numbers(part)), default=0)
    stores = [SnapshotFolder(part, "snapshot of the tables") for part in parts_of(folder, newest)]
    found = [(store, store.newest()) for store in stores]
    return [store.path(number) for store, number in found if number is not None]


def recorded(checkpoint: pathlib.Path, table: Table, signature: Steps) -> Iterator[Steps]:
    """Every sequence of a table in a checkpoint, once, in the order in which they were inserted.

    A restored table keeps the sampler and the rate limiter that it was saved with, which would repeat some sequences
    and withhold others. So a server is given a copy of the checkpoint in which the table is a queue: drawn in order,
    and each sequence once. The checkpoint itself is only read.

    Args:
      checkpoint: the checkpoint's folder, as `newest_checkpoints` gives it.
      table: the table as the run had it.
      signature: shapes of one raw step.

    Yields:
      Steps, leaves [T, ...], with a `core` of [1, ...].

    Raises:
      ValueError: the checkpoint has no such table, or its steps are of other shapes.
      TimeoutError: the server gives fewer sequences than the checkpoint has.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / checkpoint.name
        copy.mkdir()
        number = _write_as_queue(checkpoint / "tables.tfrecord", copy / "tables.tfrecord", table.name)
        (copy / "chunks.tfrecord").symlink_to((checkpoint / "chunks.tfrecord").absolute())
        (copy / "DONE").touch()
        server = Server([make_table(table, signature)], folder=folder)
        try:
            client = server.client()
            _require_layout(decode(client.server_info(ANSWER_DEADLINE_S)[table.name].signature), table, signature)
            with contextlib.closing(client.sampler(table.name, in_flight=1)) as sampler:
                for _ in range(number):
                    yield unpack_columns(signature, _draw(sampler, table).columns)
        finally:
            server.stop()


def _draw(sampler: Sampler, table: Table) -> Sample:
    """The next sequence. If another client has taken sequences, this would wait forever; hence the deadline."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        sampler.close()

    timer = threading.Timer(DRAW_DEADLINE_S, give_up)
    timer.start()
    try:
        return sampler.next()
    except RuntimeError as error:
        if not late.is_set():
            raise
        raise TimeoutError(f"table {table.name!r} gave no sequence within {DRAW_DEADLINE_S:g} s") from error
    finally:
        timer.cancel()


def _write_as_queue(source: pathlib.Path, target: pathlib.Path, name: str) -> int:
    """Copies the one table out of a checkpoint's tables, as a queue; returns how many sequences it has."""
    found = []
    for record in tf.data.TFRecordDataset(str(source)).as_numpy_iterator():
        saved = checkpoint_pb2.PriorityTableCheckpoint.FromString(record)
        if saved.table_name == name:
            break
        found.append(saved.table_name)
    else:
        raise ValueError(f"{source} has no table {name!r}, but {found}")
    saved.sampler.Clear()
    saved.sampler.fifo = True
    saved.sampler.is_deterministic = True
    saved.max_times_sampled = 1
    limiter = saved.rate_limiter
    limiter.samples_per_insert, limiter.min_size_to_sample = 1.0, 1
    limiter.min_diff, limiter.max_diff = -sys.float_info.max, sys.float_info.max
    for item in saved.items:
        item.times_sampled = 0  # An item that was drawn before would never be removed.
    with tf.io.TFRecordWriter(str(target)) as writer:
        writer.write(saved.SerializeToString())
    return len(saved.items)


def _require_layout(held: list[Column], table: Table, signature: Steps) -> None:
    wanted = columns(table, signature)
    if held != wanted:
        raise ValueError(
            f"table {table.name!r} holds {list(map(str, held))}; the run's program now makes {list(map(str, wanted))}"
        )
