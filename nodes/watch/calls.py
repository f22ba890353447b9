"""Calls of servers that may not be there at the moment, because they are starting, overloaded, or died."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from boonta.nodes.rpc.errors import DeadlineExceeded


def answered(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a server; returns None if it hasn't answered before the client's deadline."""
    try:
        return call(*arguments)
    except DeadlineExceeded:
        return None
