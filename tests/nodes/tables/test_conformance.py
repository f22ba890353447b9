"""Every store here keeps the table's contract."""

from __future__ import annotations

import pytest

from boonta.agents.base import Table
from boonta.tests.helpers import store_conformance
from boonta.tests.helpers.store_judge import SIGNATURE, ConformanceError, Opened
from boonta.tests.helpers.stores import Beside, DeviceStore, device, host, host_on_device, queue


@pytest.fixture
def reverb(tmp_path):
    """Makes stores on Reverb servers."""
    pytest.importorskip("reverb")
    from boonta.nodes.tables.reverb.server import Server, make_table
    from boonta.nodes.tables.reverb.store import ReverbStore
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    def make(table: Table) -> Opened:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        servers = []

        def serve() -> ReverbStore:
            servers.append(Server([make_table(table, SIGNATURE)], folder=folder))
            return ReverbStore([servers[-1].client()], lambda: SIGNATURE)

        def restart() -> ReverbStore:
            servers[-1].client().checkpoint()
            servers[-1].stop()
            return serve()

        return Opened(serve(), lambda: servers[-1].stop(), ReverbWriter.flush, restart)

    return make


@pytest.mark.once
def test_the_queue_in_this_process_passes():
    store_conformance.check(queue, "queue")


@pytest.mark.once
@pytest.mark.parametrize("make", [host, pytest.param(host_on_device, marks=pytest.mark.unoptimised)])
def test_the_replay_in_this_process_passes(make):
    store_conformance.check(make, samplers=("uniform", "proportional", "rank"))


@pytest.mark.once
@pytest.mark.parametrize("first", [True, False])
def test_each_of_several_tables_in_this_process_passes(first):
    store_conformance.check(lambda table: Opened(Beside(table, first)), samplers=("proportional",))


@pytest.mark.once
@pytest.mark.unoptimised
def test_the_replay_on_the_device_passes():
    store_conformance.check(device, samplers=("uniform", "proportional"), in_rounds=True)


@pytest.mark.once
def test_rounds_of_another_ratio_are_found():
    def make(table: Table) -> Opened:
        store = DeviceStore(table)
        store._round = (1, 2)
        return Opened(store)

    with pytest.raises(ConformanceError, match="what is owed is drawn, and at most a batch more"):
        store_conformance.check_ratio(make, in_rounds=True)


@pytest.mark.cluster
def test_reverbs_queue_passes(reverb):
    store_conformance.check(reverb, "queue")


@pytest.mark.cluster
def test_reverbs_replay_passes(reverb):
    store_conformance.check(reverb, samplers=("uniform", "proportional", "rank"))
