"""A run's folder: private to its user, and claimed by one process at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import stat
import time
from typing import IO, Any

import pydantic

from boonta.nodes.snapshots import schema
from boonta.nodes.snapshots.files import write_json, write_whole
from boonta.nodes.snapshots.store import LEARNERS, glance, has_snapshots, numbers, one_of
from boonta.nodes.watch.program_end import END_S, SAVING_S
from boonta.programs.wiring.command_line import faults
from boonta.programs.wiring.run import BadInput, Run, checkpoints_of, named, require_there
from boonta.programs.wiring.run_folder import journal, naming
from boonta.programs.wiring.run_folder.config_file import (
    Config,
    Origin,
    agent_of,
    config_of,
    require_same_run,
    without_value,
)
from boonta.programs.wiring.run_folder.journal import LOG
from boonta.programs.wiring.run_folder.recorded import by_flag, plain
from boonta.programs.wiring.run_folder.state import NODES
from boonta.programs.wiring.supervision import dependent

_COUNTS = pydantic.TypeAdapter(dict[str, schema.Number])
LOOK_S = 0.5  # Time after which a lock isn't that of a tool's look.
ENDING_S = END_S + SAVING_S  # Time that nodes have to end whose launcher is gone: the same as with one.
POLL_S = 0.1
OTHERS = stat.S_IRWXG | stat.S_IRWXO  # The rights of all but the owner.


def claim_workdir(name: str, run: Run, settings: dict[str, Any], origin: Origin) -> IO[str]:
    """Claims the run's folder for this process, and checks that a run found there is this one.

    Args:
      name: the program's name.
      run, settings: the parsed arguments.
      origin: where the run comes from.

    Returns:
      The open lock file; closing it gives the folder up.

    Raises:
      BadInput: the folder can't be written, another process uses it, or it holds an archive, a sweep, another run or a
        damaged one, or one without a sound checkpoint; or there is nothing sound to start from.
    """
    _require_start(run)
    folder = pathlib.Path(run.workdir)
    _require_own(folder)
    held = lock(folder)
    resolved = {"program": name, "agent": agent_of(settings), "seed": run.seed, "settings": by_flag(settings)}
    before = config_of(folder)
    if before is not None and (old := require_same_run(name, run, settings)) is not None:
        _require_sound(run)
        _warn_of_changes(old, origin)
        write_whole(folder / f"config-until-{naming.now()}.json", before.read_bytes())
        with journal.kept_in(folder):  # From here on the end of the start before says nothing of what is asked for now.
            LOG.debug("claimed again, by process %d", os.getpid())
    public = dataclasses.replace(run, process_env=tuple(map(without_value, run.process_env)))
    config = {**resolved, **dataclasses.asdict(origin), "run": plain(dataclasses.asdict(public))}
    write_json(folder / schema.CONFIG, config)
    return held


def _require_start(run: Run) -> None:
    """Raises BadInput if the run would start from another's checkpoint, and there is no sound one, or nothing to do.

    A run with checkpoints of its own goes on from those, though the other run's folder may be gone by then.
    """
    if run.start_folder is None or has_snapshots(run.common_workdir):
        return
    start_folder = pathlib.Path(run.start_folder)
    try:
        require_there(start_folder, run.start_which)
    except BadInput as error:
        raise BadInput(f"--start-from {run.start_from}: {error}") from None
    number, fault = glance(start_folder)
    if number is None:
        sound, why = ("sound ", f": {fault}") if fault else ("", f", in {start_folder}")
        none = "" if pathlib.Path(run.start_from).is_dir() else ": there is no such folder"
        raise BadInput(f"--start-from {run.start_from} has no {sound}{named(run.start_which)}{why}{none}")
    if reached := run.stop.reached(_counts(one_of(start_folder)[0], number)):
        raise BadInput(f"--start-from {run.start_from} would end at once, since its counters go on: {reached}")


def _require_own(folder: pathlib.Path) -> None:
    """Raises BadInput if the folder is an archive's or a sweep's: a new run's files would lie among theirs."""
    from boonta.nodes.archive.index import INDEX  # It loads JAX, which those who only look into a folder need not.

    if config_of(folder) is not None:
        return
    for owner, file in (("an archive", INDEX), ("a sweep", schema.SWEEP)):
        if (folder / file).exists():
            raise BadInput(f"--workdir {folder} is the folder of {owner}, as its {file} shows: choose another one")


def _require_sound(run: Run) -> None:
    """Raises BadInput if none of the checkpoints is sound of those from which the run would go on."""
    workdir = pathlib.Path(run.workdir)
    folder = _goes_on_from(workdir)
    _, fault = glance(folder)
    if fault:
        best, _ = glance(checkpoints_of(workdir, "best"))
        start = f", where --start-from {workdir} --start-which best goes on from the best one"
        other = f"choose another --workdir{'' if best is None else start}"
        raise BadInput(f"none of the checkpoints in {folder} is sound: {fault}; {other}")


