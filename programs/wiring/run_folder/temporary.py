"""A run's temporary files lie in a folder of its own, which the next start removes after a kill."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

FOLDER = "tmp"
ELSEWHERE = "elsewhere"  # A link to a temporary folder whose path within this one would be too long.
VARIABLE = "TMPDIR"  # Python and others read the folder from this variable, which processes inherit.


@contextlib.contextmanager
def kept_in(folder: pathlib.Path) -> Iterator[None]:
    """Keeps the temporary files of this process, and of those that it starts meanwhile, in a folder within the run's.

    Launchpad writes each group's nodes into such files; a process that is killed leaves its own behind. All are removed
    at the end, and at the next start if the launcher was killed.

    Args:
      folder: the run's folder, which no other process uses.
    """
    own = (folder / FOLDER).absolute()
    before = os.environ.get(VARIABLE)
    _remove(own)
    own.mkdir(mode=0o700)
    os.environ[VARIABLE], tempfile.tempdir = str(own), None
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
        tempfile.tempdir = None
        _end_multiprocessing(own)
        _remove(own)


@contextlib.contextmanager
def short(longest: int) -> Iterator[pathlib.Path]:
    """A temporary folder in the run's own, or in the machine's if the path of the run's has more than `longest` bytes.

    In the machine's, the run's folder has a link to it, by which the next start finds it if this process is killed.
    """
    usual = pathlib.Path(tempfile.gettempdir())
    fits = len(os.fsencode(usual)) <= longest
    with tempfile.TemporaryDirectory(
        prefix="boonta-", dir=usual if fits else "/tmp", ignore_cleanup_errors=True
    ) as own:
        if not fits and usual.name == FOLDER:
            (usual / ELSEWHERE).symlink_to(own)
        yield pathlib.Path(own)


def address_of(workdir: pathlib.Path, node: str) -> str:
    """The address of a node that serves, in a program that runs on this machine, for a `nodes.rpc.client.Client`.

    Args:
      workdir: the run's folder.
      node: the node's name, such as "variables".

    Raises:
      OSError: nothing runs there, or it has no such node that serves.
    """
    within = (workdir / FOLDER).absolute()
    found = [path for path in within.glob(f"*/{node.replace('/', '-')}") if path.is_socket()]
    if not found:
        raise OSError(f"{workdir} has no running node {node!r} that serves: start the run with local_mp or local_mt")
    return f"unix:{found[0].resolve()}"


def _end_multiprocessing(own: pathlib.Path) -> None:
    """Has multiprocessing remove its folder now, if it lies in a run's: it would miss it at the end, with a traceback.

    It makes one for the processes of environments (`envs.processes`), and has no public function that removes it. Its
    server of processes listens there; it ends, too, so that the next program of this process gets one that listens.
    """
    util: Any = sys.modules.get("multiprocessing.util")
    for finalizer in list(getattr(util, "_finalizer_registry", {}).values()):
        if getattr(finalizer, "_callback", None) is getattr(util, "_remove_temp_dir", util):
            _, folder = finalizer._args
            if own in pathlib.Path(folder).parents:
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
    """Removes a run's folder of temporary files, and the folder that it links to."""
    with contextlib.suppress(OSError):  # There is no link.
        shutil.rmtree(os.readlink(own / ELSEWHERE), ignore_errors=True)
    shutil.rmtree(own, ignore_errors=True)
