"""What a server bears: callers that have given up, lack the key or come while it closes, and errors of its methods."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent import futures

import pytest

from boonta.nodes.rpc import encoding, keys, server, wire
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.errors import DeadlineExceeded, Failed
from boonta.nodes.rpc.server import Server
from boonta.tests.helpers.apart import free_ports

LONG_S = 60.0  # A deadline that no test reaches.
SHORT_S = 0.3  # One that tests wait for.


def echo(*values):
    return list(values)


@pytest.fixture
def key(tmp_path):
    keys.make_once(tmp_path / "rpc.pem")
    return str(tmp_path / "rpc.pem")


def wait_until(reached):
    end = time.monotonic() + LONG_S
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_call_that_was_given_up_before_the_server_saw_it_is_not_run(address):
    accepts, ran = threading.Event(), []

    class Late(Server):
        """Accepts nobody for a while, like one whose process is stopped."""

        def _accept(self):
            accepts.wait(LONG_S)
            super()._accept()

    with Late(address, {"put": ran.append}):
        for i in range(3):
            with pytest.raises(DeadlineExceeded):
                Client(address, SHORT_S).put(i)
        accepts.set()
        Client(address, LONG_S).put("last")
    assert ran == ["last"]


def test_a_connection_in_its_handshake_ends_when_the_server_closes(key):
    address, called = f"localhost:{free_ports(1)}", []
    serving = Server(address, {"call": lambda: called.append(1)}, key)
    serving.start()
    with socket.create_connection(wire.host_and_port(address), LONG_S) as connection:
        wait_until(lambda: serving._threads)
        serving.close()
        with contextlib.suppress(OSError):
            secured = keys.client_context(key).wrap_socket(connection)
            assert secured.recv(1) == wire.WELCOME
            wire.send(secured, encoding.encode(["call", []]), time.monotonic() + LONG_S)
            wire.receive(secured, time.monotonic() + LONG_S)
    assert not called
    wait_until(lambda: not serving._threads)


def test_a_server_that_closes_begins_no_further_call(address):
    begun, over, ran = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        return over.wait(LONG_S)

    serving = Server(address, {"work": work, "put": ran.append})
    serving.start()
    end = time.monotonic() + LONG_S
    with wire.connect(address, None, end) as kept, futures.ThreadPoolExecutor() as pool:
        wire.send(kept, encoding.encode(["put", [1]]), end)
        assert encoding.decode(wire.receive(kept, end)) == [True, None]
        working = pool.submit(Client(address, LONG_S).work)
        assert begun.wait(LONG_S)
        closing = pool.submit(serving.close)
        wait_until(lambda: serving._closing)
        with pytest.raises(OSError):
            wire.send(kept, encoding.encode(["put", [2]]), end)
            wire.receive(kept, end)
        over.set()
        assert working.result(LONG_S) is True
        closing.result(LONG_S)
    assert ran == [1]


def test_a_caller_for_whom_no_thread_can_start_learns_it_and_tries_again(address, monkeypatch):
    start, failures = threading.Thread.start, []

    def fail_once(thread):
        if thread.name == "rpc connection" and not failures:
            failures.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    with Server(address, {"echo": echo}):
        monkeypatch.setattr(threading.Thread, "start", fail_once)
        assert Client(address, LONG_S).echo(1) == [1]
    assert len(failures) == 1


def test_an_error_of_a_method_is_printed_with_its_traceback_once_for_each_type(address, capsys):
    def fail(kind):
        raise {"a": LookupError, "b": OSError}[kind]("there is none")

    with Server(address, {"fail": fail, "thing": object}):
        client = Client(address, LONG_S)
        for method, *arguments in (("fail", "a"), ("fail", "b"), ("fail", "a"), ("thing",), ("thing",), ("unknown",)):
            with pytest.raises(Failed):
                client._call(method, *arguments)
    printed = capsys.readouterr().err
    assert printed.count("Traceback (most recent call last):") == 3
    assert printed.count("warning: a call of 'fail' has failed:") == 2 and printed.count("in fail\n") == 2
    assert printed.count("LookupError: there is none") == 1 and printed.count("a object can't be sent") == 1


def test_callers_without_the_key_take_a_few_connections_and_no_more(key, monkeypatch):
    monkeypatch.setattr(wire, "HANDSHAKES", 2)
    monkeypatch.setattr(server, "HANDSHAKE_S", 1.0)
    numbers, lock, strangers_left = [0], threading.Lock(), iter(range(6))

    class Counted(Server):
        """Keeps how many callers were in their handshakes whenever one began or ended."""

        def _secured(self, connection):
            with lock:
                numbers.append(numbers[-1] + 1)
                if next(strangers_left, None) is None:  # This is the client, which may be slow on a busy machine.
                    monkeypatch.setattr(server, "HANDSHAKE_S", LONG_S)
            try:
                return super()._secured(connection)
            finally:
                with lock:
                    numbers.append(numbers[-1] - 1)

    address = f"localhost:{free_ports(1)}"
    with Counted(address, {"echo": echo}, key), contextlib.ExitStack() as strangers:
        for _ in range(6):
            strangers.enter_context(socket.create_connection(wire.host_and_port(address), LONG_S))
        assert Client(address, LONG_S, key).echo(1) == [1]  # The kernel's queue is served in order.
    assert max(numbers) == 2


@pytest.mark.parametrize(
    ("limits", "connections", "room", "raised"),
    [
        ((100, 1000), 4096, 1000 - 256, (1000, 1000)),
        ((300, 300), 4096, 150, (300, 300)),
        ((1000, 1000), 10, 10, (1000, 1000)),
        ((100, 1000), 200, 200, (200 + 256, 1000)),
    ],
)
def test_connections_leave_files_for_the_rest_of_the_process(limits, connections, room, raised):
    code = f"""
import resource
from boonta.nodes.rpc import wire
wire.CONNECTIONS = {connections}
resource.setrlimit(resource.RLIMIT_NOFILE, {limits})
assert wire.room() == {room}
assert resource.getrlimit(resource.RLIMIT_NOFILE) == {raised}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LONG_S)


FULL = """
import contextlib, resource, sys
from boonta.nodes.rpc.server import Server
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
with Server(sys.argv[1], {"ping": lambda: 1}, sys.argv[2]) as server:
    print("ready", flush=True)
    for line in sys.stdin:
        with contextlib.ExitStack() as files:
            for _ in range(50):
                files.enter_context(open(sys.argv[2]))
        print("has saved", flush=True)
"""


def test_a_process_to_which_strangers_connect_can_save(key):
    address = f"localhost:{free_ports(1)}"
    command = [sys.executable, "-c", FULL, address, key]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process, contextlib.ExitStack() as strangers:
        assert process.stdout.readline() == "ready\n"
        for _ in range(300):
            strangers.enter_context(socket.create_connection(wire.host_and_port(address), LONG_S))

        def settled():
            before = len(os.listdir(f"/proc/{process.pid}/fd"))
            time.sleep(SHORT_S)
            return wire.HANDSHAKES <= before == len(os.listdir(f"/proc/{process.pid}/fd"))

        wait_until(settled)
        print("save", file=process.stdin, flush=True)
        assert process.stdout.readline() == "has saved\n"
        process.stdin.close()
        assert process.wait(LONG_S) == 0
