"""The accelerators that Linux shows. JAX isn't asked: it would take them, and their memory, to look at them.

Whether JAX has taken them is asked here, too, of a private part of JAX's.
"""

from __future__ import annotations

import os
import sys

from boonta.programs.wiring.machine.files import ROOT, text_of  # Tests have another root.

VISIBLE = "CUDA_VISIBLE_DEVICES"  # The variable with the GPUs that CUDA shows to a process.
GOOGLE = "0x1ae0"  # Google's number on the PCI bus, where it has network cards, too.
# TPUs v2 and v3, v4, v5p, v5e, v6e and TPU7x, as JAX's `hardware_utils` has them, and one without a public name.
TPUS = ("0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076")


def gpus() -> list[str]:
    """The NVIDIA GPUs of this machine or container: their models, as far as the driver shows them."""
    models = []
    for path in sorted(ROOT.glob("proc/driver/nvidia/gpus/*/information")):
        models += [line.partition(":")[2].strip() for line in text_of(path).splitlines() if line.startswith("Model:")]
    nodes = [*ROOT.glob("dev/nvidia[0-9]*"), *ROOT.glob("dev/dxg")]  # The latter is that of WSL.
    return models or ["NVIDIA GPU"] * len(nodes)


def visible_gpus() -> tuple[str, ...]:
    """The names, as `CUDA_VISIBLE_DEVICES` has them, of the GPUs that this process may use."""
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return tuple(map(str, range(len(gpus()))))
    return tuple(name.strip() for name in visible.split(",") if name.strip() not in ("", "-1"))


def tpu_chips() -> int:
    """The number of TPU chips of this machine or container."""
    found = 0
    for path in ROOT.glob("sys/bus/pci/devices/*.0/vendor"):
        found += text_of(path).strip() == GOOGLE and text_of(path.with_name("device")).strip() in TPUS
    return found


def taken() -> bool:
    """Whether JAX has started its devices in this process.

    No JAX has a public name for it so far (0.12): `jax.extend.backend.backends()` starts them. One that has makes the
    private name needless.
    """
    if "jax" not in sys.modules:
        return False
    from jax._src.xla_bridge import backends_are_initialized

    return backends_are_initialized()
