"""Reverb's C++ library, and what little is needed of its Python, without TensorFlow.

Importing Reverb imports TensorFlow, for its datasets and for the specs of tables: 300 MB and three seconds of processor
time in each process. The library itself, which is client and server, needs one small library of TensorFlow's, and
Reverb's messages are made of TensorFlow's.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any, NamedTuple

REVERB, TENSORFLOW = "reverb", "tensorflow"
LIBRARY = "reverb.libpybind"
TENSORFLOWS = "libtensorflow_framework.so.2"  # Reverb's library needs it, and would not find it by itself.


class Library(NamedTuple):
    """What is used of Reverb.

    Attributes:
      pybind: the C++ library.
      TrajectoryWriter: the class of a writer's stream.
      TableInfo: the message with a table's settings and counts.
      DeadlineExceeded: what a writer's stream raises.
    """

    pybind: Any
    TrajectoryWriter: Any
    TableInfo: Any
    DeadlineExceeded: type[Exception]


@functools.cache
def load() -> Library:
    """Loads the library.

    Both packages stand empty in `sys.modules` while some of their modules are loaded, and are then taken away again, so
    that whoever imports them later gets all of them; where one is there already, it stays. Where nodes are threads of
    one process, one thread loads first. This is of dm-reverb 0.7.1; one whose client and server can be imported without
    TensorFlow makes it needless.

    Raises:
      ImportError: Reverb or TensorFlow is not installed.
    """
    before = set(sys.modules)
    specs = [_installed(name) for name in (REVERB, TENSORFLOW)]
    ctypes.CDLL(os.path.join(os.path.dirname(specs[1].origin or ""), TENSORFLOWS))
    for spec in specs:
        if spec.name not in before:
            sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # It isn't executed.
    try:
        library = importlib.import_module(LIBRARY)
        if REVERB not in before:
            sys.modules[f"{REVERB}.pybind"] = library  # Its own module would import TensorFlow first.
            vars(sys.modules[REVERB])["pybind"] = library
        writers = importlib.import_module(f"{REVERB}.trajectory_writer")
        messages = importlib.import_module(f"{REVERB}.cc.schema_pb2")
        return Library(library, writers.TrajectoryWriter, messages.TableInfo, writers.errors.DeadlineExceededError)
    finally:
        for name in set(sys.modules) - before - {LIBRARY}:
            if name.partition(".")[0] in (REVERB, TENSORFLOW):
                del sys.modules[name]


def _installed(package: str) -> importlib.machinery.ModuleSpec:
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ImportError(f"a replay server and its clients need dm-reverb and TensorFlow, and {package} is missing")
    return spec
