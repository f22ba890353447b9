"""What JAX has compiled is kept in the run's folder: a node that starts again, or a resumed run, needn't compile it."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator

import jax
from jax.experimental.compilation_cache import compilation_cache

FOLDER = "compiled"
VARIABLE = "JAX_COMPILATION_CACHE_DIR"  # JAX reads the folder from this variable, which processes inherit.


@contextlib.contextmanager
def kept_in(folder: pathlib.Path) -> Iterator[None]:
    """Keeps what this process compiles, and those that it starts meanwhile, in a folder within the run's.

    JAX finds an entry by a hash of the program, the version of XLA and its flags, and of the devices with what the CPU
    can do. So on another machine, or after an upgrade, the entries that don't fit are left aside. Users' own cache is
    left as it is, and so is a folder that can't be written.

    Args:
      folder: the run's folder.
    """
    own = (folder / FOLDER).absolute()
    used = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if VARIABLE in os.environ or used or not _made(own):
        yield
        return
    os.environ[VARIABLE] = str(own)
    _use(str(own))
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        _use(None)


def _made(own: pathlib.Path) -> bool:
    """Makes the folder, which its user alone may write: JAX executes what lies in it."""
    try:
        for each in (own.parent, own):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(own, os.W_OK)


def _use(folder: str | None) -> None:
    """Tells JAX, which has read the variable already, and keeps to the folder that it used first."""
    compilation_cache.reset_cache()
    jax.config.update("jax_compilation_cache_dir", folder)
