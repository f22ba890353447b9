"""How MuJoCo draws without a screen: by EGL, on a GPU or in software, or by OSMesa, in software.

See "MuJoCo documentation", "Python", "Rendering" (https://mujoco.readthedocs.io/en/stable/python.html).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
import warnings
from collections.abc import Callable

import numpy as np

VARIABLE = "MUJOCO_GL"  # What MuJoCo's packages read when they are first imported.
NONE = "off"  # The value with which they draw nothing.
WANTED = (
    "drawing needs EGL (Debian and Ubuntu: apt install libegl1 libgl1-mesa-dri) or OSMesa (apt install libosmesa6); "
    f"{VARIABLE}=egl or {VARIABLE}=osmesa chooses one of them"
)


def choose() -> str:
    """Chooses a renderer for this process and those it starts, before MuJoCo is imported; a choice already made stays.

    MuJoCo's packages would otherwise choose the screen, even where there is none. There, SDL, by which pygame draws,
    gets its driver without graphics: the one it prefers ends EGL for the whole process when a window closes (2.32).

    Returns:
      "egl", "osmesa" or "glfw" (the screen); "off" where this machine has none of them.
    """
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    return os.environ.setdefault(VARIABLE, _best())


def require() -> str:
    """Chooses a renderer, see `choose`.

    Raises:
      ValueError: there is none; the message says what to install.
    """
    chosen = choose()
    if chosen == NONE:
        raise ValueError(f"{VARIABLE} is {NONE!r}: {WANTED}")
    return chosen


def drawn(what: str, draw: Callable[[], np.ndarray]) -> np.ndarray | None:
    """The picture that MuJoCo draws for people; None, with a warning that says what it needs, where it can't.

    Args:
      what: the environment's name.
      draw: draws it.
    """
    try:
        require()
        return draw()
    except Exception as error:  # PyOpenGL and MuJoCo raise whatever they meet first.
        advice = "" if WANTED in str(error) else f"; {WANTED}, before MuJoCo is first imported"
        warnings.warn(f"{what} is not drawn: {type(error).__name__}: {error}{advice}", stacklevel=3)
        return None


@functools.cache
def _best() -> str:
    if _has_egl():
        return "egl"
    if ctypes.util.find_library("OSMesa"):
        return "osmesa"
    return "glfw" if os.environ.get("DISPLAY") else NONE


def _has_egl() -> bool:
    """Whether EGL has a device that can be used; its library alone draws nothing."""
    library = ctypes.util.find_library("EGL")
    if library is None:
        return False
    egl = ctypes.CDLL(library)
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    address = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    if not address:
        return False
    count = ctypes.c_int(0)
    query = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address)
    return bool(query(0, None, ctypes.addressof(count))) and count.value > 0
