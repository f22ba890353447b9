"""A run's temporary files lie in a folder of its own, which the next start removes after a kill."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

FOLDER = "tmp"
PREFIX = "boonta-"
ELSEWHERE = "elsewhere"  # A link to the folder that is used where this one's path is too long.
MACHINES = pathlib.Path("/tmp")  # The place of such folders.
OWNER = "owner"  # The link in such a folder to the one that it is for: a copy of a run has the other link, too.
# Bytes of the path. Linux takes no path of a Unix socket above 107; the rest is for folders within, and for the
# names of nodes.
LONGEST = 48
VARIABLE = "TMPDIR"  # Python and others read the folder from this variable, which processes inherit.


@contextlib.contextmanager
def kept_in(folder: pathlib.Path) -> Iterator[None]:
    """Keeps the temporary files of this process, and of those that it starts meanwhile, in a folder within the run's.

    Launchpad writes each group's nodes into such files; a process that is killed leaves its own behind. All are removed
    at the end, and at the next start if the launcher was killed. Nodes and multiprocessing have sockets there; where
    the folder's path is too long for them, it has a link to one of the machine's.

    Args:
      folder: the run's folder, which no other process uses.

    Raises:
      OSError: what an earlier start has left can't be removed.
    """
    own = (folder / FOLDER).absolute()
    before = os.environ.get(VARIABLE)
    _remove(own)
    try:
        own.mkdir(mode=0o700)
    except FileExistsError as error:  # NFS keeps a file that is open: the next try may be after its process's end.
        why = "a process of an earlier start may still use it; end that, or remove the folder"
        raise OSError(f"{own} can't be removed: {why}") from error
    with contextlib.nullcontext(own) if len(os.fsencode(own)) <= LONGEST else _elsewhere(own) as place:
        os.environ[VARIABLE], tempfile.tempdir = str(place), None
        try:
            yield
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
            tempfile.tempdir = None
            _end_multiprocessing(place)
            _remove(own)


@contextlib.contextmanager
def _elsewhere(own: pathlib.Path) -> Iterator[pathlib.Path]:
    """One of the machine's folders for a run's temporary files, with links there and back.

    It is locked meanwhile: systemd removes files there that are days old, except in folders that somebody has locked.
    See "Using /tmp/ and /var/tmp/ Safely" (https://systemd.io/TEMPORARY_DIRECTORIES).
    """
    place = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=MACHINES))
    held = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        (place / OWNER).symlink_to(own)
        (own / ELSEWHERE).symlink_to(place)
        yield place
    finally:
        os.close(held)


@contextlib.contextmanager
def sockets() -> Iterator[pathlib.Path]:
    """A folder within the temporary one for the sockets of a program's nodes, where `address_of` finds them."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as folder:
        yield pathlib.Path(folder)


def address_of(workdir: pathlib.Path, node: str) -> str:
    """The address of a node that serves, in a program that runs on this machine, for a `nodes.rpc.client.Client`.

    Args:
      workdir: the run's folder.
      node: the node's name, such as "variables".

    Raises:
      OSError: nothing runs there, or it has no such node that serves.
    """
    within = (workdir / FOLDER).absolute()
    place = within / ELSEWHERE if (within / ELSEWHERE).exists() else within
    found = [path for path in place.glob(f"*/{node.replace('/', '-')}") if path.is_socket()]
    if not found:
        raise OSError(f"{workdir} has no running node {node!r} that serves: start the run with local_mp or local_mt")
    return f"unix:{found[0].resolve()}"


def _end_multiprocessing(place: pathlib.Path) -> None:
    """Has multiprocessing remove its folder now, if it lies in `place`: it would miss it at the end, with a traceback.

    It makes one for the processes of environments (`envs.processes`), and has no public function that removes it. Its
    server of processes listens there; it ends, too, so that the next program of this process gets one that listens.
    """
    util: Any = sys.modules.get("multiprocessing.util")
    for finalizer in list(getattr(util, "_finalizer_registry", {}).values()):
        if getattr(finalizer, "_callback", None) is getattr(util, "_remove_temp_dir", util):
            _, folder = finalizer._args
            if place in pathlib.Path(folder).parents:
                _end_server()
                finalizer()


def _end_server() -> None:
    """Ends multiprocessing's server of processes, if there is one."""
    server: Any = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    pid = getattr(server, "_forkserver_pid", None)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)  # It would wait for processes that hang, and `_stop` waits for it.
        server._stop()


def _remove(own: pathlib.Path) -> None:
    """Removes a run's folder of temporary files, and the folder that it links to, if that is its own."""
    with contextlib.suppress(OSError):  # There is no link, or no such folder.
        place = pathlib.Path(os.readlink(own / ELSEWHERE))
        if _is_elsewhere(place) and os.path.samefile(place / OWNER, own):
            shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(own, ignore_errors=True)


def _is_elsewhere(place: pathlib.Path) -> bool:
    """Whether a path is that of a folder as `kept_in` makes them, of this user: who sends a run may change its links.

    Raises:
      OSError: there is nothing.
    """
    found = place.lstat()
    named = place.parent == MACHINES and place.name.startswith(PREFIX)
    return named and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
