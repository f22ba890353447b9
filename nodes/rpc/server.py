"""A node's server: it calls the listed methods for its clients, each connection in a thread of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from boonta.nodes.rpc import encoding, keys, wire

# Limit of calls at once; further ones wait for their turn. An inference node gets one call from each group of slots.
CALLS = 512
CONNECTIONS = 4096  # Each has a thread; further callers wait in the kernel's queue.
HANDSHAKE_S = 10.0
TRANSFER_S = 60.0  # Time for the rest of a request, or for an answer.
DRAIN_S = 2.0  # Time for calls in progress when the server closes.
TURN_S = 0.5  # Time between two checks that a waiting caller is still connected.


class Server:
    """Serves methods from `start` to `close`, or as a context manager.

    An exception of a method goes to the caller, and the server goes on.

    Args:
      address: the address at which it listens, see `wire`.
      methods: the methods that may be called, by name.
      key: the file of the run's key, which any address but a Unix socket's needs.
      calls: limit of calls at once.
    """

    def __init__(
        self, address: str, methods: Mapping[str, Callable[..., Any]], key: str | None = None, calls: int = CALLS
    ):
        wire.check(address, key)
        self._address = address
        self._methods = dict(methods)
        self._key = key
        self._context: ssl.SSLContext | None = None
        self._turns = threading.BoundedSemaphore(calls)
        self._room = threading.BoundedSemaphore(CONNECTIONS)
        self._changed = threading.Condition()  # Its lock guards the attributes below.
        self._threads: dict[threading.Thread, socket.socket] = {}
        self._working = 0
        self._closing = False

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Listens, and serves in threads of its own.

        Raises:
          OSError: it can't listen at the address.
        """
        self._context = None if self._key is None else keys.server_context(self._key)
        self._listening = wire.listen(self._address)
        self._file = _file_of(self._address)
        self._accepting = threading.Thread(target=self._accept, daemon=True, name=f"rpc {self._address}")
        self._accepting.start()

    def close(self) -> None:
        """Lets calls in progress end, for up to `DRAIN_S`, and ends all connections and threads."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # This wakes the thread that accepts.
        self._accepting.join(DRAIN_S)
        self._listening.close()
        path = wire.path_of(self._address)
        if path is not None and _file_of(self._address) == self._file:  # Another server may have taken it.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        with self._changed:
            self._changed.wait_for(lambda: not self._working, DRAIN_S)
            left = dict(self._threads)
        for connection in left.values():
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        end = time.monotonic() + DRAIN_S
        for thread in left:
            thread.join(max(0.0, end - time.monotonic()))

    def _accept(self) -> None:
        while not self._closing:
            if not self._room.acquire(timeout=TURN_S):
                continue
            try:
                connection, _ = self._listening.accept()
                thread = threading.Thread(target=self._attend, args=(connection,), daemon=True, name="rpc connection")
                thread.start()
            except (OSError, RuntimeError):  # The server closes, or there are no more file descriptors or threads.
                self._room.release()
                if not self._closing:
                    time.sleep(TURN_S)

    def _attend(self, connection: socket.socket) -> None:
        """Serves one connection until it ends."""
        served = connection
        with self._changed:
            self._threads[threading.current_thread()] = connection
        try:
            with contextlib.suppress(OSError, ValueError):  # The connection has ended, or isn't from a client of ours.
                if not self._closing:
                    served = self._secured(connection)
                    while True:
                        self._serve(served)
        finally:
            served.close()
            with self._changed:
                del self._threads[threading.current_thread()]
            self._room.release()

    def _secured(self, connection: socket.socket) -> socket.socket:
        if self._context is None:
            return connection
        connection.settimeout(HANDSHAKE_S)
        wire.be_prompt(connection)
        secured = self._context.wrap_socket(connection, server_side=True)
        secured.sendall(wire.WELCOME)
        with self._changed:
            self._threads[threading.current_thread()] = secured
        return secured

    def _serve(self, connection: socket.socket) -> None:
        """Serves one call."""
        request = wire.receive(connection, None, TRANSFER_S)
        if not self._take_turn(connection):
            raise wire.Ended("the caller has given up")
        with self._changed:
            self._working += 1
        try:
            try:
                answer = self._answer(request)
            finally:
                self._turns.release()
            wire.send(connection, answer, time.monotonic() + TRANSFER_S)
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _take_turn(self, connection: socket.socket) -> bool:
        """Waits until the call may be worked on; returns False if the caller has given up meanwhile."""
        if self._turns.acquire(blocking=False):
            return True
        while not self._turns.acquire(timeout=TURN_S):
            if wire.is_over(connection):
                return False
        if wire.is_over(connection):  # The caller may have given up since the last check.
            self._turns.release()
            return False
        return True

    def _answer(self, request: memoryview) -> wire.Message:
        """The encoded answer to an encoded request."""
        try:
            name, arguments = encoding.decode(request)
            method = self._methods.get(name)
            if method is None:
                raise AttributeError(f"there is no {name!r}; there are {', '.join(sorted(self._methods))}")
            return wire.require_sendable(encoding.encode([True, method(*arguments)]))
        except Exception as error:
            message = str(error).encode(errors="replace").decode()  # A file's name in it may not be valid text.
            return encoding.encode([False, type(error).__name__, message])


def _file_of(address: str) -> tuple[int, int] | None:
    """The identity of a Unix socket's file; None if there is none."""
    path = wire.path_of(address)
    try:
        status = os.stat(path) if path is not None else None
    except FileNotFoundError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)
