"""What a node's server offers to whoever calls it."""

from __future__ import annotations

import concurrent.futures
import functools
import tempfile
import time

import pytest

from boonta.nodes.inference import Inference
from boonta.nodes.metrics import process_age
from boonta.nodes.monitor import Monitor
from boonta.nodes.variables import VariableServer
from boonta.nodes.watch.stopping import StopRule

pytestmark = pytest.mark.cluster


class Address:
    """An address as Launchpad binds it."""

    def __init__(self, folder: str):
        self._address = f"unix:{folder}/server"

    def resolve(self) -> str:
        return self._address


@pytest.mark.parametrize("kind", [Monitor, VariableServer, Inference])
def test_what_a_class_lists_is_there(kind):
    assert kind.served and all(callable(getattr(kind, name)) for name in kind.served)


def test_a_node_with_a_process_of_its_own_was_launched_when_that_began(tmp_path):
    from boonta.programs.wiring.interpreters import worker

    age, now = process_age(), time.monotonic()
    make = functools.partial(worker.construct, Monitor, 300.0, name="monitor", folder=str(tmp_path), stop=StopRule())
    assert make().launched_at < now - age + 1.0 < now
    with concurrent.futures.ThreadPoolExecutor() as threads:
        assert threads.submit(make).result().launched_at >= now


def test_a_node_serves_what_it_lists_and_no_more_while_it_runs(tmp_path):
    from boonta.nodes.rpc.errors import DeadlineExceeded, Failed
    from boonta.programs.wiring.interpreters import worker

    seen = []

    class Called(Monitor):
        def run(self) -> None:
            client = worker.ServiceHandle(address, 60.0, None).dereference()
            seen.append(client.status()["reason"])
            for method in ("run", "stop", "fail", "count", "heartbeat", "wait_for", "close", "__init__", "name"):
                with pytest.raises(Failed, match="AttributeError: there is no"):
                    client._call(method)
            seen.append("called")

    with tempfile.TemporaryDirectory(prefix="boonta-") as folder:
        address = Address(folder)
        arguments = {"name": "monitor", "folder": str(tmp_path), "stop": StopRule()}
        service = worker.serve(Called, 300.0, address, None, arguments)
        client = worker.ServiceHandle(address, 0.2, None).dereference()
        with pytest.raises(DeadlineExceeded):
            client.status()
        service.run()
        with pytest.raises(DeadlineExceeded):
            client.status()
    assert seen == ["", "called"]
