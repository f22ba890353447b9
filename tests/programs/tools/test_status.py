"""How a run stands, or how it ended, from what it has left in its folder."""

from __future__ import annotations

import json
import pathlib

import pytest

from boonta.nodes.snapshots.store import SnapshotFolder
from boonta.programs.tools.status import status
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.folder import lock


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
    """A run that reached update 25 and has saved at 10 and 20."""
    (tmp_path / "config.json").write_text(json.dumps({"program": "impala", "seed": 3, "settings": {}}))
    (tmp_path / "metrics.jsonl").write_text('{"env_steps": 32573200, "updates": 25, "seconds": 60.5}\n{"env_st')
    for number in (10, 20):
        with SnapshotFolder(tmp_path / "checkpoints", "checkpoint").writing(number) as new:
            new.mkdir()
            (new / "array").write_bytes(bytes(1_500_000))
    return tmp_path


def printed_by(folder: pathlib.Path, capsys) -> list[str]:
    capsys.readouterr()
    status(folder)
    return capsys.readouterr().out.splitlines()


def test_a_run_that_was_cut_off(folder, capsys):
    with journal.kept_in(folder):
        journal.LOG.debug("%s--launch local_mp, process 7", journal.STARTED)
        journal.LOG.info("done: updates reached 5")
        journal.LOG.debug("%s--launch local_mp, process 8", journal.STARTED)
        journal.LOG.warning("actor/0 was killed by SIGKILL while acting; it starts again in 0.5 s")
    lines = printed_by(folder, capsys)
    assert lines[0] == f"program impala, seed 3, in {folder}"
    assert lines[1] == "it was cut off: its launcher was killed, or the machine went down"
    assert lines[5].endswith("WARNING actor/0 was killed by SIGKILL while acting; it starts again in 0.5 s")
    assert "DEBUG" not in "".join(lines) and "INFO" not in "".join(lines)
    assert lines[6] == "reached env_steps 32,573,200, updates 25, seconds 60.5"
    assert lines[7] == "checkpoints:" and "  10  " in lines[8] and lines[8].endswith("1.5 MB  sound")
    assert lines[-1] == "it would go on from checkpoints/20, 5 updates before the last row of metrics"
    status(folder, lines=0)
    assert "WARNING" not in capsys.readouterr().out
    with pytest.raises(BadInput, match="--lines is -1; it must be at least 0"):
        status(folder, lines=-1)


def test_the_tables_of_all_replay_servers_are_listed_and_must_be_there(folder, capsys):
    for number, parts in ((30, 2), (40, 1)):
        with SnapshotFolder(folder / "checkpoints", "checkpoint").writing(number, beside="replay") as new:
            new.mkdir()
        for i in range(parts):
            with SnapshotFolder(folder / "replay" / f"{i}_of_2", "snapshot of the tables").writing(number) as new:
                new.mkdir()
    lines = printed_by(folder, capsys)
    assert [line for line in lines if line.startswith("replay")] == ["replay/0_of_2:", "replay/1_of_2:"]
    assert lines[-2] == "it would go on from checkpoints/30, 0 updates before the last row of metrics"
    assert "checkpoint 30 is used" in lines[-1] and "replay/1_of_2/40: MANIFEST.json is missing" in lines[-1]


@pytest.mark.parametrize("how", ["done: updates reached 25", "ended by SIGINT"])
def test_a_run_that_ended(folder, capsys, how):
    with journal.kept_in(folder):
        journal.LOG.debug(journal.STARTED)
        journal.LOG.info(how)
    assert printed_by(folder, capsys)[1] == "it has ended"


def test_it_says_who_waits_for_what(folder, capsys):
    row = {"share/actor/waiting_for_room_in_trajectories": 0.39, "share/learner/waiting_for_trajectories": 0.01}
    with open(folder / "metrics.jsonl", "a") as file:
        file.write("\n" + json.dumps(row) + "\n")
    line = "waits actor for room in trajectories 39% (shares of time between the last two rows of metrics)"
    assert line in printed_by(folder, capsys)


def test_a_run_that_failed(folder, capsys):
    with journal.kept_in(folder):
        journal.LOG.debug(journal.STARTED)
        journal.LOG.error("learner failed while updating: 100% wrong")
    lines = printed_by(folder, capsys)
    assert lines[1] == "it has ended" and lines[3].endswith("ERROR learner failed while updating: 100% wrong")


def test_a_run_that_goes_on(folder, capsys):
    with lock(folder):
        assert printed_by(folder, capsys)[1] == "it is running"
    assert printed_by(folder, capsys)[1] == "it never started"


def test_a_damaged_snapshot_is_named(folder, capsys):
    array = folder / "checkpoints" / "20" / "array"
    array.write_bytes(b"\1" + array.read_bytes()[1:])
    lines = printed_by(folder, capsys)
    assert lines[-3].endswith("not sound: array is altered: its SHA-256 is another one")
    assert lines[-2] == "it would go on from checkpoints/10, 15 updates before the last row of metrics"
    assert lines[-1].startswith("  ") and "array is altered" in lines[-1]
    (folder / "checkpoints" / "10" / "MANIFEST.json").unlink()
    lines = printed_by(folder, capsys)
    assert "never finished" in lines[-3] and lines[-1] == "no snapshot in checkpoints is sound"


def test_checkpoints_are_listed_by_the_numbers_by_which_tools_take_them(folder, capsys):
    with SnapshotFolder(folder / "checkpoints", "checkpoint").writing(12_000) as new:
        new.mkdir()
    assert [line.split()[0] for line in printed_by(folder, capsys)[-5:-1]] == ["checkpoints:", "10", "20", "12000"]


def test_a_snapshot_whose_tables_are_missing_is_not_gone_on_from(folder, capsys):
    for name, number, beside in (("replay", 20, ""), ("checkpoints", 30, "replay")):
        with SnapshotFolder(folder / name, name).writing(number, beside) as new:
            new.mkdir()
    lines = printed_by(folder, capsys)
    assert lines[-4] == "replay:" and lines[-3].startswith("            20  ") and lines[-3].endswith("sound")
    assert lines[-2] == "it would go on from checkpoints/20, 5 updates before the last row of metrics"
    assert "checkpoint 20 is used" in lines[-1] and "replay/30" in lines[-1]


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(BadInput, match=f"{tmp_path} holds no run: config.json can't be read: No such file"):
        status(tmp_path)
    (tmp_path / "sweep.json").touch()
    with pytest.raises(BadInput, match=f"{tmp_path} is a sweep's: name one of the runs' folders in it"):
        status(tmp_path)


def test_a_run_without_its_config_is_told_where_copies_are(folder):
    (folder / "config.json").unlink()
    with pytest.raises(BadInput, match=f"{folder} has no config.json; each of its checkpoints has a copy"):
        status(folder)
