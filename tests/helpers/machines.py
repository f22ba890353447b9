"""Machines of a few files: those by which Linux shows accelerators."""

from __future__ import annotations

import pathlib

TPU_V5E, GOOGLES_NETWORK_CARD = "0x0063", "0x0042"


def add_gpus(machine: pathlib.Path, *models: str) -> None:
    """Adds NVIDIA GPUs of these models, whose driver is loaded."""
    for i, model in enumerate(models):
        folder = machine / "proc" / "driver" / "nvidia" / "gpus" / f"0000:0{i}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 24\n")


def add_tpus(machine: pathlib.Path, chips: int) -> None:
    """Adds TPU chips."""
    for i in range(chips):
        add_pci(machine, f"0000:00:0{4 + i}.0", TPU_V5E)


def add_pci(machine: pathlib.Path, slot: str, device: str) -> None:
    """Adds a PCI device of Google's."""
    folder = machine / "sys" / "bus" / "pci" / "devices" / slot
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x1ae0\n")
    (folder / "device").write_text(f"{device}\n")