def counts_of(run: Run) -> dict[str, float]:
    """The counters from which a run goes on: those of its newest snapshot; none without one that can be read."""
    folder = _goes_on_from(pathlib.Path(run.workdir))
    number, _ = glance(folder)
    return _counts(folder, number)


def _counts(folder: pathlib.Path, number: int | None) -> dict[str, float]:
    """The counters of one of a folder's snapshots; none if they can't be read."""
    try:
        return schema.load(_COUNTS, schema.read(folder / str(number) / "counts" / "metadata"))
    except (OSError, ValueError):
        return {}


def _goes_on_from(workdir: pathlib.Path) -> pathlib.Path:
    """The folder of the snapshots from which a run would go on: that of its members, if it is a population."""
    learner, population = (workdir / name for name in LEARNERS)
    return population if numbers(population) else learner


def _warn_of_changes(old: Config, origin: Origin) -> None:
    """Warns if a file isn't what it was that may define a network, a loss or an environment: nothing else shows it.

    Such files are the program's, its network's, its environment's, and, of a sweep's population, that of its members'
    program.
    """
    before, now = old.provenance, origin.provenance
    if before is None or now is None:
        return
    files = {
        old.file: (before.program, now.program),
        "the file of its network": (before.network, now.network),
        "the file of its environment": (before.env, now.env),
    }
    if old.inner and origin.inner:
        files[old.inner.file] = old.inner.source, origin.inner.source
    changed = [file for file, (was, is_now) in files.items() if was and is_now and was.digest != is_now.digest]
    if changed:
        LOG.warning(
            "%s has changed since this run began: if its network, loss or environment has, choose another --workdir",
            " and ".join(changed),
        )


def lock(folder: pathlib.Path) -> IO[str]:
    """Locks a run's folder against other processes while the returned file is open, and makes it private.

    Where a launcher was killed, this waits until its nodes have ended, at most `ENDING_S`: they are saving.

    Raises:
      BadInput: the folder can't be written or locked, or another process uses it.
      OSError: it can't be had for what may pass, such as a full disk, or a node that hangs.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        held = open(folder / ".lock", "w")  # noqa: SIM115  # The caller closes it.
    except OSError as error:  # Where parents are made, nothing can be missing but what their file system refuses.
        why = "no folder can be made there" if isinstance(error, FileNotFoundError) else error.strerror
        kind = BadInput if faults.code_of(error) == 2 else OSError
        raise kind(f"--workdir {folder} can't be written: {why}") from error
    try:
        _flock(held)
    except BlockingIOError as error:
        held.close()
        raise BadInput(f"--workdir {folder} is in use by another process") from error
    except OSError as error:
        held.close()
        raise BadInput(
            f"--workdir {folder} can't be locked: {error.strerror}; choose a folder on a file system that has locks"
        ) from error
    _make_private(folder)
    if (pid := _late_node(folder)) is not None:
        held.close()
        raise OSError(
            f"--workdir {folder} is in use by another process, {pid}: it is a node whose launcher was killed, and has "
            f"not ended within {ENDING_S:g} s. If it hangs, kill it"
        )
    return held


def _flock(held: IO[str]) -> None:
    """Takes the lock. Tools that look whether a run is going hold it for a moment, so it is tried for a while.

    Raises:
      BlockingIOError: another process keeps it.
    """
    end = time.monotonic() + LOOK_S
    while True:
        try:
            return fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK_S / 20)


def _late_node(folder: pathlib.Path) -> int | None:
    """Waits until the nodes have ended whose launcher was killed; returns the process of one that is late, or None."""
    end, told = time.monotonic() + ENDING_S, False
    while (pid := dependent.holder(folder / NODES)) is not None and time.monotonic() < end:
        if not told:
            LOG.info("waiting for process %d, a node of %s whose launcher was killed, to end", pid, folder)
        told = True
        time.sleep(POLL_S)
    return pid


def _make_private(folder: pathlib.Path) -> None:
    """Takes an older folder's rights from other users, or warns: tools run the file that `config.json` names."""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        LOG.warning("--workdir %s is user %d's, who can change what is run from it", folder, found.st_uid)
    elif found.st_mode & OTHERS:
        with contextlib.suppress(OSError):  # Some file systems have one mode for all.
            folder.chmod(found.st_mode & ~OTHERS & 0o7777)
        told = "is private to you from now on" if not folder.stat().st_mode & OTHERS else "stays so"
        LOG.warning("--workdir %s was open to other users (%o): it %s", folder, found.st_mode & 0o777, told)
