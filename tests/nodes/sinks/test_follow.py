"""Rows reach a tracker once and in order, whatever fails; without a process, and in the one that a run starts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from boonta.nodes import metrics
from boonta.nodes.sinks import follow
from boonta.nodes.sinks.base import video_at
from boonta.tests.helpers import sinks
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.sinks import taken, write_rows

pytestmark = pytest.mark.once

OWN = "boonta.tests.helpers.sinks"
RECORDING = f"{OWN}:Recording"


class Wait:
    """Stands for the event of a run's end: it is set once the follower has waited so often. No time passes."""

    def __init__(self, waits: int):
        self.left = waits

    def is_set(self) -> bool:
        return self.left <= 0

    def wait(self, seconds: float) -> bool:
        self.left -= 1
        return self.is_set()


def follower(folder, name: str = RECORDING, waits: int = 0, messages: list[str] | None = None) -> follow.Follower:
    (folder / follow.FOLDER).mkdir(exist_ok=True)
    report = (messages if messages is not None else []).append
    return follow.Follower(folder, name, Wait(waits), report)  # type: ignore[arg-type]


class Unsteady:
    """Raises at some calls of `write`, counted over all sinks of this class; else it takes the row."""

    fails_at: set[int] = set()
    refused: float | None = None
    calls = 0
    begins: list[int] = []
    rows: list[float] = []

    def begin(self, run):
        Unsteady.begins.append(run.rows)

    def write(self, row):
        Unsteady.calls += 1
        if Unsteady.calls in self.fails_at or row["i"] == self.refused:
            raise ConnectionError(f"the server is gone, call {Unsteady.calls}")
        Unsteady.rows.append(row["i"])

    def close(self):
        raise ConnectionError("it is still gone")


@pytest.fixture
def unsteady(monkeypatch):
    for name, value in {"fails_at": set(), "refused": None, "calls": 0, "begins": [], "rows": []}.items():
        monkeypatch.setattr(Unsteady, name, value)
    monkeypatch.setattr(sinks, "Unsteady", Unsteady, raising=False)
    return f"{OWN}:Unsteady"


def test_rows_come_without_what_is_not_finite_and_a_cut_one_costs_no_other(tmp_path):
    write_rows(tmp_path, {"loss": 1.0, "return": float("nan")})
    with open(tmp_path / metrics.FILE, "a") as file:
        file.write('{"loss": 2')
    write_rows(tmp_path, {"loss": 3.0})
    assert follower(tmp_path).run()
    assert taken(tmp_path, "row") == [[{"loss": 1.0}], [{"loss": 3.0}]]
    assert len(taken(tmp_path, "close")) == 1


def test_a_run_that_goes_on_is_the_same_one_there_and_no_row_comes_twice(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"program": "impala", "seed": 3}))
    write_rows(tmp_path, {"i": 0.0}, {"i": 1.0})
    assert follower(tmp_path).run()
    assert follower(tmp_path).run()  # Without a new row the run isn't even opened.
    write_rows(tmp_path, {"i": 2.0})
    assert follower(tmp_path).run()
    first, second = taken(tmp_path, "begin")
    assert first == [second[0], 0, "impala", 3] and second[1:] == [2, "impala", 3]
    assert [row["i"] for (row,) in taken(tmp_path, "row")] == [0.0, 1.0, 2.0]


def test_a_run_of_a_sweep_is_in_its_group(tmp_path):
    (tmp_path / "sweep.json").touch()
    run = tmp_path / "impala-catch-seed3"
    run.mkdir()
    assert follow.described(run, follow.Sent("0" * 32)).group == tmp_path.name


def test_a_failure_is_reported_once_and_nothing_is_lost(tmp_path, unsteady):
    Unsteady.fails_at = {2, 3, 6}
    write_rows(tmp_path, *({"i": float(i)} for i in range(5)))
    messages: list[str] = []
    follower(tmp_path, unsteady, waits=100, messages=messages).run()
    assert Unsteady.rows == [0, 1, 2, 3, 4] and Unsteady.begins == [0, 1, 1, 3]
    assert messages == [
        f"{unsteady}: ConnectionError: the server is gone, call 2; rows stay in metrics.jsonl, and are sent when it "
        "works again"
    ]


def test_a_row_that_is_refused_thrice_is_left_out(tmp_path, unsteady):
    Unsteady.refused = 1.0
    write_rows(tmp_path, *({"i": float(i)} for i in range(3)))
    follower(tmp_path, unsteady, waits=100).run()
    assert Unsteady.rows == [0, 2] and Unsteady.calls == 2 + follow.TRIES


