"""Calls of servers that may not be there at the moment, because they are starting, overloaded, or died."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def answered(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a server; returns None if it hasn't answered before courier's deadline.

    Courier tries to reach a server again and again until the deadline, also one that died during the call.
    """
    try:
        return call(*arguments)
    except Exception as error:  # Courier's own exception class can't be imported without courier.
        if str(error) != "Deadline Exceeded":
            raise
        return None
