"""Measures what a call of another process costs: by our own RPC, by Launchpad's courier, and by gRPC.

    ./run python benchmarks/calls.py

Each server is a process of its own and returns what it is sent. All take their turns, over and over, in one run; the
table has medians over turns. Courier and gRPC are measured where they are installed, on CPython 3.10.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import numpy as np
import psutil
import tyro

from boonta.benchmarks.timing import cpu_s, median_s
from boonta.nodes.rpc import encoding, keys
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.server import Server
from boonta.nodes.rpc.wire import free_port

WAYS = ("ours, unix", "ours, tls", "courier, tcp", "grpc, unix", "grpc, tcp", "grpc, tls")
NEEDS = {"ours": "msgpack", "courier": "courier", "grpc": "grpc"}
DEADLINE_S = 60.0
# What a group of two environments sends to an inference node: step type, reward, discount and frames.
STEP = [np.zeros(2, np.int32), np.zeros(2, np.float32), np.zeros(2, np.float32), np.zeros((2, 84, 84, 4), np.uint8)]
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
ROWS = ("number, us", "env steps of 56 kB, us", "params of 10 MB, ms", "16 threads, calls/s", "CPU of these, us")


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      turns: number of turns.
      calls: calls of each kind in a turn; a hundredth of it for those of 10 MB.
      serve: a way, to be its server at `address`, with the key in a file; for the benchmark's own use.
      address, key: see there.
    """

    turns: int = 5
    calls: int = 2_000
    serve: str = ""
    address: str = ""
    key: str = ""


def main(options: Options) -> None:
    """Measures all ways and prints the table."""
    if options.serve:
        kept = serve(options.serve, options.address, options.key)
        print("ready", kept, flush=True)
        threading.Event().wait()
    ways = [way for way in WAYS if importlib.util.find_spec(NEEDS[way.partition(",")[0]])]
    turns = [{way: figures(way, options.calls) for way in ways} for _ in range(options.turns)]
    print(f"medians of {options.turns} turns\n{'':24s}" + "".join(f"{way:>14s}" for way in ways))
    for row in ROWS:
        medians = (statistics.median(turn[way][row] for turn in turns) for way in ways)
        print(f"{row:24s}" + "".join(f"{median:14,.1f}" for median in medians))


def figures(way: str, calls: int) -> dict[str, float]:
    """The figures of one way in one turn."""
    with server(way) as (call, process):
        params = os.urandom(10_000_000)
        small, step = (median_s(functools.partial(call, value), calls) for value in (3, STEP))
        large = median_s(lambda: call(params), max(1, calls // 100))
        with futures.ThreadPoolExecutor(16) as threads:
            both = (process, psutil.Process())
            before, start = cpu_s(*both), time.perf_counter()
            list(threads.map(lambda _: call(STEP), range(2 * calls)))
            elapsed_s, used_s = time.perf_counter() - start, cpu_s(*both) - before
    values = (small * 1e6, step * 1e6, large * 1e3, 2 * calls / elapsed_s, used_s / (2 * calls) * 1e6)
    return dict(zip(ROWS, values))


@contextlib.contextmanager
def server(way: str) -> Iterator[tuple[Callable[[Any], Any], psutil.Process]]:
    """A server's method, and its process."""
    library, _, transport = way.partition(", ")
    with tempfile.TemporaryDirectory(prefix="boonta-") as folder:
        key = f"{folder}/rpc.pem"
        keys.make_once(pathlib.Path(key))
        address = f"unix:{folder}/server" if transport == "unix" else f"localhost:{free_port()}"
        command = [sys.executable, __file__, "--serve", way, "--address", address, "--key", key]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None and process.stdout.readline()
                yield CLIENTS[library](address, key if transport == "tls" else None), psutil.Process(process.pid)
            finally:
                process.kill()


def serve(way: str, address: str, key: str) -> Any:
    """A started server, which ends when nothing refers to it."""
    library, _, transport = way.partition(", ")
    return SERVERS[library](address, key if transport == "tls" else None)


def our_server(address: str, key: str | None) -> Any:
    started = Server(address, {"echo": lambda value: value}, key)
    started.start()
    return started


def our_client(address: str, key: str | None) -> Callable[[Any], Any]:
    return Client(address, DEADLINE_S, key).echo


def courier_server(address: str, key: str | None) -> Any:
    import courier

    started = courier.Server("server", port=int(address.rpartition(":")[2]))
    started.Bind("echo", lambda value: value)
    started.Start()
    return started


def courier_client(address: str, key: str | None) -> Callable[[Any], Any]:
    import courier

    return courier.Client(address, call_timeout=DEADLINE_S).echo


def grpc_server(address: str, key: str | None) -> Any:
    import grpc

    def echo(request: bytes, context: Any) -> bytes:
        del context
        return b"".join(encoding.encode(encoding.decode(memoryview(request))))

    class Echo(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(echo)  # There are no serialisers: it gets and returns bytes.

    started = grpc.server(futures.ThreadPoolExecutor(64), handlers=(Echo(),), options=UNLIMITED)
    if key is None:
        started.add_insecure_port(address)
    else:
        pem = pathlib.Path(key).read_bytes()
        started.add_secure_port(address, grpc.ssl_server_credentials([(pem, pem)], pem, require_client_auth=True))
    started.start()
    return started


def grpc_client(address: str, key: str | None) -> Callable[[Any], Any]:
    import grpc

    if key is None:
        channel = grpc.insecure_channel(address, options=UNLIMITED)
    else:
        pem = pathlib.Path(key).read_bytes()
        name = ("grpc.ssl_target_name_override", keys.NAME)
        channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(pem, pem, pem), [*UNLIMITED, name])
    echo = channel.unary_unary("/server/echo")

    def call(value: Any) -> Any:
        return encoding.decode(memoryview(echo(b"".join(encoding.encode(value)), timeout=DEADLINE_S)))

    return call


SERVERS = {"ours": our_server, "courier": courier_server, "grpc": grpc_server}
CLIENTS = {"ours": our_client, "courier": courier_client, "grpc": grpc_client}


if __name__ == "__main__":
    main(tyro.cli(Options))
