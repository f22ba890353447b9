"""Rows of metrics come back, whatever else is in their file."""

from __future__ import annotations

import pytest

from boonta.nodes import metrics


def test_rows_come_back_and_what_is_not_finite_as_none(tmp_path):
    rows = metrics.Rows(tmp_path / metrics.FILE)
    rows.write({"loss": 0.5, "return": float("nan")})
    rows.write({"loss": 3, "return": float("inf")})
    rows.close()
    assert metrics.read(tmp_path) == [{"loss": 0.5, "return": None}, {"loss": 3.0, "return": None}]


@pytest.mark.parametrize("bad", [b"\xff", b"\0", b"{", b'"', b"\xc3\x28"])
@pytest.mark.parametrize("place", [4, 12])
def test_a_bad_byte_costs_one_row(tmp_path, bad, place):
    lines = [b'{"updates": %d.0}' % i for i in range(5)]
    lines[2] = lines[2][:place] + bad + lines[2][place + 1 :]
    (tmp_path / metrics.FILE).write_bytes(b"\n".join(lines) + b"\n")
    assert [row["updates"] for row in metrics.read(tmp_path) if "updates" in row] == [0, 1, 3, 4]


@pytest.mark.parametrize(
    "row", ["null", "[]", "1", '{"a": "1"}', '{"a": true}', '{"a": [1]}', '{"a": NaN}', '{"a": 1e999}', "[" * 100_000]
)
def test_a_row_of_anything_but_finite_numbers_is_left_out(tmp_path, row):
    (tmp_path / metrics.FILE).write_text(f'{row}\n{{"a": 2}}\n')
    assert metrics.read(tmp_path) == [{"a": 2.0}]


def test_without_a_file_it_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        metrics.read(tmp_path)
