"""What JAX has compiled is kept in the run's folder: a node that starts again, or a resumed run, needn't compile it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
import zlib
from collections.abc import Iterator

import jax
from jax.experimental.compilation_cache import compilation_cache

FOLDER = "compiled"
MOST_BYTES = 2**30  # Bytes of entries that a run keeps from one start to the next.
WRITING_S = 60.0  # Age of an entry from which it counts as written: another process may be about to finish it.
ZLIB = b"\x78"  # The first byte of what JAX compresses with zlib, as it does where zstandard isn't installed.
VARIABLE = "JAX_COMPILATION_CACHE_DIR"  # JAX reads the folder from this variable, which processes inherit.


@contextlib.contextmanager
def kept_in(folder: pathlib.Path, claimed: bool) -> Iterator[None]:
    """Keeps what this process compiles, and those that it starts meanwhile, in a folder within the run's.

    JAX finds an entry by a hash of the program, the version of XLA and its flags, and of the devices with what the CPU
    can do. So on another machine, or after an upgrade, the entries that don't fit are left aside, until newer ones need
    their room. Users' own cache is left as it is, and so is a folder that can't be written.

    Args:
      folder: the run's folder.
      claimed: whether this process has claimed the folder: it alone tidies, since many share the entries.
    """
    own = (folder / FOLDER).absolute()
    used = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if VARIABLE in os.environ or used or not _made(own):
        yield
        return
    if claimed:
        tidy(own)
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


def tidy(own: pathlib.Path) -> None:
    """Deletes entries that a kill has cut off, which JAX can't read and never replaces, and the oldest beyond the most.

    JAX would keep to a size by itself, by the last use. But it needs another package for that, and writes no entry any
    more once a kill has come between its two files of one. Entries of the last minute stay: processes that share the
    folder may be writing them.
    """
    found: list[tuple[float, int, pathlib.Path]] = []
    for entry in own.glob("*-cache"):
        with contextlib.suppress(OSError):  # Another user of the folder may have deleted it.
            found.append((entry.stat().st_mtime, entry.stat().st_size, entry))
    room, settled = MOST_BYTES, time.time() - WRITING_S
    for changed_at, size, entry in sorted(found, reverse=True):
        room -= size
        with contextlib.suppress(OSError):
            if changed_at < settled and (room < 0 or _is_cut_off(entry.read_bytes())):
                entry.unlink()


def _is_cut_off(entry: bytes) -> bool:
    """Whether an entry lacks its end; one that isn't of zlib's form counts as whole."""
    if entry and not entry.startswith(ZLIB):
        return False
    try:
        zlib.decompress(entry)
    except zlib.error:
        return True
    return False


def _use(folder: str | None) -> None:
    """Tells JAX, which has read the variable already, and keeps to the folder that it used first."""
    compilation_cache.reset_cache()
    jax.config.update("jax_compilation_cache_dir", folder)
