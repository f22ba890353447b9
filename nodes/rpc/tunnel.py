"""A tunnel to a server without authentication, such as Reverb's: mutual TLS between machines, with the run's key.

    client -> Unix socket -> entrance ==TLS==> exit -> loopback device -> server

Each end runs in a thread of its node's process. The entrance is a file in a private folder, so that other users of the
client's machine can't use it. Users of the server's machine can reach the server through its loopback device.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import pathlib
import socket
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable

from boonta.nodes.rpc import keys

CHUNK = 1 << 18  # Size in bytes of the buffer of one direction of a connection.
CONNECT_S = 10.0  # Time for a connection, and for its handshake, after which the client tries again.
LOST_S = 30.0  # Time without a sign of the other machine after which a connection ends.
START_S = 30.0
LOOPBACK = "127.0.0.1"

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def open_entrance(path: pathlib.Path, address: str, key: str) -> None:
    """Listens on a Unix socket until the process ends; each connection goes to the exit at `address`.

    Args:
      path: the socket's path, in a folder that only this user can enter.
      address: the exit's address, as "host:port".
      key: the file of the run's key.

    Raises:
      OSError: the path can't be listened on, or the key can't be read.
    """
    host, _, port = address.rpartition(":")
    context = keys.client_context(key)

    async def onward() -> Ends:
        return await asyncio.open_connection(host, int(port), limit=CHUNK, ssl=context, server_hostname="")

    async def listen() -> asyncio.AbstractServer:
        return await asyncio.start_unix_server(_joined_to(onward), path, limit=CHUNK)

    _start(f"the entrance {path}", listen)


def open_exit(listening: socket.socket, port: int, key: str) -> None:
    """Accepts connections with the run's key until the process ends; each goes to a server of this machine.

    Args:
      listening: a socket that listens for entrances, on any interface.
      port: the server's port on the loopback device.
      key: the file of the run's key.

    Raises:
      OSError: the key can't be read.
    """
    context = keys.server_context(key)

    async def onward() -> Ends:
        return await asyncio.open_connection(LOOPBACK, port, limit=CHUNK)

    async def listen() -> asyncio.AbstractServer:
        return await asyncio.start_server(
            _joined_to(onward), sock=listening, limit=CHUNK, ssl=context, ssl_handshake_timeout=CONNECT_S
        )

    _start(f"the exit to port {port}", listen)


def _start(name: str, listen: Callable[[], Awaitable[asyncio.AbstractServer]]) -> None:
    """Runs a server in a thread of its own; returns once it listens."""
    listens: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def serve() -> None:
        server = await listen()
        listens.set_result(None)
        await server.serve_forever()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if listens.done():
                raise
            listens.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        listens.result(START_S)
    except OSError as error:
        raise OSError(f"a tunnel can't open {name}: {error}") from error


def _joined_to(onward: Callable[[], Awaitable[Ends]]) -> Callable[..., Awaitable[None]]:
    """The handler of a server's connections: it opens one onward for each, and joins the two until either ends."""

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                further_reader, further_writer = await asyncio.wait_for(onward(), CONNECT_S)
            except (OSError, asyncio.TimeoutError) as error:  # The client's connection ends, and it tries again.
                if isinstance(error, ssl.SSLError):
                    print(f"warning: a tunnel's other end has another key: {error}", file=sys.stderr, flush=True)
                return
            with contextlib.closing(further_writer):
                for one in (writer, further_writer):
                    _notice_loss(one.get_extra_info("socket"))
                directions = {
                    asyncio.ensure_future(_pump(reader, further_writer)),
                    asyncio.ensure_future(_pump(further_reader, writer)),
                }
                _, left = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
                for direction in left:
                    direction.cancel()

    return join


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # The connection has ended.
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()


def _notice_loss(connection: socket.socket) -> None:
    """Ends a connection to a machine that was lost: TCP alone would wait for a quarter of an hour, or for ever."""
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, int(LOST_S / 3)),
        (socket.TCP_KEEPINTVL, int(LOST_S / 3)),
        (socket.TCP_USER_TIMEOUT, int(LOST_S * 1000)),
        (socket.TCP_NODELAY, 1),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
