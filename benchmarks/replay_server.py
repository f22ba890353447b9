"""A replay server in a process of its own, as programs have it, for benchmarks of the way through Reverb."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterator, Sequence
from typing import Any

import psutil

from boonta.agents.base import Steps, Table
from boonta.nodes.watch.ending import end_now

START_S = 120.0  # Time in which the server starts.


@contextlib.contextmanager
def served(tables: Sequence[Table], like: Steps, folder: str | None = None) -> Iterator[tuple[int, psutil.Process]]:
    """Serves tables while `with` lasts: the server's port, and its process.

    Args:
      tables: the tables.
      like: shapes of one raw step.
      folder: where checkpoints are saved; None for none.

    Raises:
      RuntimeError: the process has failed, or hasn't started in time.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(tables, like, folder, there), daemon=True)
    process.start()
    there.close()  # If the process fails, there is no other writer, and `here` ends.
    try:
        if not here.poll(START_S):
            raise RuntimeError(f"the replay server has not started in {START_S:.0f} s")
        try:
            port = here.recv()
        except EOFError:
            process.join()
            raise RuntimeError(
                f"the replay server ended with code {process.exitcode} before it served; its error is above"
            ) from None
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.join()


def _serve(tables: Sequence[Table], like: Steps, folder: str | None, connection: Any) -> None:
    from boonta.nodes.tables.reverb.server import Server, make_table

    server = Server([make_table(table, like) for table in tables], folder=folder)
    connection.send(server.port)
    with contextlib.suppress(EOFError):
        connection.recv()  # It ends when the benchmark's process does, even if that is killed.
    end_now(0)
