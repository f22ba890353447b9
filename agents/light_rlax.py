"""Imports rlax without distrax, which is loaded only once something of it is used.

rlax needs distrax for annotations, and for a few functions, most of which it has deprecated. Distrax brings TensorFlow
Probability: 60 MB and half a second of processor time or more in every process, and TensorFlow where it is installed.
An rlax without distrax makes this module needless.
"""

import importlib
import sys
import types
from typing import Any

TENSORFLOW = "tensorflow"


def import_distrax() -> Any:
    """Imports distrax without TensorFlow, which it doesn't need, even if that is loaded already.

    TensorFlow Probability 0.25 asks for TensorFlow 2.18, and dm-reverb 0.7.1 and dm-launchpad 0.5.0 need 2.8. It fails
    to load beside an older one, but works without one, and doesn't look again.
    """
    tensorflow = sys.modules.get(TENSORFLOW)
    sys.modules[TENSORFLOW] = None  # type: ignore[assignment]  # This makes an import of it fail.
    try:
        return importlib.import_module("distrax")
    finally:
        del sys.modules[TENSORFLOW]
        if tensorflow is not None:
            sys.modules[TENSORFLOW] = tensorflow


if "rlax" not in sys.modules and "distrax" not in sys.modules:
    _standing_in: Any = types.ModuleType("distrax")
    _standing_in.__getattr__ = lambda name: Any  # Annotations are all that is looked up meanwhile.
    sys.modules["distrax"] = _standing_in
    try:
        importlib.import_module("rlax")
    finally:
        del sys.modules["distrax"]
    _standing_in.__getattr__ = lambda name: getattr(import_distrax(), name)

import rlax as rlax  # noqa: E402
