"""Launchpad's part in a program: the program itself, and nodes that others call."""

from __future__ import annotations

from typing import Any

try:
    import launchpad as lp
except ImportError as error:
    raise ImportError(
        "cluster programs need dm-launchpad, dm-reverb and TensorFlow, whose newest wheels are for CPython 3.10: "
        "start them with ./run, or install boonta[cluster] on CPython 3.10"
    ) from error

CALL_DEADLINE_S = 30.0

Program = lp.Program


class ServiceNode(lp.CourierNode):
    """A node that others call. Without a deadline a courier call blocks for ever once its server is gone."""

    def create_handle(self) -> Any:
        handle = super().create_handle()
        handle.set_client_kwargs(call_timeout=CALL_DEADLINE_S)
        return handle
