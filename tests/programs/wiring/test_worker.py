"""What a node's server offers to whoever calls it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from boonta.nodes.inference import Inference
from boonta.nodes.monitor import Monitor, StopRule
from boonta.nodes.variables import VariableServer

pytestmark = pytest.mark.cluster
CALLS = """
import courier
from boonta.nodes.variables import VariableServer
from boonta.programs.wiring import worker
from launchpad.nodes.courier import courier_utils
server = courier_utils.make_courier_server(worker.serve(VariableServer, name="variables"), "variables")
server.Start()
client = courier.Client(f"localhost:{server.port}", call_timeout=10)
client.put(3, b"params")
assert client.get(-1) == (3, b"params")
for method in ("run", "stop", "fail", "count", "heartbeat", "wait_for"):
    try:
        getattr(client, method)()
    except Exception as error:
        assert "not found" in str(error).lower(), error
    else:
        raise AssertionError(f"{method} was served")
server.Stop()
"""


def test_a_node_serves_what_it_lists_and_no_more():
    subprocess.run([sys.executable, "-c", CALLS], check=True, timeout=120)


@pytest.mark.parametrize("kind", [Monitor, VariableServer, Inference])
def test_what_a_class_lists_is_there(kind):
    assert kind.served and all(callable(getattr(kind, name)) for name in kind.served)


def test_a_service_runs_its_node(tmp_path):
    from boonta.programs.wiring import worker

    service = worker.serve(Monitor, name="monitor", folder=str(tmp_path), stop=StopRule())
    assert set(dir(service)) == set(Monitor.served) and service.status == service.node.status
    with pytest.raises(AttributeError, match="monitor doesn't serve 'close'"):
        service.close()
    service.node.stop = lambda: None
    assert callable(service.run)
