"""A node's server: it calls the listed methods for its clients, each connection in a thread of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from boonta.nodes.rpc import encoding, keys, wire

# Limit of calls at once; further ones wait for their turn. An inference node gets one call from each group of slots.
CALLS = 512
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
        self._handshakes = threading.BoundedSemaphore(wire.HANDSHAKES)
        self._changed = threading.Condition()  # Its lock guards the attributes below.
        self._threads: dict[threading.Thread, socket.socket] = {}
        self._working = 0
        self._closing = False
        self._printed: set[tuple[str, str]] = set()  # The failures that were printed: the method, and the type.

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
        self._room = threading.BoundedSemaphore(wire.room())  # Each connection has a thread.
        self._listening = wire.listen(self._address)
        self._file = _file_of(self._address)
        self._accepting = threading.Thread(target=self._accept, daemon=True, name=f"rpc {self._address}")
        self._accepting.start()

    def close(self) -> None:
        """Lets calls in progress end, for up to `DRAIN_S`, and ends all connections and threads."""
        with self._changed:
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
            if not self._handshakes.acquire(timeout=TURN_S):
                continue
            if not self._room.acquire(timeout=TURN_S):
                self._handshakes.release()
                continue
            connection = None
            try:
                connection, _ = self._listening.accept()
                thread = threading.Thread(target=self._attend, args=(connection,), daemon=True, name="rpc connection")
                thread.start()
            except (OSError, RuntimeError):  # The server closes, or there are no more file descriptors or threads.
                if connection is not None:
                    connection.close()  # The caller learns it, and tries again.
                self._room.release()
                self._handshakes.release()
                if not self._closing:
                    time.sleep(TURN_S)

    def _attend(self, connection: socket.socket) -> None:
        """Serves one connection until it ends."""
        try:
            with contextlib.suppress(OSError, ValueError):  # The connection has ended, or isn't from a client of ours.
                try:
                    self._register(connection)
                    served = self._secured(connection)
                finally:
                    self._handshakes.release()
                while True:
                    self._serve(served)
        finally:
            with self._changed:
                self._threads.pop(threading.current_thread()).close()
            self._room.release()

    def _register(self, connection: socket.socket) -> None:
        """Keeps this thread's connection for `close`, which ends it; raises `Ended` if the server closes already."""
        with self._changed:
            self._threads[threading.current_thread()] = connection
            self._require_open()

    def _require_open(self) -> None:
        """Raises `Ended` if the server closes; its lock is held."""
        if self._closing:
            raise wire.Ended("the server closes")

    def _secured(self, connection: socket.socket) -> socket.socket:
        if self._context is None:
            return connection
        connection.settimeout(HANDSHAKE_S)
        wire.be_prompt(connection)
        secured = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        self._register(secured)  # It has taken the other's place, also for `close`.
        secured.do_handshake()
        secured.sendall(wire.WELCOME)
        return secured

    def _serve(self, connection: socket.socket) -> None:
        """Serves one call."""
        request = wire.receive(connection, None, TRANSFER_S)
        with self._changed:
            self._require_open()
            self._working += 1
        try:
            self._take_turn(connection)
            try:
                answer = self._answer(request)
            finally:
                self._turns.release()
            wire.send(connection, answer, time.monotonic() + TRANSFER_S)
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _take_turn(self, connection: socket.socket) -> None:
        """Waits until the call may be worked on; raises `Ended` if the caller gives up meanwhile, or long has."""
        while not self._turns.acquire(timeout=TURN_S):
            if wire.is_over(connection):
                raise wire.Ended("the caller has given up")
        if wire.is_over(connection):
            self._turns.release()
            raise wire.Ended("the caller has given up")

    def _answer(self, request: memoryview) -> wire.Message:
        """The encoded answer to an encoded request."""
        method = None
        try:
            name, arguments = encoding.decode(request)
            method = self._methods.get(name)
            if method is None:
                raise AttributeError(f"there is no {name!r}; there are {', '.join(sorted(self._methods))}")
            return wire.require_sendable(encoding.encode([True, method(*arguments)]))
        except Exception as error:
            if method is not None:
                self._print_once(name, error)
            message = str(error).encode(errors="replace").decode()  # A file's name in it may not be valid text.
            return encoding.encode([False, type(error).__name__, message])

    def _print_once(self, name: str, error: Exception) -> None:
        """Prints the traceback of a method's failure, the first of its type: its caller gets the message alone."""
        with self._changed:
            failure = (name, type(error).__name__)
            if failure in self._printed:
                return
            self._printed.add(failure)
        told = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        with contextlib.suppress(OSError, ValueError):  # Nobody reads it any more, which hurts no caller.
            print(f"warning: a call of {name!r} has failed:\n{told}", file=sys.stderr, end="", flush=True)


def _file_of(address: str) -> tuple[int, int] | None:
    """The identity of a Unix socket's file; None if there is none."""
    path = wire.path_of(address)
    try:
        status = os.stat(path) if path is not None else None
    except FileNotFoundError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)
