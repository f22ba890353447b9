from __future__ import annotations

import functools
import os
import pathlib
import shutil
import types

import pytest

from boonta.nodes.snapshots import files, manifest
from boonta.nodes.snapshots.store import Retention, SnapshotFolder, numbers
from boonta.tests.helpers.damage import flip

SHA256 = "0" * 64
sealed = files.sealed


def store(folder: pathlib.Path, keep: int = 3) -> SnapshotFolder:
    return SnapshotFolder(folder, "snapshot", Retention(keep))


def write(target: SnapshotFolder, number: int, content: str = "") -> None:
    with target.writing(number) as folder:
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "array").write_text(content or f"the array of {number}")
        (folder / "empty").touch()


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_few_stay_and_nothing_else(tmp_path):
    for number in (1, 9, 10, 11):
        write(store(tmp_path), number)
    assert names(tmp_path) == ["10", "11", "9"]
    assert store(tmp_path).newest() == 11


def write_at(monkeypatch, target: SnapshotFolder, *hours: float) -> None:
    """Writes snapshots with the numbers from 1 at these times."""
    for number, at in enumerate(hours, 1):
        monkeypatch.setattr(manifest, "time", types.SimpleNamespace(time=lambda at=at: 1e9 + 3_600 * at))
        write(target, number)


def test_one_of_every_few_hours_stays_for_good(tmp_path, monkeypatch):
    target = SnapshotFolder(tmp_path, "snapshot", Retention(newest=1, every_h=2.0))
    write_at(monkeypatch, target, 0.0, 1.0, 1.9, 2.0, 3.9, 4.1, 5.0, 6.0)
    assert numbers(tmp_path) == [1, 4, 6, 8]
    assert target.newest() == 8


def test_what_stays_for_good_stays_in_a_copy_of_the_folder_too(tmp_path, monkeypatch):
    """A copy's files may all be of the same time, as after `scp -r` or from a bucket."""
    retention = Retention(newest=1, every_h=2.0)
    write_at(monkeypatch, SnapshotFolder(tmp_path / "first", "snapshot", retention), *map(float, range(8)))
    shutil.copytree(tmp_path / "first", tmp_path / "copy", copy_function=shutil.copyfile)
    write(SnapshotFolder(tmp_path / "copy", "snapshot", retention), 9)
    assert numbers(tmp_path / "copy") == [1, 3, 5, 7, 9]


def test_there_may_be_none(tmp_path):
    assert store(tmp_path / "nowhere").newest() is None
    assert not (tmp_path / "nowhere").exists()


def test_newest_is_by_number_whatever_the_clock_says(tmp_path):
    """The clock was set back by an hour after the first was written, and forward by a year before the last."""
    for number, hours in ((1, 1), (2, 0), (3, 9_000)):
        write(store(tmp_path), number)
        for path in (tmp_path / str(number)).rglob("*"):
            os.utime(path, (1e9 + 3600 * hours,) * 2)
    os.utime(tmp_path / "1", (2e9, 2e9))
    assert store(tmp_path).newest() == 3
    write(store(tmp_path), 4)
    assert numbers(tmp_path) == [2, 3, 4]


def test_one_that_fails_leaves_no_trace_and_those_before(tmp_path):
    write(store(tmp_path), 1)
    with pytest.raises(OSError, match="no space"), store(tmp_path).writing(2) as folder:
        folder.mkdir()
        (folder / "half").write_text("half")
        raise OSError("no space")
    assert names(tmp_path) == ["1"]


def test_what_a_kill_left_behind_is_no_snapshot_and_goes_with_the_next(tmp_path):
    write(store(tmp_path), 1)
    shutil.copytree(tmp_path / "1", tmp_path / "unfinished" / "new")
    assert store(tmp_path).newest() == 1
    write(store(tmp_path), 2)
    assert names(tmp_path) == ["1", "2"]


def test_a_damaged_one_does_not_count_as_one_of_those_that_stay(tmp_path):
    for number in (1, 2, 3):
        write(store(tmp_path), number)
    flip(tmp_path / "3" / "inner" / "array")
    resumed = store(tmp_path)
    assert resumed.newest(lambda warning: None) == 2
    write(resumed, 4)
    assert names(tmp_path) == ["1", "2", "4"]


def test_one_from_which_nobody_resumed_goes_when_a_lower_number_is_written(tmp_path):
    for number in (10, 20):
        write(store(tmp_path), number)
    write(store(tmp_path), 15)
    assert names(tmp_path) == ["10", "15"]


def test_a_sound_one_is_not_written_twice_and_a_damaged_one_is_replaced(tmp_path):
    write(store(tmp_path), 1, "first")
    write(store(tmp_path), 1, "second")
    assert (tmp_path / "1" / "inner" / "array").read_text() == "first"
    flip(tmp_path / "1" / "inner" / "array")
    write(store(tmp_path), 1, "third")
    assert (tmp_path / "1" / "inner" / "array").read_text() == "third"
    assert store(tmp_path).newest() == 1 and names(tmp_path) == ["1"]


