"""A tunnel to a server without authentication, such as Reverb's: mutual TLS between machines, with the run's key.

    client -> Unix socket -> entrance ==TLS==> exit -> loopback device -> server

Each end runs in a thread of its node's process. The entrance is a file in a private folder, so that other users of the
client's machine can't use it. Users of the server's machine can reach the server through its loopback device.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import pathlib
import socket
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable

from boonta.nodes.rpc import keys, wire

CHUNK = 1 << 18  # Size in bytes of the buffer of one direction of a connection.
CONNECT_S = 10.0  # Time for a connection, and for its handshake, after which the client tries again.
LOST_S = 30.0  # Time without a sign of the other machine after which a connection ends.
START_S = 30.0
PAUSE_S = 0.5  # Time until an exit tries again to accept connections where it can't.
FILES = 3  # Descriptors of a connection at the exit: its two sockets, and the server's where that is in the process.
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
    host, port = wire.host_and_port(address)
    context = keys.client_context(key)

    async def onward() -> Ends:
        return await asyncio.open_connection(host, port, limit=CHUNK, ssl=context, server_hostname="")

    async def listen() -> Awaitable[None]:
        server = await asyncio.start_unix_server(functools.partial(_join, onward), path, limit=CHUNK)
        return server.serve_forever()

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

    async def listen() -> Awaitable[None]:
        listening.setblocking(False)
        return _accept(listening, context, onward)

    _start(f"the exit to port {port}", listen)


def _start(name: str, listen: Callable[[], Awaitable[Awaitable[None]]]) -> None:
    """Runs a server in a thread of its own; returns once it listens, and `listen` has returned what serves."""
    listens: concurrent.futures.Future[None] = concurrent.futures.Future()

    async def serve() -> None:
        serving = await listen()
        listens.set_result(None)
        await serving

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


async def _accept(listening: socket.socket, context: ssl.SSLContext, onward: Callable[[], Awaitable[Ends]]) -> None:
    """Accepts connections and joins each to one onward; those without the key never take all of the room.

    asyncio's own server would accept any number of callers at once, before they have proved anything.
    """
    room, handshakes = asyncio.Semaphore(wire.room(FILES)), asyncio.Semaphore(wire.HANDSHAKES)
    serving: set[asyncio.Task[None]] = set()  # The event loop itself keeps weak references only.

    async def serve(connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):  # The caller has gone, or hasn't the key.
                try:
                    ends = await _secured(connection, context)
                finally:
                    handshakes.release()
                await _join(onward, *ends)
        finally:
            room.release()

    while True:
        await room.acquire()
        await handshakes.acquire()
        try:
            connection, _ = await asyncio.get_running_loop().sock_accept(listening)
        except OSError:  # There are no more file descriptors.
            handshakes.release()
            room.release()
            await asyncio.sleep(PAUSE_S)
            continue
        task = asyncio.ensure_future(serve(connection))
        serving.add(task)
        task.add_done_callback(serving.discard)


async def _secured(connection: socket.socket, context: ssl.SSLContext) -> Ends:
    """The streams of an accepted connection, once its caller has proved that it has the key."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(CHUNK)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(
        lambda: protocol, connection, ssl=context, ssl_handshake_timeout=CONNECT_S
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _join(
    onward: Callable[[], Awaitable[Ends]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Opens a connection onward for one that was accepted, and joins the two until either ends."""
    with contextlib.closing(writer):
        try:
            further_reader, further_writer = await asyncio.wait_for(onward(), CONNECT_S)
        except (OSError, asyncio.TimeoutError) as error:  # The client's connection ends, and it tries again.
            if isinstance(error, ssl.SSLError):
                print(f"warning: a tunnel's other end has another key: {error}", file=sys.stderr, flush=True)
            return
        with contextlib.closing(further_writer):
            for one in (writer, further_writer):
                wire.be_prompt(one.get_extra_info("socket"), LOST_S)
            directions = {
                asyncio.ensure_future(_pump(reader, further_writer)),
                asyncio.ensure_future(_pump(further_reader, writer)),
            }
            _, left = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for direction in left:
                direction.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # The connection has ended.
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
