"""Rows of metrics come back, whatever else is in their file."""

from __future__ import annotations

import pathlib

import pytest
from tensorboard.backend.event_processing import event_file_loader

from boonta.nodes import metrics
from boonta.nodes.sinks.base import TENSORBOARD, TrackedRun
from boonta.nodes.sinks.files import Files
from boonta.tests.helpers import damage


def test_rows_come_back_and_what_is_not_finite_as_none(tmp_path):
    rows = metrics.Rows(tmp_path / metrics.FILE, print)
    rows.write({"loss": 0.5, "return": float("nan")})
    rows.write({"loss": 3, "return": float("inf")})
    rows.close()
    assert metrics.read(tmp_path) == [{"loss": 0.5, "return": None}, {"loss": 3.0, "return": None}]


@pytest.mark.parametrize(
    ("before", "expected"), [(b'{"a": 1}\n', b'{"a": 1}\n'), (b'{"a": 1}\n{"b', b'{"a": 1}\n{"b\n')]
)
def test_a_run_that_goes_on_begins_its_own_line(tmp_path, before, expected):
    (tmp_path / metrics.FILE).write_bytes(before)
    rows = metrics.Rows(tmp_path / metrics.FILE, print)
    rows.write({"a": 2.0})
    rows.close()
    assert (tmp_path / metrics.FILE).read_bytes() == expected + b'{"a": 2.0}\n'


def test_rows_are_ordered_by_env_steps_or_by_updates_where_none_are_counted(tmp_path):
    assert metrics.step_of({"env_steps": 20.0, "updates": 3.0}) == ("env_steps", 20)
    assert metrics.step_of({"env_steps": None, "updates": 3.0}) == ("updates", 3)
    assert metrics.step_of({"loss": 1.0}) == ("env_steps", 0)
    files = Files((TENSORBOARD,), print)
    files.begin(TrackedRun(tmp_path))
    files.write({"updates": 3.0, "loss": 0.5})
    files.close()
    (file,) = (tmp_path / "tensorboard").iterdir()
    events = list(event_file_loader.EventFileLoader(str(file)).Load())
    assert {event.step for event in events if event.summary.value} == {3}


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


def test_rows_that_a_full_disk_has_no_room_for_wait(tmp_path, small_disk):
    """The one that was being written is not torn, nor is an event."""
    warnings: list[str] = []
    writer = Files((TENSORBOARD,), warnings.append)
    writer.begin(TrackedRun(small_disk))
    writer.write({"updates": 0.0, "env_steps": 0})
    damage.fill(small_disk)
    for i in range(1, 3000):
        writer.write({"updates": float(i), "env_steps": i})
    assert warnings and all(
        "No space left on device; what belongs there is kept until it can" in each for each in warnings
    )
    assert len(metrics.read(small_disk)) < 3000
    damage.free(small_disk)
    writer.write({"updates": 3000.0, "env_steps": 3000})
    writer.close()
    assert [row["updates"] for row in metrics.read(small_disk)] == list(range(3001))
    assert len(list(_events(small_disk))) == 1 + 2 * 3001


def test_rows_that_can_not_be_written_in_the_end_are_an_error(small_disk):
    writer = Files((TENSORBOARD,), print)
    writer.begin(TrackedRun(small_disk))
    damage.fill(small_disk)
    for i in range(3000):
        writer.write({"updates": float(i)})
    with pytest.raises(OSError, match="No space left"):
        writer.close()


def _events(folder: pathlib.Path):
    """The records of the events' file, as TensorBoard reads them."""
    (file,) = (folder / "tensorboard").iterdir()
    return event_file_loader.LegacyEventFileLoader(str(file)).Load()