def test_without_room_for_another_nothing_is_written(tmp_path, monkeypatch):
    write(store(tmp_path), 1, "x" * 3_000_000)
    room = shutil.disk_usage(tmp_path)._replace(free=2_900_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: room)
    with pytest.raises(OSError, match=r"has 2.9 MB free, and the last snapshot took 3.0 MB"):
        write(store(tmp_path), 2)
    assert names(tmp_path) == ["1"]


def test_there_must_be_room_for_the_first_one_too(tmp_path, monkeypatch):
    room = shutil.disk_usage(tmp_path)._replace(free=2_900_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: room)
    full = pytest.raises(OSError, match=r"has 2.9 MB free, and this snapshot may take 3.0 MB")
    with full, store(tmp_path).writing(1, expected=3_000_000) as folder:
        folder.mkdir()
    assert names(tmp_path) == []


def test_a_size_that_no_disk_has_is_no_reason_not_to_write(tmp_path, monkeypatch):
    write(store(tmp_path), 1)
    manifest_file = tmp_path / "1" / manifest.NAME
    manifest_file.write_bytes(
        files.sealed({"number": 1, "files": {"empty": [10**400, SHA256]}, "beside": "", "finished": 1.0})
    )
    room = shutil.disk_usage(tmp_path)._replace(free=1)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: room)
    write(store(tmp_path), 2)
    assert store(tmp_path).newest() == 2


def test_what_a_kill_left_behind_does_not_take_the_room(tmp_path, monkeypatch):
    write(store(tmp_path), 1)
    shutil.copytree(tmp_path / "1", tmp_path / "unfinished" / "new")
    usage = shutil.disk_usage

    def room(folder):
        return usage(folder)._replace(free=0 if (tmp_path / "unfinished").exists() else 1_000)

    monkeypatch.setattr(shutil, "disk_usage", room)
    write(store(tmp_path), 2)
    assert store(tmp_path).newest() == 2


def test_all_is_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    """Files, then their folders, then the rename, then the folder that has it."""
    order: list[str] = []
    fsync, rename = os.fsync, pathlib.Path.rename

    def note_fsync(handle: int) -> None:
        order.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    def note_rename(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
        order.append(f"{path.name} -> {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(pathlib.Path, "rename", note_rename)
    write(store(tmp_path), 7)
    assert order == ["empty", "array", "MANIFEST.json.new", "new", "inner", "new -> 7", tmp_path.name]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"\xff",
        b"[" * 100_000,
        b'{"number": 1, "files": {}}',
        {"number": 2, "files": {}},
        {"number": 1, "files": []},
        {"number": "1", "files": {}},
        {"number": 1, "files": {"../../secret": [1, SHA256]}},
        {"number": 1, "files": {"/etc/hostname": [1, SHA256]}},
        {"number": 1, "files": {"empty": [0]}},
        {"number": 1, "files": {"empty": ["0", SHA256]}},
        {"number": 1, "files": {"\ud800": [0, SHA256]}},
        {"number": 1, "files": {"inner": [0, SHA256]}},
        {"number": 1, "files": {"empty": [0, "0"]}},
        {"number": 1, "files": {"empty": [-1, SHA256]}},
        {"number": 1, "files": {"empty": [10**400, SHA256]}},
        {"number": 1, "files": {"x" * 5_000: [0, SHA256]}},
        {"number": 1, "files": {}, "beside": "../../elsewhere"},
        {"number": 1, "files": {}, "beside": "x" * 5_000},
        {"number": 1, "files": {}, "beside": 1},
        {"number": 1, "files": {}, "finished": "today"},
    ],
)
def test_a_strange_manifest_is_refused_even_with_the_right_digest(tmp_path, content):
    write(store(tmp_path), 1)
    if isinstance(content, dict):
        content = files.sealed({"beside": "", "finished": 1.0, **content})
    (tmp_path / "1" / manifest.NAME).write_bytes(content)
    with pytest.raises(manifest.Unsound, match="no snapshot in .* is sound"):
        store(tmp_path).newest()


def test_a_link_or_a_pipe_in_the_place_of_a_file_is_refused(tmp_path):
    write(store(tmp_path), 1)
    for name, fault in (("empty", "empty is not a file"), (manifest.NAME, f"{manifest.NAME} is damaged")):
        target = tmp_path / "1" / name
        for replace in (functools.partial(target.symlink_to, "/dev/null"), functools.partial(os.mkfifo, target)):
            target.unlink()
            replace()
            with pytest.raises(manifest.Unsound, match=fault):
                store(tmp_path).newest()
        target.unlink()
        shutil.rmtree(tmp_path / "1")
        write(store(tmp_path), 1)
