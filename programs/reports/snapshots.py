"""What is said of a run's snapshots: which are sound, and from which the run would go on."""

from __future__ import annotations

import datetime
import pathlib
import time

from boonta.nodes.snapshots import manifest, store
from boonta.nodes.snapshots.manifest import Unsound
from boonta.nodes.snapshots.parts import divisions
from boonta.nodes.snapshots.store import CHECKPOINTS, KEEP, LEARNERS, TABLES, Retention, SnapshotFolder, numbers
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.programs.wiring.run_folder.state import last_row

BEST = f"{CHECKPOINTS}/{store.BEST}"


def snapshots_of(workdir: pathlib.Path) -> list[str]:
    """Lines about the snapshots in a run's folder, and about those from which it would go on."""
    names = [name for name in (*LEARNERS, BEST) if (workdir / name).is_dir()]
    listed = [_snapshots(workdir, name) for name in (*names, *_tables(workdir))]
    updates = last_row(workdir).get("updates")
    kept = Retention(read_config(workdir).run.get("keep_newest", KEEP.newest))
    goes_on = [_goes_on_from(workdir / name, kept, updates) for name in LEARNERS if (workdir / name).is_dir()]
    return [line for part in (*listed, *goes_on) for line in part.splitlines()]


def _tables(workdir: pathlib.Path) -> list[str]:
    """The folders of the tables that hold snapshots, or should; that of a single replay server where none does."""
    if not (workdir / TABLES).is_dir():
        return []
    one, *several = divisions(workdir / TABLES)
    parts = [*(one if numbers(one[0]) or not several else []), *(part for parts in several for part in parts)]
    return [str(part.relative_to(workdir)) for part in parts]


def _snapshots(workdir: pathlib.Path, name: str) -> str:
    """Lines about the snapshots in a folder of a run."""
    folder = workdir / name
    lines = [f"{name}:"]
    for number in numbers(folder):
        path = folder / str(number)
        try:
            manifest.verify(path, number)
            state = "sound"
        except Unsound as error:
            state = f"not sound: {error}"
        lines.append(f"  {number:>12d}  {_written(path)}  {manifest.size(path) / 1e6:,.1f} MB  {state}")
    return "\n".join(lines)


def _goes_on_from(folder: pathlib.Path, kept: Retention, reached: float | None) -> str:
    """Lines about the snapshot in a folder from which the run would go on, and why that isn't the newest one."""
    why: list[str] = []
    try:
        number = SnapshotFolder(folder, "checkpoint", kept).newest_whole(why.append)
    except Unsound:
        return f"no snapshot in {folder.name} is sound"
    if number is None:
        return f"there is no snapshot in {folder.name}"
    lost = "" if reached is None else f", {max(0, reached - number):,.0f} updates before the last row of metrics"
    return "\n".join([f"it would go on from {folder.name}/{number}{lost}", *(f"  {each}" for each in why)])


def _written(path: pathlib.Path) -> str:
    """The time at which a snapshot was finished, and its age."""
    at = manifest.written_at(path)
    if at is None:
        return "never finished"
    age = datetime.timedelta(seconds=round(time.time() - at))
    return f"{datetime.datetime.fromtimestamp(at).isoformat(' ', 'seconds')} ({age} ago)"
