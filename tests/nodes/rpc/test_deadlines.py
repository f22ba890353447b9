"""A call's deadline is that of all its parts together."""

from __future__ import annotations

import socket
import threading
import time

import numpy as np
import pytest

from boonta.nodes.rpc import wire
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.errors import DeadlineExceeded

LONG_S = 60.0


@pytest.fixture
def clock(monkeypatch):
    """The time, which only a test changes."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


class Slow:
    """A connection of which everything takes some seconds; keeps the timeouts that it was given."""

    family = socket.AF_INET

    def __init__(self, clock, *, connects_s=0.0, sends_s=0.0, welcome=b""):
        self.clock, self.timeouts = clock, []
        self.connects_s, self.sends_s, self.welcome = connects_s, sends_s, welcome

    def settimeout(self, timeout_s):
        self.timeouts.append(timeout_s)

    def setsockopt(self, *option):
        pass

    def connect(self, place):
        self.clock[0] += self.connects_s
        if self.connects_s >= self.timeouts[-1]:
            raise TimeoutError

    def send(self, data):
        self.clock[0] += self.sends_s
        return min(len(data), 1 << 14)

    def recv(self, size):
        return self.welcome

    def close(self):
        pass


@pytest.mark.parametrize("message", [[bytes(200_000)], [b"head", bytes(400_000)], [b"head", *[bytes(1 << 14)] * 32]])
def test_the_parts_of_a_message_share_its_time(clock, message):
    slow = Slow(clock, sends_s=1.0)
    with pytest.raises(TimeoutError):
        wire.send(slow, message, 5.0)
    assert slow.timeouts == [5.0, 4.0, 3.0, 2.0, 1.0]


def test_a_connection_its_handshake_and_the_welcome_share_their_time(clock, monkeypatch):
    slow = Slow(clock, connects_s=2.0, welcome=wire.WELCOME)
    monkeypatch.setattr(socket, "socket", lambda *kind: slow)

    class Context:
        def wrap_socket(self, connection):
            clock[0] += 3.0
            return connection

    assert wire.connect("127.0.0.1:1", Context(), 10.0) is slow
    assert slow.timeouts == [10.0, 8.0, 5.0]


def test_the_addresses_of_a_host_share_the_time(clock, monkeypatch):
    places = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{i}", 1)) for i in range(3)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, type: places)
    tried = []

    def new(*kind):
        tried.append(Slow(clock, connects_s=2.0 if len(tried) < 2 else 1.0))
        return tried[-1]

    monkeypatch.setattr(socket, "socket", new)
    assert wire.connect("host:1", None, 6.0) is tried[2]
    assert [slow.timeouts for slow in tried] == [[2.0], [2.0], [2.0]]


def test_a_call_ends_at_its_deadline_though_the_server_goes_on_reading(address):
    parts, got = [np.zeros(1_000_000, np.uint8)] * 20, 0

    def read():
        nonlocal got
        connection, _ = listening.accept()
        with connection:
            while data := connection.recv(1_000_000, socket.MSG_WAITALL):
                got += len(data)
                time.sleep(0.2)

    with wire.listen(address) as listening:
        reader = threading.Thread(target=read)
        reader.start()
        with pytest.raises(DeadlineExceeded):
            Client(address, 1.0).put(parts)
        reader.join(LONG_S)
    assert 0 < got < 10_000_000  # All of it takes four times the deadline.
