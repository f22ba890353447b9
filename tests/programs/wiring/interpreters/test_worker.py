"""What a node's server offers to whoever calls it."""

from __future__ import annotations

import concurrent.futures
import functools
import tempfile
import time
import types

import pytest

from boonta.envs.catch import Catch
from boonta.nodes.hosts import coordination
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.inference import Inference
from boonta.nodes.learner import Learner
from boonta.nodes.monitor import Monitor
from boonta.nodes.rpc.client import Client
from boonta.nodes.variables import VariableServer
from boonta.nodes.watch.stopping import StopRule
from boonta.nodes.watch.stopwatch import process_age
from boonta.programs.wiring.supervision import stacks
from boonta.tests.helpers import tiny
from boonta.tests.helpers.batches import Batches
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("kind", [Monitor, VariableServer, Inference])
def test_what_a_class_lists_is_there(kind):
    assert kind.methods and all(callable(getattr(kind, name)) for name in kind.methods)


def test_a_node_with_a_process_of_its_own_was_launched_when_that_began(tmp_path):
    from boonta.programs.wiring.interpreters import worker

    age, now = process_age(), time.monotonic()
    make = functools.partial(worker.construct, Monitor, 300.0, name="monitor", folder=str(tmp_path), stop=StopRule())
    assert make().launched_at < now - age + 1.0 < now
    with concurrent.futures.ThreadPoolExecutor() as threads:
        assert threads.submit(make).result().launched_at >= now


def test_a_node_starts_where_there_is_no_place_for_its_stacks(tmp_path, monkeypatch):
    from boonta.programs.wiring.interpreters import worker

    monkeypatch.setenv(stacks.VARIABLE, str(tmp_path / "removed"))
    assert worker.construct(Monitor, 300.0, name="monitor", folder=str(tmp_path), stop=StopRule()).name == "monitor"


def test_a_node_serves_what_it_lists_and_no_more_while_it_runs(tmp_path):
    import launchpad as lp

    from boonta.nodes.rpc.errors import DeadlineExceeded, Failed
    from boonta.programs.wiring.interpreters import worker

    seen = []

    class Called(Monitor):
        def run(self) -> None:
            client = Client(address.resolve(), 60.0)
            seen.append(client.status()["reason"])
            for method in ("run", "stop", "fail", "count", "heartbeat", "wait_for", "close", "__init__", "name"):
                with pytest.raises(Failed, match="AttributeError: there is no"):
                    client._call(method)
            seen.append("called")

    with tempfile.TemporaryDirectory(prefix="boonta-") as folder:
        address = lp.Address("rpc")
        address.bind(worker.Fixed(f"unix:{folder}/server"))
        arguments = {"name": "monitor", "folder": str(tmp_path), "stop": StopRule()}
        service = worker.serve(Called, 300.0, address, None, arguments)
        client = worker.Handle(address, functools.partial(Client, deadline_s=0.2)).dereference()
        with pytest.raises(DeadlineExceeded):
            client.status()
        service.run()
        with pytest.raises(DeadlineExceeded):
            client.status()
    assert seen == ["", "called"]


class Published(VariableServer):
    """Remembers each publication."""

    def __init__(self):
        super().__init__("variables")
        self.versions: list[int] = []

    def put(self, version: int, packed: bytes) -> None:
        super().put(version, packed)
        self.versions.append(version)


def test_of_several_learners_only_the_first_publishes(tmp_path, monkeypatch):
    """Both start here, which publishes the first params; every later publication goes the same way."""
    from boonta.nodes.tables.reverb.store import ReverbStore
    from boonta.programs.wiring.interpreters import worker

    monkeypatch.setattr(Hosts, "join", lambda self, built_from, folder: None)
    monkeypatch.setattr(coordination, "post", lambda key, value: None)
    monkeypatch.setattr(ReverbStore, "open_dataset", lambda self, *given: Batches(*given))
    agent, published = tiny.make(Catch().spec), Published()
    given = {"agent": agent, "spec": Catch().spec, "variables": published, "folder": str(tmp_path), "devices": 1}
    for i, versions in ((1, []), (0, [0])):
        handles = {"replay": ReverbStore([]), "monitor": types.SimpleNamespace(report_end=None)}
        meeting = worker.Meeting("here:1", 2, i)
        made = worker.construct(Learner, 300.0, name=f"learner/{i}", agreement=meeting, **handles, **given)
        made.monitor = None  # It has none that answers.
        made.start()
        made._finished.result(DEADLINE_S)
        made._stop.set()
        assert published.versions == versions
