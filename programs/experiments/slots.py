"""Slots: the parts of this machine that several runs use at once, which together are at most the whole machine."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from boonta.programs.wiring.machine import memory
from boonta.programs.wiring.machine.accelerators import VISIBLE, visible_gpus
from boonta.programs.wiring.run import BadInput


@dataclasses.dataclass(frozen=True)
class Slots:
    """The number of runs at once, and the resources of each.

    Attributes:
      number: runs at once; default: 1.
      cores: cores of each run; default: the machine's, divided.
      memory_gb: memory that each run needs, in GB of 10^9 bytes. It is declared, so that runs that the machine has no
        room for are refused; nothing limits a run to it.
      devices: GPUs of each run, which sees no others; 0 keeps a run on the CPU. Default: all, which works for one run
        at a time.
    """

    number: int | None = None
    cores: int | None = None
    memory_gb: float | None = None
    devices: int | None = None

    @property
    def at_once(self) -> int:
        """The number of runs at once."""
        return 1 if self.number is None else self.number


class Machine(NamedTuple):
    """The resources that slots divide.

    Attributes:
      cores: the cores that this process may use, by number.
      memory_gb: memory in GB of 10^9 bytes: the machine's, or less where a control group allows less.
      devices: the names of the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` has them.
    """

    cores: tuple[int, ...]
    memory_gb: float
    devices: tuple[str, ...]


class Slot(NamedTuple):
    """One place for a run.

    Attributes:
      number: its number.
      cores: the cores that the run's processes use.
      environment: environment variables of the run's processes.
    """

    number: int
    cores: tuple[int, ...]
    environment: Mapping[str, str]


def this_machine() -> Machine:
    """The resources that this process may use. It starts no device, which would take the device's memory."""
    room = memory.room()
    most_gb = math.inf if room is None else room.most / 1e9
    return Machine(tuple(sorted(os.sched_getaffinity(0))), most_gb, visible_gpus())


def require_sound(slots: Slots) -> None:
    """Raises BadInput for slots that no machine has."""
    for field, least in (("number", 1), ("cores", 1), ("devices", 0)):
        value = getattr(slots, field)
        if value is not None and value < least:
            raise BadInput(f"slots.{field} is {value}; it must be at least {least}")
    if slots.memory_gb is not None and not slots.memory_gb > 0:
        raise BadInput(f"slots.memory_gb is {slots.memory_gb}; it must be above 0")


def divide(slots: Slots, machine: Machine) -> list[Slot]:
    """The slots of a machine.

    Raises:
      BadInput: no machine has such slots, or together they ask for more than this one has.
    """
    require_sound(slots)
    number = slots.at_once
    _require_room("cores", slots.cores or 1, number, len(machine.cores), "the cores that this process may use")
    _require_room("memory_gb", slots.memory_gb or 0.0, number, machine.memory_gb, "the machine's memory in GB")
    _require_room("devices", slots.devices or 0, number, len(machine.devices), "its GPUs")
    if slots.devices is None and machine.devices and number > 1:
        raise BadInput(
            f"slots.number is {number}, and each run would take all GPUs of this machine, which has "
            f"{len(machine.devices)}: give slots.devices, 0 to keep runs on the CPU"
        )
    cores = slots.cores or len(machine.cores) // number
    return [
        Slot(i, machine.cores[i * cores : (i + 1) * cores], _environment(slots.devices, i, machine))
        for i in range(number)
    ]


def _require_room(field: str, each: float, number: int, there: float, of: str) -> None:
    if each * number > there:
        raise BadInput(
            f"slots.number is {number} and slots.{field} is {each:g}, together {each * number:g}; {of} are {there:g}"
        )


def _environment(devices: int | None, index: int, machine: Machine) -> dict[str, str]:
    if devices is None:
        return {}
    if devices == 0:
        return {"JAX_PLATFORMS": "cpu", VISIBLE: ""}
    return {VISIBLE: ",".join(machine.devices[index * devices : (index + 1) * devices])}


@contextlib.contextmanager
def on_cores(cores: tuple[int, ...]) -> Iterator[None]:
    """Runs this thread on these cores within the block; processes that it starts, and their threads, stay there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
