"""What a server bears that is no call, what can't be sent, and where nobody can listen."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
import time

import pytest

from boonta.nodes.rpc import encoding, wire
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.errors import Failed
from boonta.nodes.rpc.server import Server

LONG_S = 60.0  # A deadline that no test reaches.


def echo(*values):
    return list(values)


def path_of(address: str) -> pathlib.Path:
    return pathlib.Path(address.removeprefix(wire.UNIX))


def framed(*parts: bytes) -> bytes:
    message = b"".join(parts)
    return wire.LENGTH.pack(len(message)) + message


CALL = framed(*encoding.encode(["echo", [1]]))
NOT_OURS = {
    "nothing": b"",
    "another protocol": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a length that no message has": wire.LENGTH.pack(wire.MAX_BYTES + 1),
    "the largest length and no message": wire.LENGTH.pack(wire.MAX_BYTES),
    "a message cut short": CALL[:-1],
    "two messages at once": CALL * 2,
    "no message of ours": framed(b"\xff" * 16),
    "no call": framed(*encoding.encode(1)),
    "a call of a list": framed(*encoding.encode([["echo"], []])),
    "a call of nothing": framed(*encoding.encode([None, []])),
    "a call with a number of arguments": framed(*encoding.encode(["echo", 1])),
}


@pytest.mark.parametrize("name", NOT_OURS)
def test_what_is_no_call_hurts_no_other(address, name):
    with Server(address, {"echo": echo}):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(LONG_S)
            stranger.connect(str(path_of(address)))
            stranger.sendall(NOT_OURS[name])
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(1 << 16):
                pass
        assert Client(address, LONG_S).echo(1) == [1]


@pytest.mark.parametrize("name", [name for name in NOT_OURS if name.startswith(("no ", "a call "))])
def test_a_message_that_is_no_call_is_answered_with_an_error(address, name):
    with Server(address, {"echo": echo}), wire.connect(address, None, time.monotonic() + LONG_S) as stranger:
        stranger.sendall(NOT_OURS[name])
        done, kind, _ = encoding.decode(wire.receive(stranger, time.monotonic() + LONG_S))
        assert not done and kind in ("ExtraData", "ValueError", "TypeError", "AttributeError")


def test_a_message_that_is_too_large_is_refused_where_it_is_sent(address, monkeypatch):
    monkeypatch.setattr(wire, "MAX_BYTES", 1000)
    with Server(address, {"echo": echo, "much": lambda: bytes(1001)}):
        client = Client(address, LONG_S)
        with pytest.raises(ValueError, match="a message of 1,0.. bytes can't be sent; 1,000 are the most"):
            client.echo(bytes(1001))
        with pytest.raises(Failed, match="a message of 1,0.. bytes can't be sent"):
            client.much()
        assert client.echo(1) == [1]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("nowhere", "must be host:port, or unix:/path"),
        ("host:", "must be host:port"),
        ("host:99999", "must be host:port"),
        ("host:80", "host:80 can be reached from other machines, so it needs a key"),
        (f"unix:/{'x' * 107}", "has more than 107 bytes"),
    ],
)
def test_addresses_that_can_not_be_are_refused(bad, message):
    for make in (lambda: Client(bad, 1.0), lambda: Server(bad, {})):
        with pytest.raises(ValueError, match=message):
            make()


def test_the_room_needs_no_cluster_and_no_jax():
    unwanted = ("launchpad", "courier", "reverb", "tensorflow", "jax", "grpc")
    code = f"""
import sys
from boonta.nodes.rpc import client, keys, server
assert not set({unwanted}) & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LONG_S)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_port_that_is_in_use_for_ipv6_alone_is_refused():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} for the replay server is in use"):
            wire.require_free(port, "the replay server")


def test_a_port_on_which_one_has_just_listened_is_free():
    """The connection that the server closed first stays in the kernel's table for a minute."""
    with socket.socket() as listening, socket.socket() as client:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # As gRPC does.
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        client.connect(("127.0.0.1", port))
        listening.accept()[0].close()
    wire.require_free(port, "the replay server")


def test_a_connection_ends_some_time_after_its_machine_was_lost_unless_it_is_a_unix_socket():
    with socket.socket() as connection, socket.socket(socket.AF_UNIX) as local:
        wire.be_prompt(connection, lost_s=30.0)
        wire.be_prompt(local)
        options = socket.TCP_NODELAY, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_USER_TIMEOUT
        assert [connection.getsockopt(socket.IPPROTO_TCP, each) for each in options] == [1, 10, 10, 30_000]
        assert [each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for each in (connection, local)] == [1, 0]
