"""Calls over a Unix socket: what is served, how calls fail, and what callers and servers bear."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures

import numpy as np
import pytest

from boonta.nodes.rpc import wire
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.errors import DeadlineExceeded, Failed
from boonta.nodes.rpc.server import Server
from boonta.nodes.watch.calls import answered

LONG_S = 60.0  # A deadline that no test reaches.
SHORT_S = 0.3  # One that tests wait for.


def echo(*values):
    return list(values)


def path_of(address: str) -> pathlib.Path:
    return pathlib.Path(address.removeprefix(wire.UNIX))


def test_arguments_and_results_cross(address):
    with Server(address, {"echo": echo}):
        client = Client(address, LONG_S)
        assert client.echo() == []
        values = [1, "two", b"three", None, [4.5, True], {"a": []}]
        assert client.echo(*values) == values
        params = os.urandom(10_000_000)
        assert client.echo(params) == [params]
        np.testing.assert_array_equal(client.echo(np.ones((64, 84, 84)))[0], np.ones((64, 84, 84)))


def test_listed_methods_are_served_and_no_others(address):
    with Server(address, {"echo": echo}):
        client = Client(address, LONG_S)
        for method in ("run", "close", "mro", "Echo", ""):
            with pytest.raises(Failed, match="AttributeError: there is no .*; there are echo") as failed:
                client._call(method)
            assert failed.value.kind == "AttributeError"
        assert not hasattr(client, "_private") and not hasattr(client, "__len__")
        assert client.echo(1) == [1]


def test_an_exception_reaches_the_caller_and_leaves_the_server_as_it_was(address):
    def fail(message):
        raise LookupError(message)

    with Server(address, {"fail": fail, "thing": object, "echo": echo}):
        client = Client(address, LONG_S)
        with pytest.raises(Failed, match="^fail: LookupError: there is none$") as failed:
            client.fail("there is none")
        assert failed.value.kind == "LookupError"
        with pytest.raises(Failed, match="takes 1 positional argument but 2 were given|fail"):
            client.fail(1, 2)
        with pytest.raises(Failed, match="a object can't be sent"):
            client.thing()
        with pytest.raises(TypeError, match="a object can't be sent"):
            client.echo(object())
        assert client.echo(1) == [1]


def test_an_exception_whose_message_is_no_text_reaches_the_caller(address):
    def fail():
        raise OSError("a file called \udcff")

    with Server(address, {"fail": fail}), pytest.raises(Failed, match=r"a file called \?"):
        Client(address, LONG_S).fail()


def test_a_server_that_is_not_there_is_tried_until_the_deadline(address):
    client = Client(address, SHORT_S)  # It connects to nothing yet.
    with pytest.raises(DeadlineExceeded, match=rf"{address} didn't answer 'echo' within \d+\.\d s: .*No such file"):
        client.echo()
    assert answered(client.echo, 1) is None


def test_a_server_that_is_away_is_given_up_before_one_that_is_slow(address):
    client, over = Client(address, LONG_S, away_s=SHORT_S), threading.Event()
    with pytest.raises(DeadlineExceeded, match="No such file"):
        client.echo()
    with Server(address, {"wait": over.wait}), futures.ThreadPoolExecutor() as pool:
        calling = pool.submit(client.wait, LONG_S)
        time.sleep(2 * SHORT_S)
        over.set()
        assert calling.result(LONG_S) is True


def test_a_method_that_takes_too_long_keeps_neither_its_caller_nor_others(address):
    over = threading.Event()
    with Server(address, {"wait": over.wait, "echo": echo}):
        with pytest.raises(DeadlineExceeded):
            Client(address, SHORT_S).wait(LONG_S)
        assert Client(address, LONG_S).echo(1) == [1]
        over.set()


def test_a_call_waits_for_a_server_that_is_still_starting(address):
    with futures.ThreadPoolExecutor() as pool:
        calling = pool.submit(Client(address, LONG_S).echo, 1)
        time.sleep(SHORT_S)
        with Server(address, {"echo": echo}):
            assert calling.result(LONG_S) == [1]


def test_a_server_that_came_back_is_found_again_by_all_threads_of_its_client(address):
    client, everybody = Client(address, LONG_S), threading.Barrier(4)

    def call(_):
        everybody.wait(LONG_S)
        return client.echo(1)

    with futures.ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            with Server(address, {"echo": echo}):
                assert list(pool.map(call, range(4))) == [[1]] * 4


SERVE = """
import sys, threading
from boonta.nodes.rpc.server import Server
with Server(sys.argv[1], {"life": lambda: sys.argv[2]}):
    print("ready", flush=True)
    threading.Event().wait()
