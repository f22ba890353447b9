"""Calls between machines: the run's key, and who is refused without it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import ssl
import subprocess
import sys

import pytest
from cryptography import x509

from boonta.nodes.rpc import encoding, keys, wire
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.errors import Untrusted
from boonta.nodes.rpc.server import Server
from boonta.tests.helpers.apart import free_ports

LONG_S = 60.0


@pytest.fixture
def key(tmp_path):
    file = tmp_path / "run" / "rpc.pem"
    keys.make_once(file)
    return str(file)


@contextlib.contextmanager
def serving(key: str, called: list):
    """A server's address; a call adds to `called`."""
    address = f"localhost:{free_ports(1)}"
    with Server(address, {"call": lambda: called.append(1)}, key):
        yield address


def test_those_who_have_the_key_call_each_other(key):
    called: list[int] = []
    with serving(key, called) as address:
        client = Client(address, LONG_S, key)
        assert client.call() is None and client.call() is None
    with Server(address, {"call": lambda: b"x" * 10_000_000}, key):  # The same client after a restart.
        assert client.call() == b"x" * 10_000_000
    assert len(called) == 2


def test_a_key_is_read_from_a_connection_that_stays_open():
    key = keys.new()
    reader, writer = os.pipe()
    os.write(writer, key + b"and more")
    with open(reader, "rb") as stream:
        assert keys.read(stream) == key  # It would wait for ever if it read to the end.
        os.close(writer)
        assert stream.read() == b"and more" and keys.read(stream) == b""


def test_a_caller_with_another_key_is_refused(key, tmp_path):
    called: list[int] = []
    keys.make_once(tmp_path / "other.pem")
    with serving(key, called) as address:
        for _ in range(5):
            with pytest.raises(Untrusted, match=f"{address} has another key than its caller"):
                Client(address, LONG_S, str(tmp_path / "other.pem")).call()
        Client(address, LONG_S, key).call()
    assert len(called) == 1


def test_a_caller_without_a_key_is_refused_even_if_it_asks_nothing_of_the_server(key):
    called: list[int] = []
    with serving(key, called) as address:
        host, port = address.split(":")
        careless = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
        got = b""
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), LONG_S) as connection:
            got = careless.wrap_socket(connection).recv(1)  # In TLS 1.3 a refusal comes with the first read.
        assert not got
        with socket.create_connection((host, int(port)), LONG_S) as plain:
            call = b"".join(encoding.encode(["call", []]))
            with contextlib.suppress(OSError):  # The server may have ended the connection by now.
                plain.sendall(wire.LENGTH.pack(len(call)) + call)
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(1 << 16):
                    pass
        Client(address, LONG_S, key).call()
    assert len(called) == 1


def test_a_server_with_another_key_is_not_told_anything(key, tmp_path):
    """Whoever takes a server's address learns nothing from its callers."""
    keys.make_once(tmp_path / "other.pem")
    called: list[int] = []
    with serving(str(tmp_path / "other.pem"), called) as address, pytest.raises(Untrusted):
        Client(address, LONG_S, key).call()
    assert not called


def test_older_protocols_are_refused(key):
    with serving(key, []) as address:
        host, port = address.split(":")
        old = keys.client_context(key)
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
        with socket.create_connection((host, int(port)), LONG_S) as connection, pytest.raises(OSError):
            old.wrap_socket(connection)


def test_one_that_connects_and_says_nothing_keeps_nobody_waiting(key):
    with serving(key, []) as address:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), LONG_S):
            Client(address, LONG_S, key).call()


def test_only_its_owner_can_read_a_key(key):
    assert pathlib.Path(key).stat().st_mode & 0o777 == 0o600


def test_a_key_is_valid_for_machines_whose_clocks_are_years_apart():
    certificate = x509.load_pem_x509_certificate(keys.new())
    assert certificate.not_valid_before_utc.year == 1970 and certificate.not_valid_after_utc.year == 9999


def test_a_key_that_is_there_stays(key):
    before = pathlib.Path(key).read_bytes()
    keys.make_once(pathlib.Path(key))
    assert pathlib.Path(key).read_bytes() == before
    assert b"PRIVATE KEY" in before and keys.new() != before


def test_of_several_processes_the_first_makes_the_key(tmp_path):
    file = tmp_path / "run" / "rpc.pem"
    code = (
        "import pathlib, sys\nfrom boonta.nodes.rpc import keys\nsys.stdin.read()\n"
        "keys.make_once(pathlib.Path(sys.argv[1]))\nprint(hash(pathlib.Path(sys.argv[1]).read_bytes()))\n"
    )
    command = [sys.executable, "-c", code, str(file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": {"PYTHONHASHSEED": "0"}}
    racing = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for process in racing:
        process.stdin.close()
    seen = {process.stdout.read() for process in racing}
    assert [process.wait() for process in racing] == [0] * 4 and len(seen) == 1


def test_a_file_that_is_no_key_is_named(tmp_path):
    (tmp_path / "rpc.pem").write_text("no key")
    with pytest.raises(OSError, match="rpc.pem"):
        Server(f"localhost:{free_ports(1)}", {}, str(tmp_path / "rpc.pem")).start()
    with pytest.raises(OSError, match="rpc.pem"):
        Client("localhost:1", LONG_S, str(tmp_path / "rpc.pem")).call()
