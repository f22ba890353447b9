"""Calls of what may not answer at the moment: servers that start, are overloaded or died, and work in other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, TypeVar

from boonta.nodes.rpc.errors import DeadlineExceeded

T = TypeVar("T")


def answered(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a server; returns None if it hasn't answered before the client's deadline."""
    try:
        return call(*arguments)
    except DeadlineExceeded:
        return None


def in_thread(work: Callable[[], None]) -> futures.Future[bool]:
    """Begins some work in a thread that doesn't keep the process alive; the future is True once it is done."""
    done: futures.Future[bool] = futures.Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(True)

    threading.Thread(target=run, daemon=True).start()
    return done


def polled(future: futures.Future[T], timeout_s: float) -> T | None:
    """The result of a future, which may raise; None if it isn't there after `timeout_s`."""
    return future.result() if futures.wait([future], timeout_s).done else None