"""


def test_a_killed_server_that_starts_again_takes_its_address_over(address):
    client = Client(address, LONG_S)
    for life in "12":
        command = [sys.executable, "-c", SERVE, address, life]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            assert client.life() == life
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert path_of(address).exists()


def test_a_server_leaves_nothing_behind_but_the_next_ones_file(address):
    threads = set(threading.enumerate())
    first, second = Server(address, {"echo": echo}), Server(address, {"echo": echo})
    first.start()
    client = Client(address, LONG_S)
    client.echo()
    second.start()
    first.close()
    assert client.echo(1) == [1]
    second.close()
    assert not path_of(address).exists()
    assert set(threading.enumerate()) <= threads


def test_a_server_that_closes_lets_its_calls_end(address):
    begun, over = threading.Event(), threading.Event()

    def work():
        begun.set()
        return over.wait(LONG_S)

    server = Server(address, {"work": work})
    server.start()
    with futures.ThreadPoolExecutor() as pool:
        calling = pool.submit(Client(address, LONG_S).work)
        assert begun.wait(LONG_S)
        closing = pool.submit(server.close)
        over.set()
        assert calling.result(LONG_S) is True
        closing.result(LONG_S)


def test_as_many_calls_are_served_at_once_as_there_are_callers(address):
    """Each of them ends only once all are being served, as those of an inference node do that wait for a batch."""
    everybody = threading.Barrier(64)
    with Server(address, {"act": lambda: everybody.wait(LONG_S) >= 0}):
        client = Client(address, LONG_S)
        with futures.ThreadPoolExecutor(64) as pool:
            assert all(pool.map(lambda _: client.act(), range(64)))


def test_more_calls_than_the_limit_wait_for_their_turn_and_those_given_up_are_never_run(address):
    begun, over = threading.Semaphore(0), threading.Event()
    ran, lock = [], threading.Lock()

    def work(name):
        with lock:
            ran.append(name)
        begun.release()
        return over.wait(LONG_S)

    with Server(address, {"work": work}, calls=2) as server, futures.ThreadPoolExecutor() as pool:
        client = Client(address, LONG_S)
        working = [pool.submit(client.work, name) for name in "ab"]
        assert all(begun.acquire(timeout=LONG_S) for _ in range(2))
        waiting = pool.submit(client.work, "c")
        with pytest.raises(DeadlineExceeded):
            Client(address, SHORT_S).work("d")
        assert set(ran) == {"a", "b"}
        until = time.monotonic() + LONG_S
        while len(server._threads) > 3:  # The server looks now and then whether a caller is still there.
            assert time.monotonic() < until
            time.sleep(0.01)
        with pytest.raises(DeadlineExceeded):
            Client(address, SHORT_S).work("e")
        over.set()  # Since then it may not have looked.
        assert all(call.result(LONG_S) for call in [*working, waiting])
    assert sorted(ran) == ["a", "b", "c"]


def test_a_forked_process_has_a_connection_of_its_own(address):
    with Server(address, {"echo": echo}):
        client = Client(address, LONG_S)
        client.echo()
        code = (
            "import os, sys\nfrom boonta.nodes.rpc.client import Client\n"
            f"client = Client({address!r}, 30.0)\nassert client.echo(0) == [0]\n"
            "child = os.fork()\n"
            "for i in range(200): assert client.echo(i + 1000 * (not child)) == [i + 1000 * (not child)]\n"
            "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=LONG_S)


def test_a_deadline_that_can_not_be_is_refused(address):
    with pytest.raises(ValueError, match=r"away_s is 2; it must be above 0, at most 1"):
        Client(address, 1, away_s=2)
    with pytest.raises(ValueError, match="deadline_s is 0; it must be above 0"):
        Client(address, 0)


def test_a_place_where_no_server_can_listen_is_named(tmp_path):
    with pytest.raises(OSError, match=r"can't listen at unix:.*nowhere/s"):
        Server(f"unix:{tmp_path}/nowhere/s", {}).start()
