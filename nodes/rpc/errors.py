"""The ways in which a call fails, in a module without imports."""

from __future__ import annotations


class RpcError(Exception):
    """A call has failed."""


class DeadlineExceeded(RpcError):
    """The server hasn't answered in time: it is starting, overloaded, stuck or gone."""


class Untrusted(RpcError):
    """The server and this client don't have the same key."""


class Failed(RpcError):
    """The method has raised an exception, or there is no such method.

    Attributes:
      kind: the name of the exception's class.
    """

    def __init__(self, method: str, kind: str, message: str):
        super().__init__(f"{method}: {kind}: {message}")
        self.kind = kind
