"""Snapshots of two parts: a learner's checkpoint, and tables beside it."""

from __future__ import annotations

import pathlib

import pytest

from boonta.nodes.snapshots import files, manifest, store
from boonta.nodes.snapshots.store import Retention, SnapshotFolder, numbers
from boonta.tests.helpers.damage import DAMAGES, delete, flip, truncate

CHECKPOINTS, TABLES = "checkpoints", "replay"


def part(folder: pathlib.Path, name: str, keep: int = 3) -> SnapshotFolder:
    return SnapshotFolder(folder / name, name, Retention(keep))


def write(target: SnapshotFolder, *written: int, content: str = "", **settings) -> None:
    if target.folder.name == CHECKPOINTS:
        settings = {"beside": TABLES, **settings}
    for number in written:
        with target.writing(number, **settings) as new:
            new.mkdir(parents=True)
            (new / "array").write_text(content or f"the array of {number}")


def both(folder: pathlib.Path, *written: int) -> None:
    for name in (CHECKPOINTS, TABLES):
        write(part(folder, name), *written)


def found(folder: pathlib.Path) -> tuple[int | None, list[str]]:
    warnings: list[str] = []
    return part(folder, CHECKPOINTS).newest_whole(warnings.append), warnings


@pytest.mark.parametrize("name", [CHECKPOINTS, TABLES])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_whichever_file_of_either_part_is_damaged_the_one_before_is_used(tmp_path, damage, name):
    both(tmp_path, 10, 20, 30)
    assert found(tmp_path) == (30, [])
    files = [path for path in (tmp_path / name / "30").rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        content = path.read_bytes()
        damage(path)
        number, (warning,) = found(tmp_path)
        assert number == 20 and path.name in warning and f"{tmp_path / name / '30'}: " in warning
        path.write_bytes(content)
    assert found(tmp_path) == (30, [])


def test_the_other_part_may_be_missing(tmp_path):
    both(tmp_path, 10, 20)
    write(part(tmp_path, CHECKPOINTS), 30)
    number, (warning,) = found(tmp_path)
    assert number == 20 and "replay/30: MANIFEST.json is missing" in warning


def test_of_large_tables_only_the_sizes_are_compared_and_the_checkpoint_is_read(tmp_path, monkeypatch):
    both(tmp_path, 10, 20)
    monkeypatch.setattr(store, "SMALL", 4)
    read: list[pathlib.Path] = []
    digest = files.sha256
    monkeypatch.setattr(files, "sha256", lambda path: read.append(path) or digest(path))
    assert found(tmp_path) == (20, []) and read == [tmp_path / CHECKPOINTS / "20" / "array"]
    flip(tmp_path / TABLES / "20" / "array")  # Their own server reads them, and finds it.
    assert found(tmp_path) == (20, [])
    truncate(tmp_path / TABLES / "20" / "array")
    number, (warning,) = found(tmp_path)
    assert number == 10 and "replay/20: array has " in warning
    flip(tmp_path / CHECKPOINTS / "10" / "array")
    assert found(tmp_path)[0] == 20  # It is the only sound one, and used alone.


def test_if_none_of_the_newest_is_whole_the_newest_is_used_alone_with_a_word(tmp_path):
    both(tmp_path, 10)
    write(part(tmp_path, CHECKPOINTS, keep=5), 20, 30, 40)
    number, (warning,) = found(tmp_path)
    assert number == 40 and "checkpoints 40 is used alone, since none of the newest is whole" in warning
    flip(tmp_path / CHECKPOINTS / "40" / "array")
    assert found(tmp_path)[0] == 30


def test_where_none_is_sound_it_is_said(tmp_path):
    both(tmp_path, 10, 20)
    for number in (10, 20):
        delete(tmp_path / CHECKPOINTS / str(number) / "array")
    with pytest.raises(manifest.Unsound, match="no checkpoints in .* is sound: .*20.*10: array is missing"):
        found(tmp_path)


def test_a_part_that_is_elsewhere_or_was_never_to_be_is_not_missed(tmp_path):
    write(part(tmp_path, CHECKPOINTS), 10)
    (tmp_path / TABLES / "reverb").mkdir(parents=True)
    assert found(tmp_path) == (10, [])
    write(part(tmp_path, TABLES), 10)
    write(part(tmp_path, CHECKPOINTS), 20, beside="")  # By a program that keeps its table in memory.
    assert found(tmp_path) == (20, [])
    assert part(tmp_path, CHECKPOINTS).newest_whole() == 20


def test_a_part_from_which_nobody_went_on_is_removed_or_replaced(tmp_path):
    both(tmp_path, 10, 20, 30)
    flip(tmp_path / TABLES / "30" / "array")
    for next_number in (25, 35):
        checkpoints = part(tmp_path, CHECKPOINTS)
        assert checkpoints.newest_whole(lambda warning: None) == 20
        write(checkpoints, next_number)
        assert numbers(tmp_path / CHECKPOINTS) == [10, 20, next_number]
        write(part(tmp_path, CHECKPOINTS), 10)
        both(tmp_path, 20, 30)
        flip(tmp_path / TABLES / "30" / "array")
    checkpoints = part(tmp_path, CHECKPOINTS)
    assert checkpoints.newest_whole(lambda warning: None) == 20
    write(checkpoints, 30, content="another")
    assert (tmp_path / CHECKPOINTS / "30" / "array").read_text() == "another"


def test_what_was_given_up_is_removed_with_the_next(tmp_path):
    tables = part(tmp_path, TABLES)
    write(tables, 10, 20, 30)
    tables.give_up_above(10)
    write(tables, 40)
    assert numbers(tmp_path / TABLES) == [10, 40]


def test_a_sound_one_may_be_replaced(tmp_path):
    tables = part(tmp_path, TABLES)
    write(tables, 10)
    write(tables, 10, content="later", replaces=True)
    assert (tmp_path / TABLES / "10" / "array").read_text() == "later" and tables.newest() == 10
