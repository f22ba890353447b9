"""Addresses, sockets and messages. On a connection, a message is its length in 8 bytes, and its encoding.

An address is "unix:/path", or "host:port". A connection carries one call at a time, so calls need no numbers; a caller
that gives up closes its connection.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import resource
import select
import socket
import ssl
import struct
import time
from collections.abc import Sequence

Message = Sequence[bytes | memoryview]  # Parts that together are the message, the first of them bytes.

UNIX = "unix:"
LENGTH = struct.Struct("<Q")
MAX_BYTES = 1 << 30  # Limit of a message; the largest ones, with params, have about a hundredth.
CHUNK = 1 << 16  # Size of the first read, which gets small messages whole.
LARGE = 1 << 18  # Parts of a message of this many bytes are sent one by one: joining them would cost more.
BACKLOG = 512
LOST_S = 60.0  # Time without a sign of the other machine after which a connection ends.
WELCOME = b"\n"  # The byte that a server sends once it has accepted the caller's key.
MAX_PATH = 107  # Limit of the bytes of a Unix socket's path.
CONNECTIONS = 4096  # Limit of a server's connections; further callers wait in the kernel's queue.
HANDSHAKES = 64  # Limit of those among them that haven't proved yet that they have the key.
OWN_FILES = 256  # Files that connections leave to the rest of a process, so that it can save.


class Ended(ConnectionError):
    """The other side has closed the connection."""


def free_port() -> int:
    """A port of this machine on which nobody listens now."""
    with socket.create_server(("", 0)) as probe:
        return probe.getsockname()[1]


def require_free(port: int, who: str, host: str = "") -> None:
    """Raises OSError, naming the port, if something listens there: libraries would only abort.

    Args:
      port: the port.
      who: who is to listen there.
      host: where it is to listen; empty for every interface, as most servers of libraries do.
    """
    both = not host and socket.has_dualstack_ipv6()  # They then listen on IPv6, too.
    with socket.socket(socket.AF_INET6 if both else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # One that has just ended is not in the way.
        if both:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            probe.bind((host, port))
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"can't be used: {error.strerror}"
            raise OSError(f"port {port} for {who} {why}") from error


def check(address: str, key: str | None) -> None:
    """Raises ValueError for an address that is malformed, or lacks a key that it needs."""
    if path_of(address) is not None:
        return
    host_and_port(address)
    if key is None:
        raise ValueError(f"{address} can be reached from other machines, so it needs a key")


def listen(address: str) -> socket.socket:
    """A socket that listens at an address. A Unix socket that a dead process left there is replaced.

    Raises:
      OSError: the address is in use, or not available; the message has it.
    """
    path = path_of(address)
    if path is None:
        host, port = host_and_port(address)
        own = host == "localhost" or host.startswith("127.")  # All callers are on this machine.
        if own or not socket.has_dualstack_ipv6():
            return socket.create_server((host if own else "", port), backlog=BACKLOG)
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listening.bind(path)
        os.chmod(path, 0o600)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"can't listen at {address}: {error.strerror or error}") from error
    return listening


def room(files: int = 1) -> int:
    """The number of connections for which this process has file descriptors, if each needs `files` of them.

    The process's limit of open files is raised as far as necessary, if the system allows it.
    """
    wanted = CONNECTIONS * files + OWN_FILES
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (wanted if limit == resource.RLIM_INFINITY else min(limit, wanted) for limit in limits)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, limits[1]))
    return min(CONNECTIONS, max(hard - OWN_FILES, hard // 2) // files)


def connect(address: str, context: ssl.SSLContext | None, end: float) -> socket.socket:
    """A connection to the server at an address, made by the time `end`.

    Raises:
      OSError: there is no server, or it has another key.
    """
    path = path_of(address)
    connection = _reached(*host_and_port(address), end) if path is None else socket.socket(socket.AF_UNIX)
    try:
        if path is not None:
            connection.settimeout(left_s(end))
            connection.connect(path)
            return connection
        be_prompt(connection)
        if context is not None:
            _set_timeout(connection, end)
            connection = context.wrap_socket(connection)
            _set_timeout(connection, end)
            if connection.recv(len(WELCOME)) != WELCOME:  # With TLS 1.3, a refusal comes with the first read.
                raise Ended("the other side has closed the connection")
        return connection
    except BaseException:
        connection.close()
        raise


def _reached(host: str, port: int, end: float) -> socket.socket:
    """A connection to the first of a host's addresses at which somebody listens; each has its share of the time."""
    failure = OSError(f"{host} has no address")
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for i, (family, kind, protocol, _, place) in enumerate(places):
        try:
            connection = socket.socket(family, kind, protocol)
        except OSError as error:  # This machine has no addresses of that family.
            failure = error
            continue
        try:
            connection.settimeout(left_s(end) / (len(places) - i))
            connection.connect(place)
            return connection
        except OSError as error:
            connection.close()
            failure = error
    raise failure


