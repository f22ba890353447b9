"""How hosts meet and part: what is refused, who waits for whom, and what of JAX's errors is shown."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import threading
import types
from concurrent import futures

import jax
import pytest

from boonta.nodes.base import Node
from boonta.nodes.hosts import coordination
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.learners import Phase, SeveralLearners
from boonta.tests.helpers.apart import free_ports
from boonta.tests.helpers.deadline import DEADLINE_S

LEAVING = pathlib.Path(__file__).parents[2] / "helpers" / "leaving.py"


class Store:
    """The coordinator's store, without one; it tells who waits for which key, and counts who has come to JAX's end."""

    def __init__(self):
        self._posted: dict[str, futures.Future[str]] = {}
        self._lock = threading.Lock()
        self.awaited: list[str] = []
        self.waits = threading.Event()  # Whether somebody has come to wait for what nobody has posted.
        self.shut = 0

    def _of(self, key: str) -> futures.Future[str]:
        with self._lock:
            return self._posted.setdefault(key, futures.Future())

    def post(self, key: str, value: str) -> None:
        self._of(key).set_result(value)

    def read(self, key: str, host: int, deadline_s: float) -> str:
        self.awaited.append(key)
        if not self._of(key).done():
            self.waits.set()
        return self._of(key).result(DEADLINE_S)

    def shutdown(self) -> None:
        self.shut += 1


@pytest.fixture
def store(monkeypatch):
    found, met = Store(), threading.Event()
    met.set()
    met.clear = lambda: None  # All hosts are in this process.
    monkeypatch.setattr(coordination, "_met", met)
    monkeypatch.setattr(coordination, "post", found.post)
    monkeypatch.setattr(coordination, "_read", found.read)
    monkeypatch.setattr(coordination, "EXIT_S", 0.0)
    monkeypatch.setattr(coordination, "FAIL_S", DEADLINE_S)
    monkeypatch.setattr(jax.distributed, "shutdown", found.shutdown)
    return found


def test_hosts_that_have_agreed_to_end_part_once_all_have_done_their_work(store):
    """The first one still saves when the other is done, whatever their exit codes."""
    first, second = Hosts("here:1", 2, 0), Hosts("here:1", 2, 1)
    with futures.ThreadPoolExecutor(1) as pool:
        leaving = pool.submit(second.leave, True)
        assert store.waits.wait(DEADLINE_S) and not store.shut and not leaving.done()
        first.leave(True)
        leaving.result(DEADLINE_S)
    assert store.shut == 2


def test_a_host_that_failed_by_itself_goes_at_once_and_none_meets_it_again(store):
    first, second = Hosts("here:1", 2, 0), Hosts("here:1", 2, 1)
    second.leave(False)
    assert store.awaited == []
    first.leave(True)
    assert store.awaited == ["ended/0", "ended/1"] and not store.shut


def test_the_first_host_gives_the_others_time_to_print_why_they_end(store):
    first, second = Hosts("here:1", 2, 0), Hosts("here:1", 2, 1)
    with futures.ThreadPoolExecutor(1) as pool:
        leaving = pool.submit(first.leave, False)
        assert store.waits.wait(DEADLINE_S) and not leaving.done()
        second.leave(False)
        leaving.result(DEADLINE_S)
    assert not store.shut


def test_a_host_that_has_met_nobody_leaves_at_once(monkeypatch):
    monkeypatch.setattr(coordination, "post", lambda key, value: pytest.fail("JAX kills one that asks"))
    for agreed in (True, False):
        Hosts("here:1", 2, 0).leave(agreed)


def test_hosts_part_only_once(monkeypatch):
    """A program's nodes part before trackers end, and its process tries again."""
    monkeypatch.setattr(coordination, "_met", threading.Event())
    coordination._met.set()
    posts: list[str] = []
    monkeypatch.setattr(coordination, "post", lambda key, value: posts.append(key))
    for _ in range(2):
        Hosts("here:1", 2, 1).leave(False)
    assert posts == ["ended/1"]


@pytest.mark.parametrize(("failed", "knows", "agreed"), [
    (False, False, True), (False, True, True), (True, True, True), (True, False, False),
])  # fmt: skip
def test_learners_that_end_together_part_together_even_if_one_cannot_save(monkeypatch, failed, knows, agreed):
    one, node = SeveralLearners(Hosts("here:1", 2, 0)), Node("learner/0")
    one._learner, one._phase, one._part.agreed = node, Phase.JOINED, knows
    left: list[tuple[bool, str]] = []
    monkeypatch.setattr(Hosts, "leave", lambda self, agreed: left.append((agreed, node.stopwatch.longest()[0])))
    one.leave(failed)
    assert left == [(agreed, "waiting for the other learners")]


def test_a_learner_that_was_asked_before_it_met_the_others_waits_for_none(monkeypatch):
    monkeypatch.setattr(Hosts, "leave", lambda self, agreed: pytest.fail("it has met nobody"))
    one = SeveralLearners(Hosts("here:1", 2, 0))
    one._learner = Node("learner/0")
    one.leave(failed=False)


@pytest.mark.once
def test_no_host_is_killed_while_the_first_one_saves_for_longer_than_jax_does_without_the_others(tmp_path):
    place = f"127.0.0.1:{free_ports(1)}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    saves_s = 1.5 * coordination.SILENT_S
    words = [sys.executable, LEAVING, place, tmp_path, saves_s]
    processes = [subprocess.Popen([*map(str, words), str(i)], env=environment) for i in range(2)]
    try:
        assert [process.wait(DEADLINE_S) for process in processes] == [3, 143]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize("on", ["127.0.0.1", ""])
def test_a_coordinators_port_that_is_in_use_is_named(tmp_path, on):
    with socket.create_server((on, 0)) as taken:
        port = taken.getsockname()[1]
        place = f"{on or 'here'}:{port}"
        with pytest.raises(OSError, match=rf"^port {port} for hosts.coordinator {place} is in use$"):
            Hosts(place, 2, 0, reach_s=1.0).join("", str(tmp_path))


def test_a_coordinators_ipv6_address_is_reached_without_its_brackets(monkeypatch):
    asked: list[object] = []
    connection = types.SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(socket, "create_connection", lambda place, timeout: asked.append(place) or connection)
    Hosts("[::1]:20000", 2, 1)._await_coordinator()
    assert asked == [("::1", 20000)]


def test_what_keeps_jax_from_meeting_is_not_taken_for_hosts_that_do_not_come(monkeypatch):
    def fail(hosts: Hosts) -> None:
        raise futures.TimeoutError("a lookup of the name timed out")

    monkeypatch.setattr(coordination, "_initialize", fail)
    with pytest.raises(futures.TimeoutError, match="a lookup of the name timed out"):
        Hosts("here:1", 2, 0)._meet()
    assert not coordination._met.is_set()


@pytest.mark.parametrize(("error", "message"), [
    ("DEADLINE_EXCEEDED: no key", "host 1 has not posted mark within 7 s: DEADLINE_EXCEEDED: no key"),
    ("UNAVAILABLE: socket closed", "host 1 has not posted mark: UNAVAILABLE: socket closed"),
])  # fmt: skip
def test_a_value_that_does_not_come_is_late_only_if_time_has_passed(monkeypatch, error, message):
    def get(key: str, timeout_ms: int) -> str:
        raise RuntimeError(error)

    state = types.SimpleNamespace(client=types.SimpleNamespace(blocking_key_value_get=get))
    monkeypatch.setattr(coordination.distributed, "global_state", state)
    with pytest.raises(OSError) as raised:
        coordination._read("mark", 1, 7.0)
    assert str(raised.value) == message
