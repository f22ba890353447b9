"""Snapshots whose tables lie in several parts: which parts there must be, and when all of it is whole."""

from __future__ import annotations

import pathlib

import pytest

from boonta.nodes.snapshots.newest import Newest
from boonta.nodes.snapshots.parts import divisions, name, parts_of
from boonta.nodes.snapshots.store import SnapshotFolder
from boonta.tests.helpers.damage import DAMAGES, delete

PARTS = ("0_of_2", "1_of_2")


def write(folder: pathlib.Path, number: int, beside: str = "") -> None:
    with SnapshotFolder(folder, "snapshot").writing(number, beside) as new:
        new.mkdir()
        (new / "array").write_text(f"the array of {number}")


def save(folder: pathlib.Path, number: int, parts=PARTS) -> None:
    write(folder / "checkpoints", number, "replay")
    for part in parts:
        write(folder / "replay" / part, number)


def newest_whole(folder: pathlib.Path) -> tuple[int | None, list[str]]:
    warnings: list[str] = []
    return SnapshotFolder(folder / "checkpoints", "checkpoint").newest_whole(warnings.append), warnings


def test_one_server_has_the_folder_itself_and_names_say_how_many_parts_there_must_be(tmp_path):
    assert name(0, 1) == "" and [name(i, 2) for i in range(2)] == list(PARTS)
    assert divisions(tmp_path) == [[tmp_path]] and parts_of(tmp_path, 7) == [tmp_path]
    (tmp_path / "2_of_3" / "7").mkdir(parents=True)
    for other in ("x_of_2", "1_of_1", "0_of_0", "0_of_99999999999"):
        (tmp_path / other).mkdir()
    three = [tmp_path / f"{i}_of_3" for i in range(3)]
    assert divisions(tmp_path) == [[tmp_path], three] and parts_of(tmp_path, 7) == parts_of(tmp_path, 8) == three


def test_the_parts_are_those_that_a_snapshot_was_saved_in(tmp_path):
    (tmp_path / "5").mkdir()
    (tmp_path / "1_of_2" / "7").mkdir(parents=True)
    assert parts_of(tmp_path, 5) == [tmp_path]
    assert parts_of(tmp_path, 7) == parts_of(tmp_path, 9) == [tmp_path / part for part in PARTS]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_snapshot_is_whole_only_if_all_parts_are_sound(tmp_path, damage, part):
    for number in (10, 20):
        save(tmp_path, number)
    assert newest_whole(tmp_path) == (20, [])
    damage(tmp_path / "replay" / part / "20" / "array")
    found, (warning,) = newest_whole(tmp_path)
    assert found == 10 and f"{tmp_path}/replay/{part}/20: array " in warning


def test_a_part_may_be_missing_only_where_none_of_its_snapshots_is_here(tmp_path):
    save(tmp_path, 10, PARTS[:1])
    assert newest_whole(tmp_path) == (10, [])  # The other is on another machine's disk.
    write(tmp_path / "replay" / PARTS[1], 5)
    save(tmp_path, 20)
    save(tmp_path, 30, PARTS[1:])
    found, (warning,) = newest_whole(tmp_path)
    assert found == 20 and f"replay/{PARTS[0]}/30: MANIFEST.json is missing" in warning


def test_a_run_may_go_on_with_another_number_of_servers(tmp_path):
    save(tmp_path, 10, [""])
    save(tmp_path, 20)
    assert newest_whole(tmp_path) == (20, [])
    delete(tmp_path / "checkpoints" / "20" / "array")
    assert newest_whole(tmp_path)[0] == 10


def test_the_display_counts_all_parts(tmp_path):
    save(tmp_path, 10)
    newest = Newest(tmp_path)
    newest.look()
    assert newest.snapshot is not None and newest.snapshot["number"] == 10
    files = [*tmp_path.rglob("array")]
    assert len(files) == 3 and newest.snapshot["mb"] == pytest.approx(sum(f.stat().st_size for f in files) / 1e6)
    write(tmp_path / "checkpoints", 20, "replay")
    write(tmp_path / "replay" / PARTS[0], 20)
    newest = Newest(tmp_path)
    newest.look()
    assert newest.snapshot is not None and newest.snapshot["number"] == 10