def test_what_can_not_be_sent_until_the_end_is_sent_later(tmp_path, unsteady):
    Unsteady.fails_at = {2}
    write_rows(tmp_path, {"i": 0.0}, {"i": 1.0}, {"i": 2.0})
    assert not follower(tmp_path, unsteady).run()
    assert Unsteady.rows == [0]
    follower(tmp_path, unsteady).run()
    assert Unsteady.rows == [0, 1, 2]


def test_rows_are_sent_while_the_run_goes_on(tmp_path):
    write_rows(tmp_path, {"i": 0.0})

    class Growing(Wait):
        def wait(self, seconds: float) -> bool:
            write_rows(tmp_path, {"i": float(self.left)})
            return super().wait(seconds)

    (tmp_path / follow.FOLDER).mkdir()
    assert follow.Follower(tmp_path, RECORDING, Growing(2), print).run()  # type: ignore[arg-type]
    assert [row["i"] for (row,) in taken(tmp_path, "row")] == [0.0, 2.0, 1.0]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"id": "a/b", "rows": 1}', b'{"id": "%s", "rows": -1}' % (b"0" * 32)]
)
def test_a_damaged_file_begins_a_new_run_there_and_says_so(tmp_path, content):
    write_rows(tmp_path, {"i": 0.0})
    messages: list[str] = []
    damaged = follower(tmp_path, messages=messages)
    damaged.file.write_bytes(content)
    assert damaged.run()
    assert "is damaged, so a new run begins there" in messages[0] and len(taken(tmp_path, "row")) == 1
    assert follower(tmp_path, messages=messages).run() and len(messages) == 1


def launched(folder, name: str) -> subprocess.Popen:
    command = [sys.executable, "-m", follow.MODULE, str(folder), name, follow.LAUNCHED]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_the_process_of_a_run_waits_for_rows_and_ends_with_its_launcher(tmp_path):
    with launched(tmp_path, RECORDING) as process:
        assert not list(tmp_path.iterdir())
        write_rows(tmp_path, {"i": 0.0})
        assert process.communicate(timeout=DEADLINE_S) == ("", None)  # This closes its standard input.
    assert process.returncode == 0 and taken(tmp_path, "row") == [[{"i": 0.0}]]


def test_the_process_of_a_run_that_never_began_leaves_nothing(tmp_path):
    with launched(tmp_path, RECORDING) as process:
        assert process.communicate(timeout=DEADLINE_S) == ("", None)
    assert process.returncode == 0 and not list(tmp_path.iterdir())


def test_a_tracker_that_hangs_is_named_at_the_end_and_left(tmp_path):
    write_rows(tmp_path, {"i": 0.0}, {"i": 1.0})
    with launched(tmp_path, f"{OWN}:Hanging") as process:
        messages, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1 and messages == f"{OWN}:Hanging has not answered for 10 s after the run's end\n"
    assert len(taken(tmp_path, "row")) == 1


def test_a_run_that_has_ended_is_sent_by_a_command(tmp_path):
    write_rows(tmp_path, {"i": 0.0})
    command = [sys.executable, "-m", follow.MODULE, str(tmp_path), RECORDING]
    assert subprocess.run(command, timeout=DEADLINE_S).returncode == 0
    assert taken(tmp_path, "row") == [[{"i": 0.0}]]
    with open(tmp_path / follow.FOLDER / "boonta.tests.helpers.sinks-Recording.lock") as held:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX)
        refused = subprocess.run(command, timeout=DEADLINE_S, capture_output=True, text=True)
    assert refused.returncode == 1 and "error: another process sends" in refused.stderr


def test_without_metrics_the_command_says_so(tmp_path, capsys):
    assert follow.main([str(tmp_path), RECORDING]) == 1
    assert "metrics.jsonl" in capsys.readouterr().err
    assert follow.main([]) == 2


def test_many_rows_are_sent_without_a_look_for_videos_at_each(tmp_path, monkeypatch):
    write_rows(tmp_path, *({"i": float(i)} for i in range(50)))
    looks = []
    monkeypatch.setattr(follow, "videos_of", lambda folder: looks.append(folder) or {})
    assert follower(tmp_path, waits=2).run()
    assert len(taken(tmp_path, "row")) == 50 and len(looks) == 3


def test_videos_come_once_and_in_order_to_the_sinks_that_take_them(tmp_path, unsteady):
    write_rows(tmp_path, {"i": 0.0})
    for env_steps in (100, 20):
        video = video_at(tmp_path, env_steps)
        video.parent.mkdir(exist_ok=True)
        video.touch()
    (video.parent / ".part.gif").touch()
    assert follower(tmp_path).run() and follower(tmp_path).run()
    assert taken(tmp_path, "video") == [[video_at(tmp_path, 20).name, 20], [video_at(tmp_path, 100).name, 100]]
    assert follower(tmp_path, unsteady).run() is False and Unsteady.rows == [0.0]  # Its `close` fails.
