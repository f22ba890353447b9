"""Slots: what each run gets of a machine, and what it has no room for."""

from __future__ import annotations

import os

import pytest

from boonta.programs.experiments.slots import Machine, Slots, divide, on_cores, this_machine
from boonta.programs.wiring.machine import memory
from boonta.programs.wiring.run import BadInput

MACHINE = Machine(cores=(0, 1, 4, 5), memory_gb=16.0, devices=("2", "GPU-x"))


def test_cores_and_devices_are_dealt_out():
    slots = divide(Slots(number=2, cores=2, memory_gb=8, devices=1), MACHINE)
    assert [slot.cores for slot in slots] == [(0, 1), (4, 5)]
    assert [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in slots] == ["2", "GPU-x"]


def test_one_run_gets_all_there_is():
    (slot,) = divide(Slots(), MACHINE)
    assert slot.cores == MACHINE.cores and slot.environment == {}


def test_cores_are_divided_where_none_are_asked_for():
    slots = divide(Slots(number=3, devices=0), MACHINE)
    assert [slot.cores for slot in slots] == [(0,), (1,), (4,)]
    assert slots[0].environment["JAX_PLATFORMS"] == "cpu"


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        (Slots(number=5, devices=0), "slots.number is 5 and slots.cores is 1, together 5; the cores .* are 4"),
        (Slots(number=2, cores=3), "slots.cores is 3, together 6"),
        (
            Slots(number=2, memory_gb=9, devices=0),
            "slots.memory_gb is 9, together 18; the machine's memory in GB are 16",
        ),
        (Slots(number=1, devices=3), "slots.devices is 3, together 3; its GPUs are 2"),
        (Slots(number=2), "each run would take all GPUs of this machine, which has 2: give slots.devices"),
        (Slots(number=0), "slots.number is 0; it must be at least 1"),
        (Slots(cores=0), "slots.cores is 0; it must be at least 1"),
        (Slots(devices=-1), "slots.devices is -1; it must be at least 0"),
        (Slots(memory_gb=0), "slots.memory_gb is 0; it must be above 0"),
    ],
)
def test_slots_larger_than_the_machine_are_refused(slots, message):
    with pytest.raises(BadInput, match=message):
        divide(slots, MACHINE)


def test_this_machines_devices_are_those_that_this_process_sees(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 3")
    assert this_machine().devices == ("1", "3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert this_machine().devices == ()


def test_this_machines_memory_is_what_a_control_group_leaves(monkeypatch):
    monkeypatch.setattr(memory, "room", lambda: memory.Room(total=64 * 10**9, free=10**9, limit=8 * 10**9))
    assert this_machine().memory_gb == 8


def test_a_process_stays_on_its_slots_cores():
    before = os.sched_getaffinity(0)
    core = min(before)
    with on_cores((core,)):
        assert os.sched_getaffinity(0) == {core}
    assert os.sched_getaffinity(0) == before
