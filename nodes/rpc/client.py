"""A client of a node's server: each method of the server is one of the client's."""

from __future__ import annotations

import functools
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from boonta.nodes.rpc import encoding, keys, wire
from boonta.nodes.rpc.errors import DeadlineExceeded, Failed, Untrusted

RETRY_S = 0.1  # Pause between two tries to reach a server that is away.


class Client:
    """Calls a server; threads may share it. A connection is made when the first call needs it, and then kept.

    A call is repeated if the server is away, or goes away during the call: so a method may be called twice, and must do
    no harm then.

    Args:
      address: the server's address, see `wire`.
      deadline_s: time for a call.
      key: the file of the run's key, which any address but a Unix socket's needs.
      away_s: time within which a call is repeated; None for all of `deadline_s`. With a short one, callers can turn to
        something else while the server is away, and a slow answer still has the time that it needs.
    """

    def __init__(self, address: str, deadline_s: float, key: str | None = None, away_s: float | None = None):
        wire.check(address, key)
        self._address = address
        self._deadline_s = deadline_s
        self._away_s = deadline_s if away_s is None else away_s
        for name, value in (("deadline_s", deadline_s), ("away_s", self._away_s)):
            if not 0 < value <= deadline_s:
                raise ValueError(f"{name} is {value}; it must be above 0" + f", at most {deadline_s}" * (value > 0))
        self._key = key
        self._context: ssl.SSLContext | None = None
        self._idle: list[socket.socket] = []
        self._process = os.getpid()

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return functools.partial(self._call, method)

    def _call(self, method: str, *arguments: Any) -> Any:
        """Calls a method.

        Raises:
          RpcError: the call has failed.
          TypeError, ValueError: an argument can't be sent.
          OSError: the key can't be read.
        """
        request = wire.require_sendable(encoding.encode([method, arguments]))
        if self._key is not None and self._context is None:
            self._context = keys.client_context(self._key)
        began = time.monotonic()
        while True:
            try:
                done, *result = encoding.decode(self._exchange(request, began))
            except OSError as away:
                if is_refusal(away):
                    raise Untrusted(f"{self._address} has another key than its caller: {away}") from away
                if time.monotonic() + RETRY_S > began + self._away_s:
                    spent_s = time.monotonic() - began
                    raise DeadlineExceeded(
                        f"{self._address} didn't answer {method!r} within {spent_s:.1f} s: {away}"
                    ) from away
                time.sleep(RETRY_S)
            else:
                if not done:
                    raise Failed(method, *result)
                return result[0]

    def _exchange(self, request: wire.Message, began: float) -> memoryview:
        """Sends the request of a call and returns the answer, over a connection that was kept, or a new one."""
        end = began + self._deadline_s
        if os.getpid() != self._process:  # After a fork, connections belong to the parent.
            self._idle, self._process = [], os.getpid()
        while True:
            try:
                connection, kept = self._idle.pop(), True
            except IndexError:
                connection, kept = wire.connect(self._address, self._context, began + self._away_s), False
            try:
                wire.send(connection, request, end)
                answer = wire.receive(connection, end)
            except BaseException as error:
                connection.close()
                # Other kept connections may have ended with it, so the next one is tried without a pause.
                if kept and isinstance(error, ConnectionError):
                    continue
                raise
            self._idle.append(connection)
            return answer


def is_refusal(error: OSError) -> bool:
    """Whether one side doesn't accept the other's key, in which case trying again doesn't help."""
    broken = (ssl.SSLEOFError, ssl.SSLSyscallError, ssl.SSLZeroReturnError)
    return isinstance(error, ssl.SSLError) and not isinstance(error, broken)
