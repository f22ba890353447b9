"""Archives: what is written comes back, and what can't be learned from is refused with a message."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib

import jax
import ml_dtypes
import numpy as np
import pyarrow.parquet as pq
import pytest

from boonta.agents.base import Steps
from boonta.envs.base import MID
from boonta.envs.catch import Catch
from boonta.nodes.archive import files as archive
from boonta.nodes.archive import index as archive_index
from boonta.nodes.archive import parquet
from boonta.tests.helpers import nim
from boonta.tests.helpers.archives import SIGNATURE, Extras, make, signature, trajectory


def require_equal(one: Steps, other: Steps) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for path, leaf in archive_index.leaves(one).items():
        np.testing.assert_array_equal(leaf, archive_index.leaves(other)[path], path)
        assert leaf.dtype == archive_index.leaves(other)[path].dtype


def flip(path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("env", [Catch(), nim.Nim()], ids=["one array", "a named tuple of float32, bool and int32"])
def test_what_is_written_comes_back_in_order_whatever_the_lengths(tmp_path, env):
    written = [trajectory(i, length, env) for i, length in enumerate((4, 9, 2, 5))]
    writer = archive.ArchiveWriter(tmp_path, env, chunk_steps=10)
    for steps in written:
        writer.add(steps)
    index = writer.close()
    assert [(chunk.steps, chunk.trajectories) for chunk in index.chunks] == [(13, 2), (7, 2)]
    assert (index.steps, index.trajectories, index.episodes) == (20, 4, 4)
    opened = archive.open_archive(tmp_path, env, signature(written[0]))
    assert opened.index == index
    for steps, expected in zip(archive.read(opened), written, strict=True):
        require_equal(steps, expected)
        assert isinstance(steps.extras, Extras)


def test_only_the_leaves_that_are_needed_are_read(tmp_path):
    make(tmp_path)
    opened = archive.open_archive(tmp_path, Catch(), SIGNATURE._replace(extras=()))
    require_equal(next(archive.read(opened)), trajectory(0)._replace(extras=()))


def test_with_a_seed_trajectories_come_endlessly_each_once_a_round_in_an_order_it_decides(tmp_path):
    make(tmp_path)
    opened = archive.open_archive(tmp_path, Catch(), SIGNATURE)

    def order(seed):
        return [int(steps.version[0]) for steps in itertools.islice(archive.read(opened, seed), 18)]

    rounds = [tuple(order(0)[start : start + 6]) for start in (0, 6, 12)]
    assert all(sorted(numbers) == list(range(6)) for numbers in rounds)
    assert len(set(rounds)) > 1 and order(0) == order(0) != order(1)
    assert len({numbers[0] // 2 for numbers in rounds}) > 1  # Chunks of two come in another order,
    assert any(numbers.index(1) < numbers.index(0) for numbers in rounds)  # and so do the two of one.


def test_the_index_counts_complete_episodes_and_their_returns(tmp_path):
    writer = archive.ArchiveWriter(tmp_path, Catch())
    for steps in (trajectory(0), trajectory(1), trajectory(5), trajectory(100, first=MID), trajectory(100, last=MID)):
        writer.add(steps)
    index = writer.close()
    assert (index.trajectories, index.episodes, index.mean_return) == (5, 3, (6 + 9 + 21) / 3)


def test_of_two_players_the_return_is_the_first_ones():
    steps = trajectory(0, env=nim.Nim())
    player = np.array([0, 1, 0, 1], np.int32)
    steps = steps._replace(observation=steps.observation._replace(player=player))
    assert archive.episode_return(steps, nim.Nim().spec) == 1 - 2 + 3


def test_a_chunk_is_plain_parquet_compressed_with_its_shapes_told(tmp_path):
    index = make(tmp_path)
    path = tmp_path / index.chunks[0].file
    file = pq.ParquetFile(path)
    assert file.schema_arrow.names == ["trajectory", *index.columns]
    assert {file.metadata.row_group(0).column(i).compression for i in range(len(index.columns))} == {"ZSTD"}
    field = file.schema_arrow.field("observation")
    assert field.metadata == {b"dtype": b"float32", b"shape": b"[10, 5]"}
    table = file.read().to_pydict()
    assert table["trajectory"] == [0] * 4 + [1] * 4 and table["reward"] == [0, 1, 2, 3, 1, 2, 3, 4]
    board = np.frombuffer(table["observation"][5], "<f4").reshape(10, 5)
    np.testing.assert_array_equal(board, trajectory(1).observation[1])


def test_a_flipped_byte_is_found_wherever_it_is_and_the_chunk_named(tmp_path):
    index = make(tmp_path)
    path = tmp_path / index.chunks[1].file
    content = path.read_bytes()
    for position in (0, 10, len(content) // 4, len(content) // 2, len(content) - 200, len(content) - 1):
        flip(path, position)
        with pytest.raises(ValueError, match=f"chunk .*{path.name} is broken"):
            archive.open_archive(tmp_path, Catch(), SIGNATURE)
        path.write_bytes(content)
    archive.open_archive(tmp_path, Catch(), SIGNATURE)


def test_other_readers_find_broken_data_by_parquets_own_checksums(tmp_path):
    index = make(tmp_path)
    path = tmp_path / index.chunks[0].file
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    flip(path, start + column.total_compressed_size - 3)
    with pytest.raises(OSError, match="CRC checksum"):
        pq.read_table(path, page_checksum_verification=True)


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_broken_chunks_are_left_out_by_choice_and_never_silently(tmp_path, damage):
    index = make(tmp_path)
    path = tmp_path / index.chunks[1].file
    if damage == "flip":
        flip(path, 100)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        path.unlink()
    with pytest.raises(ValueError, match=f"chunk .*{path.name}"):
        archive.open_archive(tmp_path, Catch(), SIGNATURE)
    with pytest.warns(UserWarning, match=f"1 of 3 chunks, with 8 of 24 steps, are left out: chunk .*{path.name}"):
        opened = archive.open_archive(tmp_path, Catch(), SIGNATURE, skip_broken=True)
    assert [int(steps.version[0]) for steps in archive.read(opened)] == [0, 1, 4, 5]


def test_a_chunk_that_breaks_while_it_is_read_is_named(tmp_path):
    index = make(tmp_path)
    opened = archive.open_archive(tmp_path, Catch(), SIGNATURE)
    flip(tmp_path / index.chunks[1].file, 100)
    with pytest.raises(ValueError, match="chunk-00001.parquet is broken"):
        list(archive.read(opened))


def test_folders_that_are_no_archives(tmp_path):
    with pytest.raises(ValueError, match="missing is not a folder"):
        archive.open_archive(tmp_path / "missing", Catch(), SIGNATURE)
    with pytest.raises(ValueError, match="is empty"):
        archive.open_archive(tmp_path, Catch(), SIGNATURE)
    make(tmp_path / "a")
    (tmp_path / "a" / "index.json").unlink()
    with pytest.raises(ValueError, match=r"has no index.json: it is not an archive, or its export was cut short"):
        archive.open_archive(tmp_path / "a", Catch(), SIGNATURE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:100], "is damaged"),
        (lambda text: "[]", "is damaged, or not an archive's"),
        (lambda text: text.replace('"steps": 24', '"steps": 25'), "doesn't match the checksum of itself"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "is of version 2; this program reads versions up"),
    ],
)
def test_an_index_that_is_damaged_or_newer(tmp_path, change, message):
    make(tmp_path)
    path = tmp_path / "index.json"
    changed = change(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(ValueError, match=f"index.json.*{message}"):
        archive.open_archive(tmp_path, Catch(), SIGNATURE)


@dataclasses.dataclass(frozen=True)
class Other:
    """Catch under another name."""

    rows: int = 10
    columns: int = 5
    spec = Catch().spec


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Catch(rows=9), r"setting rows is 10 there, 9 here"),
        (Catch(rows=9), r"observations is .*\[10, 5\].* there, .*\[9, 5\].* here"),
        (Other(), "name is 'Catch' there, 'Other' here"),
        (nim.Nim(), "num_players is 1 there, 2 here"),
    ],
)
def test_another_environment_is_refused_and_what_differs_named(tmp_path, env, message):
    make(tmp_path)
    with pytest.raises(ValueError, match=f"is of another environment: .*{message}"):
        archive.open_archive(tmp_path, env, SIGNATURE)


def test_settings_that_environments_get_later_dont_make_their_archives_useless(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Catch(Other):
        new: int = 1

    make(tmp_path)
    archive.open_archive(tmp_path, Catch(), SIGNATURE)


def test_a_leaf_that_is_missing_or_of_another_shape_is_named(tmp_path):
    make(tmp_path)
    shape = jax.ShapeDtypeStruct((4,), np.float32)
    with pytest.raises(ValueError, match=r"'extras/policy' is float32\[3\]; it must be float32\[4\]"):
        archive.open_archive(tmp_path, Catch(), SIGNATURE._replace(extras=Extras(shape, SIGNATURE.extras.seen)))
    with pytest.raises(ValueError, match=r"has no 'extras/logits', float32\[4\]; it has observation, .*extras/policy"):
        archive.open_archive(tmp_path, Catch(), SIGNATURE._replace(extras={"logits": shape}))


def test_no_complete_episode_and_none_but_in_broken_chunks(tmp_path):
    make(tmp_path / "pieces", last=MID)
    assert json.loads((tmp_path / "pieces" / "index.json").read_text())["mean_return"] is None
    with pytest.raises(ValueError, match="holds 6 trajectories, but no complete episode"):
        archive.open_archive(tmp_path / "pieces", Catch(), SIGNATURE)
    index = make(tmp_path / "broken")
    for chunk in index.chunks:
        flip(tmp_path / "broken" / chunk.file, 50)
    with (
        pytest.warns(UserWarning, match="3 of 3 chunks"),
        pytest.raises(ValueError, match="holds 0 trajectories, but no complete episode"),
    ):
        archive.open_archive(tmp_path / "broken", Catch(), SIGNATURE, skip_broken=True)


def test_a_long_trajectory_gets_a_chunk_of_its_own_where_it_would_be_too_much_together(tmp_path, monkeypatch):
    short, long = trajectory(0, 4), trajectory(1, 12)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(short))
    monkeypatch.setattr(archive, "CHUNK_BYTES", 2 * size)
    monkeypatch.setattr(parquet, "LARGEST", 3 * size + 12 * 4)  # The number of its trajectory is a column of each row.
    writer = archive.ArchiveWriter(tmp_path, Catch())
    for steps in (short, long, short, short):
        writer.add(steps)
    assert [(chunk.steps, chunk.trajectories) for chunk in writer.close().chunks] == [(4, 1), (12, 1), (8, 2)]


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        (np.zeros((4, 0), np.float32), r"'extras' is float32\[0\]; a leaf without values can't be archived"),
        (np.zeros(4, ml_dtypes.bfloat16), r"'extras' is bfloat16\[\]; Parquet has no such type of scalars"),
    ],
)
def test_a_leaf_that_no_file_can_hold_is_refused_at_once(tmp_path, leaf, message):
    with pytest.raises(ValueError, match=message):
        archive.ArchiveWriter(tmp_path, Catch()).add(trajectory(0)._replace(extras=leaf))


def test_archives_arent_mixed_and_not_empty(tmp_path):
    make(tmp_path / "a")
    with pytest.raises(ValueError, match="is not an empty folder; an archive needs one of its own"):
        archive.ArchiveWriter(tmp_path / "a", Catch())
    with pytest.raises(ValueError, match="no trajectory to archive"):
        archive.ArchiveWriter(tmp_path / "b", Catch()).close()
    writer = archive.ArchiveWriter(tmp_path / "c", Catch())
    writer.add(trajectory(0))
    with pytest.raises(ValueError, match=r"a trajectory: 'observation' is float32\[10, 5\]; it must be|has no"):
        writer.add(trajectory(0, env=nim.Nim()))
    with pytest.raises(ValueError, match="a trajectory has 1 rows; a transition needs 2"):
        writer.add(jax.tree.map(lambda leaf: leaf[:1], trajectory(0)))


@pytest.mark.parametrize("out", [".", "link"])
def test_an_archive_goes_into_an_empty_folder_that_no_other_could_replace(tmp_path, monkeypatch, out):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    monkeypatch.chdir(tmp_path / "empty" if out == "." else tmp_path)
    index = archive.write_archive(pathlib.Path(out), Catch(), map(trajectory, range(3)))
    assert archive.open_archive(tmp_path / "empty", Catch(), SIGNATURE).index == index
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "link"}


def test_one_that_fails_removes_its_own_files_alone(tmp_path):
    def failing(out):
        yield trajectory(0, archive.CHUNK_STEPS)
        assert sorted(path.name for path in out.iterdir()) == ["chunk-00000.parquet", "unfinished"]
        with pytest.raises(ValueError, match="is not an empty folder"):  # It is another writer's.
            archive.ArchiveWriter(out, Catch())
        (out / "chunk-00001.parquet.new").touch()  # As of a write that was interrupted.
        if out.name == "theirs":
            (out / "other").touch()
        raise KeyboardInterrupt

    (tmp_path / "theirs").mkdir()
    for name in ("theirs", "ours"):
        with pytest.raises(KeyboardInterrupt):
            archive.write_archive(tmp_path / name, Catch(), failing(tmp_path / name))
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["theirs", "theirs/other"]