def be_prompt(connection: socket.socket, lost_s: float = LOST_S) -> None:
    """Makes a connection send small messages at once, and end `lost_s` seconds after its other machine was lost.

    TCP alone would wait for a quarter of an hour, or for ever. A Unix socket has no other machine, and stays as it is.
    """
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, int(lost_s / 3)),
        (socket.TCP_KEEPINTVL, int(lost_s / 3)),
        (socket.TCP_USER_TIMEOUT, int(lost_s * 1000)),
        (socket.TCP_NODELAY, 1),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def is_over(connection: socket.socket) -> bool:
    """Whether a caller that should be waiting for its answer has closed the connection."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def path_of(address: str) -> str | None:
    """The path of a Unix socket's address; None for any other address.

    Raises:
      ValueError: the path is longer than the kernel takes.
    """
    if not address.startswith(UNIX):
        return None
    path = address[len(UNIX) :]
    if len(os.fsencode(path)) > MAX_PATH:
        raise ValueError(f"{address} has more than {MAX_PATH} bytes; choose a shorter folder")
    return str(pathlib.Path(path))


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of a "host:port".

    Raises:
      ValueError: it isn't one.
    """
    host, colon, port = address.rpartition(":")
    if not (colon and port.isdecimal() and int(port) < 1 << 16):
        raise ValueError(f"address {address!r} must be host:port, or unix:/path")
    return host.strip("[]"), int(port)


def require_sendable(message: Message) -> Message:
    """The message itself; raises ValueError if it is too large."""
    size = _size(message)
    if size > MAX_BYTES:
        raise ValueError(f"a message of {size:,} bytes can't be sent; {MAX_BYTES:,} are the most")
    return message


def send(connection: socket.socket, message: Message, end: float) -> None:
    """Sends a message; raises OSError if the connection has failed, or it isn't sent by the time `end`."""
    size = _size(message)
    first, *rest = message
    parts = [LENGTH.pack(size) + first, *rest] if size >= LARGE else [b"".join((LENGTH.pack(size), *message))]
    for part in parts:
        left = memoryview(part)
        while left:  # With TLS, `sendall` would give each 16 KB all of the time.
            _set_timeout(connection, end)
            left = left[connection.send(left) :]


def receive(connection: socket.socket, end: float | None, rest_s: float | None = None) -> memoryview:
    """Receives a message.

    Args:
      connection: the connection, on which nothing may follow the message.
      end: the time until which it may take; None waits for ever.
      rest_s: time for the rest, once the first bytes have arrived; it then replaces `end`.

    Raises:
      Ended: the other side has closed the connection.
      TimeoutError: the message didn't arrive in time.
      ValueError: it is too long, or something follows it.
      OSError: the connection has failed.
    """
    connection.settimeout(None if end is None else left_s(end))
    first = connection.recv(CHUNK)
    end = end if rest_s is None else time.monotonic() + rest_s
    while first and len(first) < LENGTH.size:
        _set_timeout(connection, end)
        more = connection.recv(CHUNK)
        first = first + more if more else b""
    if not first:
        raise Ended("the other side has closed the connection")
    (size,) = LENGTH.unpack_from(first)
    got = len(first) - LENGTH.size
    if size > MAX_BYTES or got > size:
        raise ValueError(f"a message of {size:,} bytes, of which {got:,} came, is none of ours")
    message = memoryview(bytearray(size))
    message[:got] = memoryview(first)[LENGTH.size :]
    while got < size:
        _set_timeout(connection, end)
        number = connection.recv_into(message[got:])
        if not number:
            raise Ended("the other side has closed the connection")
        got += number
    return message


def _size(message: Message) -> int:
    return sum(map(len, message))


def left_s(end: float) -> float:
    """Seconds until a time, at least a millisecond, in which what is there at once succeeds."""
    return max(1e-3, end - time.monotonic())


def _set_timeout(connection: socket.socket, end: float | None) -> None:
    if end is not None:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left)
