"""Archives whose checksums are right and whose contents are wrong: they are refused by field."""

from __future__ import annotations

import copy
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from boonta.envs.catch import Catch
from boonta.nodes.archive import files as archive
from boonta.nodes.archive import parquet
from boonta.nodes.archive.index import Leaf
from boonta.nodes.snapshots.files import sealed
from boonta.tests.helpers.archives import SIGNATURE, make


def replace(content, path: str, value):
    """Replaces one value of a JSON object, by a dotted path; None removes it."""
    *inner, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in inner:
        content = content[part]
    content[last] = value
    if value is None:
        del content[last]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("columns", None, "columns is missing"),
        ("columns.reward.0", 5, r"columns\.reward\.0 is 5; it must be a text"),
        ("columns.reward.1", [-1], r"columns\.reward\.1\.0 is -1; it must be greater than or equal to 0"),
        ("environment.settings", [], r"environment\.settings is \[\]; it must be keys with values"),
        ("environment.name", None, r"environment\.name is missing"),
        ("chunks.1", [], r"chunks\.1\.0 is missing"),
        ("chunks.1.0", "../secret.parquet", r"chunks\.1\.0: String should match pattern"),
        ("chunks.1.0", "/etc/hostname", r"chunks\.1\.0: String should match pattern"),
        ("chunks.1.1", "8", r'chunks\.1\.1 is "8"; it must be an integer'),
        ("chunks.1.1", 2**62, r"chunks\.1\.1 is 4611686018427387904; it must be less than"),
        ("chunks.1.2", 0, r"chunks\.1\.2 is 0; it must be greater than or equal to 1"),
    ],
)
def test_an_index_that_is_wrong_with_the_right_digest_is_refused_by_field(tmp_path, path, value, message):
    make(tmp_path)
    content = json.loads((tmp_path / "index.json").read_text())
    del content["sha256"]
    replace(content, path, value)
    (tmp_path / "index.json").write_bytes(sealed(content))
    with pytest.raises(ValueError, match=f"index.json is damaged, or not an archive's: {message}"):
        archive.open_archive(tmp_path, Catch(), SIGNATURE)


def test_a_chunk_of_other_rows_than_the_index_says_is_refused(tmp_path):
    make(tmp_path)
    content = json.loads((tmp_path / "index.json").read_text())
    del content["sha256"]
    for field, value, message in ((1, 9, "it has 8 rows, not 9"), (2, 3, "not numbered from 0 to 2")):
        changed = copy.deepcopy(content)
        changed["chunks"][0][field] = value
        (tmp_path / "index.json").write_bytes(sealed(changed))
        opened = archive.open_archive(tmp_path, Catch(), SIGNATURE)
        with pytest.raises(ValueError, match=f"chunk-00000.parquet is damaged: .*{message}"):
            list(archive.read(opened))


@pytest.mark.parametrize("numbers", [[0, 1, 1], [0, 0, 1, 2, 2], [0, 0, 1]])
def test_a_trajectory_of_a_single_row_is_refused_wherever_it_is(numbers):
    with pytest.raises(ValueError, match="it has a trajectory of a single row"):
        archive._starts(np.array(numbers, np.int32), 1 + numbers[-1])


def test_a_chunk_larger_than_any_may_be_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    index = make(tmp_path)
    decoded = 8 * (10 * 5 * 4 + 5 * 4 + 3 * 4 + 1 + 4)
    opened = archive.open_archive(tmp_path, Catch(), SIGNATURE)
    assert (tmp_path / index.chunks[0].file).stat().st_size > decoded
    monkeypatch.setattr(parquet, "LARGEST", decoded)
    monkeypatch.setattr(archive, "_checked", lambda folder, chunk: (folder / chunk.file).read_bytes())
    assert len(list(archive.read(opened))) == 6
    monkeypatch.setattr(parquet, "LARGEST", decoded - 1)
    with pytest.raises(ValueError, match=f"columns of {decoded:,} bytes are more than a chunk may have"):
        list(archive.read(opened))


def test_a_chunk_is_closed_when_it_has_many_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "CHUNK_BYTES", 2_000)  # Of a trajectory's 948.
    assert [chunk.trajectories for chunk in make(tmp_path, chunk_steps=1_000).chunks] == [2, 2, 2]


def test_pages_larger_than_their_rows_are_refused_before_they_are_decoded():
    """The pages have 100,000 rows of 1 kB, which compress to nothing; the footer has been changed to tell of 8."""
    rows, leaf = 100_000, Leaf("float32", (250,))
    arrays = {"trajectory": np.zeros(rows, np.int32), "view": np.zeros((rows, *leaf.shape), np.float32)}
    sink = pa.BufferOutputStream()
    table = pq.read_table(pa.BufferReader(parquet.encode(arrays)))
    pq.write_table(table, sink, compression="zstd", use_dictionary=False)
    content = sink.getvalue().to_pybytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    many, few = b"\xc0\x9a\x0c", b"\x90\x80\x00"  # Thrift's numbers of variable length, doubled.
    assert many in content[start:]
    changed = content[:start] + content[start:].replace(many, few)
    assert len(parquet.decode(content, {"view": leaf}, rows)["view"]) == rows
    with pytest.raises(ValueError, match=r"its pages have 100,\d*,\d* bytes, and its columns 8,032"):
        parquet.decode(changed, {"view": leaf}, 8)
