"""A tunnel between two ends on this machine: what it carries, and who is refused."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import socketserver
import tempfile
import threading
import time

import pytest

from boonta.nodes.rpc import keys, tunnel, wire

LONG_S = 60.0


class Echo(socketserver.ThreadingTCPServer):
    """Sends back what it receives, and counts connections."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, port: int = 0):
        outer, self.connections = self, 0

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                outer.connections += 1
                while data := self.request.recv(1 << 16):
                    self.request.sendall(data)

        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self) -> None:
        self.shutdown()
        self.server_close()


@pytest.fixture
def folder():
    """A folder with a path that is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="boonta-") as path:
        yield pathlib.Path(path)


@pytest.fixture
def key(folder):
    keys.make_once(folder / "rpc.pem")
    return str(folder / "rpc.pem")


@pytest.fixture
def server():
    echo = Echo()
    yield echo
    echo.end()


def opened_exit(port: int, key: str) -> int:
    """Opens an exit; returns its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    tunnel.open_exit(listening, port, key)
    return listening.getsockname()[1]


def connect(path: pathlib.Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(LONG_S)
    connection.connect(str(path))
    return connection


def echoed(connection: socket.socket, sent: bytes) -> bytes:
    """What comes back; sending and receiving go on at once."""
    sender = threading.Thread(target=connection.sendall, args=(sent,))
    sender.start()
    got = b""
    while len(got) < len(sent) and (part := connection.recv(1 << 20)):
        got += part
    sender.join(LONG_S)
    return got


def test_it_carries_both_directions_of_several_connections_at_once(folder, key, server):
    tunnel.open_entrance(folder / "in", f"localhost:{opened_exit(server.server_address[1], key)}", key)
    sent = [bytes([i]) * 5_000_000 for i in range(4)]
    got: dict[int, bytes] = {}

    def talk(i: int) -> None:
        with connect(folder / "in") as connection:
            got[i] = echoed(connection, sent[i])

    talkers = [threading.Thread(target=talk, args=(i,)) for i in range(4)]
    for talker in talkers:
        talker.start()
    for talker in talkers:
        talker.join(LONG_S)
    assert [got[i] == sent[i] for i in range(4)] == [True] * 4 and server.connections == 4


def test_both_ends_of_a_connection_end_together_and_a_server_that_came_back_is_reached(folder, key):
    first = Echo()
    port = first.server_address[1]
    tunnel.open_entrance(folder / "in", f"localhost:{opened_exit(port, key)}", key)
    with connect(folder / "in") as connection:
        assert echoed(connection, b"here") == b"here"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    first.end()
    with connect(folder / "in") as connection:
        assert connection.recv(1) == b""  # The client's library tries again, as with any server that is away.
    second = Echo(port)
    with connect(folder / "in") as connection:
        assert echoed(connection, b"again") == b"again"
    second.end()


def test_an_entrance_with_another_key_is_refused_and_says_so(folder, key, server, capsys):
    keys.make_once(folder / "other.pem")
    port = opened_exit(server.server_address[1], key)
    tunnel.open_entrance(folder / "in", f"localhost:{port}", str(folder / "other.pem"))
    with connect(folder / "in") as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"let me in")
        assert connection.recv(1) == b""
    assert server.connections == 0


def test_an_entrance_tells_an_exit_with_another_key_nothing(folder, key, server):
    keys.make_once(folder / "other.pem")
    port = opened_exit(server.server_address[1], str(folder / "other.pem"))
    tunnel.open_entrance(folder / "in", f"localhost:{port}", key)
    with connect(folder / "in") as connection, contextlib.suppress(ConnectionError):
        connection.sendall(b"secret")
        assert connection.recv(1) == b""
    assert server.connections == 0


def test_whoever_has_no_key_does_not_reach_the_server(folder, key, server):
    port = opened_exit(server.server_address[1], key)
    with socket.create_connection(("127.0.0.1", port), LONG_S) as plain, contextlib.suppress(ConnectionError):
        plain.sendall(b"\x0a\x7f" * 100)
        while plain.recv(1 << 16):
            pass
    assert server.connections == 0
    tunnel.open_entrance(folder / "in", f"localhost:{port}", key)
    with connect(folder / "in") as connection:
        assert echoed(connection, b"still here") == b"still here"


def test_whoever_has_no_key_takes_a_few_connections_and_no_more(key, server, monkeypatch):
    monkeypatch.setattr(wire, "HANDSHAKES", 2)
    monkeypatch.setattr(tunnel, "CONNECT_S", 2.0)
    secured, numbers = tunnel._secured, [0]

    async def counted(*arguments):
        numbers.append(numbers[-1] + 1)
        try:
            return await secured(*arguments)
        finally:
            numbers.append(numbers[-1] - 1)

    monkeypatch.setattr(tunnel, "_secured", counted)
    place, got, end = ("127.0.0.1", opened_exit(server.server_address[1], key)), b"", time.monotonic() + LONG_S
    with contextlib.ExitStack() as strangers:
        for _ in range(6):
            strangers.enter_context(socket.create_connection(place, LONG_S))
        while got != b"here":  # On a busy machine a handshake may take too long.
            assert time.monotonic() < end
            with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
                connection = stack.enter_context(socket.create_connection(place, LONG_S))
                ours = stack.enter_context(keys.client_context(key).wrap_socket(connection))
                ours.sendall(b"here")
                got = ours.recv(4)
    assert max(numbers) == 2


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_an_exit_is_reached_by_both_families(folder, key, server):
    listening = wire.listen(":0")
    port = listening.getsockname()[1]
    tunnel.open_exit(listening, server.server_address[1], key)
    for host in ("127.0.0.1", "[::1]"):
        tunnel.open_entrance(folder / host, f"{host}:{port}", key)
        with connect(folder / host) as connection:
            assert echoed(connection, b"here") == b"here"


def test_bad_keys_and_paths_are_refused_at_once(folder, key):
    (folder / "bad.pem").write_text("no key")
    with pytest.raises(OSError, match="bad.pem"):
        tunnel.open_entrance(folder / "in", "localhost:1", str(folder / "bad.pem"))
    with pytest.raises(OSError, match="nowhere"):
        tunnel.open_entrance(folder / "nowhere" / "in", "localhost:1", key)
