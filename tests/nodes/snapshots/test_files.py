"""Files that are written whole, and what is said of disks that have no room for them; none is really full here."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest

from boonta.nodes import metrics
from boonta.nodes.base import Node
from boonta.nodes.snapshots import files, manifest
from boonta.nodes.snapshots.store import SnapshotFolder, numbers

DEVICE = pathlib.Path("/dev/full")  # Linux has it for tests: each write finds no room.
FULL = r"its disk is full, [\d.,]+ MB of [\d.,]+ MB are free: "


def fails(number: int):
    def fail(*given: object, **settings: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_file_that_finds_no_room_is_named_and_is_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    files.write_whole(path, b"old")
    monkeypatch.setattr(os, "fsync", fails(errno.ENOSPC))
    with pytest.raises(OSError, match=rf"{path} can't be written: {FULL}.*No space left on device; make room there"):
        files.write_whole(path, b"new")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["config.json"]


def test_what_fails_for_another_reason_is_told_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fails(errno.EIO))
    with pytest.raises(OSError, match="Input/output error") as raised:
        files.write_whole(tmp_path / "config.json", b"new")
    assert raised.value.errno == errno.EIO and files.FULL not in str(raised.value)


@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "state"),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        ValueError("RESOURCE_EXHAUSTED: Error writing:\n[OS error 28: ENOSPC No space left on device] [source …"),
        RuntimeError("INTERNAL: IOError: No space left on device"),
    ],
    ids=["the file system", "a quota", "tensorstore", "Reverb"],
)
def test_a_snapshot_that_finds_no_room_says_so_whoever_writes_it(tmp_path, failure):
    store = SnapshotFolder(tmp_path, "snapshot")
    with store.writing(1) as folder:
        folder.mkdir()
    full = pytest.raises(OSError, match=f"^{FULL}[^\n]*$")
    with full, store.writing(2) as folder:
        folder.mkdir()
        raise failure
    assert numbers(tmp_path) == [1]
    with pytest.raises(RuntimeError, match="^another$"), store.writing(2):
        raise RuntimeError("another")


def test_a_manifest_that_finds_no_room_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fails(errno.ENOSPC))
    full = pytest.raises(OSError, match=manifest.NAME)
    with full as raised, SnapshotFolder(tmp_path, "snapshot").writing(1) as folder:
        folder.mkdir()
    assert str(raised.value).count(files.FULL) == 1


def test_rows_without_room_wait_and_in_the_end_it_is_said_which_file_loses_how_much():
    warnings: list[str] = []
    rows = metrics.Appended(DEVICE, warnings.append)
    rows.append(b"12345")
    rows.append(b"678")
    kept = "; what belongs there is kept until it can"
    assert len(warnings) == 2
    for warning in warnings:
        assert warning.startswith(f"{DEVICE} can't be written: {files.FULL}, ") and warning.endswith(kept)
    with pytest.raises(OSError, match=rf"^{DEVICE} can't be written: {FULL}.*; the last 8 bytes that belong there"):
        rows.close()


def test_a_write_of_ones_own_that_finds_no_room_is_told_as_a_full_disk():
    node = Node("logger")
    node.fail(OSError(errno.ENOSPC, "No space left on device"))
    assert node.own_failure == (
        "logger failed while stepping: OSError: [Errno 28] No space left on device: its disk is full"
    )
