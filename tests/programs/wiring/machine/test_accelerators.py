"""Accelerators that are found as Linux shows them, on machines of a few files."""

from __future__ import annotations

import pytest

from boonta.programs.experiments import slots
from boonta.programs.wiring.machine import accelerators
from boonta.tests.helpers import machines


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerators, "ROOT", tmp_path)
    return tmp_path


def test_a_machine_without_any(machine):
    machines.add_pci(machine, "0000:00:04.0", machines.GOOGLES_NETWORK_CARD)
    assert accelerators.gpus() == [] and accelerators.tpu_chips() == 0


def test_gpus_are_named_by_their_driver(machine, monkeypatch):
    machines.add_gpus(machine, "NVIDIA L4", "NVIDIA L4")
    assert accelerators.gpus() == ["NVIDIA L4", "NVIDIA L4"]
    monkeypatch.delenv(slots.VISIBLE, raising=False)
    assert slots.this_machine().devices == ("0", "1")


@pytest.mark.parametrize("node", ["nvidia0", "dxg"])
def test_gpus_without_a_name_count(machine, node):
    (machine / "dev").mkdir()
    (machine / "dev" / node).touch()
    (machine / "dev" / "nvidiactl").touch()
    assert accelerators.gpus() == ["NVIDIA GPU"]


def test_chips_are_counted(machine):
    machines.add_tpus(machine, 4)
    (machine / "sys" / "bus" / "pci" / "devices" / "0000:00:05.0" / "device").unlink()
    assert accelerators.tpu_chips() == 3
