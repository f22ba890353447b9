"""Measures what the tunnel to Reverb costs: no tunnel at all, ours, and stunnel, in turns.

    ./run python benchmarks/tunnel.py

A server in another process returns what it is sent, over one connection of the loopback device. Both tunnels use TLS
1.3 and ask both sides for the run's key. stunnel is measured where it is installed (Debian's package stunnel4).
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import pathlib
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import tyro

from boonta.benchmarks.timing import median_s
from boonta.nodes.rpc import keys, tunnel
from boonta.nodes.rpc.wire import free_port

LOOPBACK = "127.0.0.1"
START_S = 10.0
SIZES = {
    "8 bytes, us": (8, 1e6),
    "56 kB, us": (56_448, 1e6),
    "10 MB, ms": (10_000_000, 1e3),
}  # Bytes, and units in 1 s.
STUNNEL = """foreground = yes
pid =
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
[tunnel]
client = {client}
accept = {accept}
connect = {connect}
cert = {key}
CAfile = {key}
verifyPeer = yes
sslVersionMin = TLSv1.3
"""


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      turns: number of turns.
      messages: small messages in a turn; a hundredth of it for those of 10 MB.
      serve: a folder with the key, to be the server; for the benchmark's own use.
    """

    turns: int = 5
    messages: int = 2_000
    serve: str = ""


def main(options: Options) -> None:
    """Measures all ways in turns and prints the table."""
    if options.serve:
        return serve(pathlib.Path(options.serve))
    stunnel = shutil.which("stunnel4") or shutil.which("stunnel")
    with tempfile.TemporaryDirectory(prefix="boonta-") as name, contextlib.ExitStack() as ends:
        folder = pathlib.Path(name)
        keys.make_once(folder / "key.pem")
        plain, exit_port = ends.enter_context(server(folder))
        ways = {"none": connect(plain), "ours": through_ours(folder, exit_port)}
        if stunnel:
            ways["stunnel"] = ends.enter_context(through_stunnel(stunnel, folder, plain))
        turns = [
            {
                (way, row): there_and_back_s(sock, size, options.messages)
                for row, (size, _) in SIZES.items()
                for way, sock in ways.items()
            }
            for _ in range(options.turns)
        ]
    print(f"there and back, medians of {options.turns} turns\n{'':12s}" + "".join(f"{way:>10s}" for way in ways))
    for row, (_, units) in SIZES.items():
        medians = (statistics.median(turn[way, row] for turn in turns) * units for way in ways)
        print(f"{row:12s}" + "".join(f"{median:10,.1f}" for median in medians))


def there_and_back_s(connection: socket.socket, size: int, messages: int) -> float:
    """The median time until a message of `size` bytes is back, in seconds."""
    message = struct.pack("!Q", size) + os.urandom(size)

    def send() -> None:
        connection.sendall(message)
        receive(connection, len(message))

    return median_s(send, max(5, messages // 100 if size > 1_000_000 else messages))


def receive(connection: socket.socket, size: int) -> bytearray:
    """The next `size` bytes, or fewer where the connection ends."""
    got = bytearray(size)
    view, filled = memoryview(got), 0
    while filled < size and (count := connection.recv_into(view[filled:])):
        filled += count
    return got[:filled]


def serve(folder: pathlib.Path) -> None:
    """Returns what its connections send, plainly and through our tunnel's exit; prints both ports first."""
    listening, outside = socket.create_server((LOOPBACK, 0)), socket.create_server((LOOPBACK, 0))
    tunnel.open_exit(outside, listening.getsockname()[1], str(folder / "key.pem"))
    print(listening.getsockname()[1], outside.getsockname()[1], flush=True)
    while True:
        connection, _ = listening.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # In a thread it would share Python's lock with the tunnel's exit, which Reverb doesn't.
        multiprocessing.get_context("fork").Process(target=echo, args=(connection,), daemon=True).start()
        connection.close()


def echo(connection: socket.socket) -> None:
    """Returns each message, behind its length, until the connection ends."""
    while len(head := receive(connection, 8)) == 8:
        connection.sendall(head + receive(connection, *struct.unpack("!Q", head)))


@contextlib.contextmanager
def server(folder: pathlib.Path) -> Iterator[tuple[int, int]]:
    """The ports of the server, and of the exit to it."""
    command = [sys.executable, __file__, "--serve", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            plain, exit_port = map(int, process.stdout.readline().split())
            yield plain, exit_port
        finally:
            os.killpg(process.pid, 9)


def connect(port: int) -> socket.socket:
    """A connection, once the port is listened on."""
    until = time.monotonic() + START_S
    while True:
        try:
            connection = socket.create_connection((LOOPBACK, port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def through_ours(folder: pathlib.Path, exit_port: int) -> socket.socket:
    """A connection through our tunnel."""
    path = folder / "entrance"
    tunnel.open_entrance(path, f"{LOOPBACK}:{exit_port}", str(folder / "key.pem"))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return connection


@contextlib.contextmanager
def through_stunnel(program: str, folder: pathlib.Path, port: int) -> Iterator[socket.socket]:
    """A connection through two processes of stunnel."""
    with contextlib.ExitStack() as ends:
        ports = [free_port(), free_port()]
        for client, accept, onward in (("no", ports[1], port), ("yes", ports[0], ports[1])):
            config = folder / f"stunnel-{client}.conf"
            config.write_text(STUNNEL.format(client=client, accept=accept, connect=onward, key=folder / "key.pem"))
            process = ends.enter_context(subprocess.Popen([program, str(config)], stderr=subprocess.DEVNULL))
            ends.callback(process.terminate)
            connect(accept).close()
        yield connect(ports[0])


if __name__ == "__main__":
    main(tyro.cli(Options))
