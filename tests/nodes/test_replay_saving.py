"""The replay server's snapshots: none is lost to the clock, to damage or to Reverb's own retention."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil

import pytest

from boonta.envs.catch import Catch
from boonta.programs import muzero
from boonta.programs.wiring.construction import node_arguments
from boonta.programs.wiring.program import Program, group
from boonta.programs.wiring.run import Run
from boonta.tests.helpers import tiny
from boonta.tests.helpers.damage import DAMAGES, fill_disk, flip, truncate

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.learner import Learner  # noqa: E402
from boonta.nodes.snapshots import manifest  # noqa: E402
from boonta.nodes.snapshots.store import KEEP, Retention, SnapshotFolder, numbers  # noqa: E402
from boonta.nodes.tables.reverb.client import Client  # noqa: E402
from boonta.tests.helpers.written_steps import steps  # noqa: E402

AGENT = tiny.make(Catch().spec, batch_size=4, length=6)


@pytest.fixture
def start(tmp_path):
    """Starts a replay server in the test's folder; all are stopped in the end, without saving."""
    nodes = []

    def make(past_lives: int = 0, agent=AGENT, **settings) -> replay.Replay:
        address = f"localhost:{portpicker.pick_unused_port()}"
        node = replay.Replay("replay", address, agent, Catch().spec, str(tmp_path / "replay"), **settings)
        node.past_lives = past_lives
        node.start()
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node._server.stop()


def add(node: replay.Replay, sequences: int = 1) -> None:
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    (table,) = AGENT.tables
    writer = ReverbWriter(Client(f"localhost:{node._server.port}"), [table], sequences, node.wait_for)
    for t in range(table.sequence_length):
        writer.append(steps(t, sequences))
    writer.close()


def size(node: replay.Replay) -> int:
    return node._client.server_info()[AGENT.tables[0].name].current_size


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_tables_survive_restarts(start):
    for expected in range(3):
        node = start()
        assert size(node) == expected
        add(node)
        node.program_counts = {"updates": 10.0 * (expected + 1)}
        node.close()


def test_a_saved_table_that_is_no_longer_asked_for_is_told(start):
    node = start()
    add(node)
    node.close()
    other = AGENT._replace(tables=(dataclasses.replace(AGENT.tables[0], name="other"),))
    with pytest.raises(ValueError, match=r"holds other tables than \['other'\]: .*, or delete that folder to start"):
        start(agent=other)


def ask(node: replay.Replay, number: int) -> None:
    node.snapshot_request = (node.snapshot_request[0] + 1, number)


def learner_saves(folder: pathlib.Path, *numbers: int, retention: Retention = KEEP) -> None:
    """Writes the learner's part of snapshots."""
    for number in numbers:
        with SnapshotFolder(folder / "checkpoints", "checkpoint", retention).writing(number, beside="replay") as new:
            new.mkdir()
            (new / "params").write_text(str(number))


@pytest.mark.parametrize("newest", [1, 2])
def test_saves_when_it_is_asked_and_keeps_what_makes_the_newest_checkpoints_whole(start, tmp_path, newest):
    retention = Retention(newest, every_h=0.0)  # All of the learner's stay, most of them for good.
    node = start(retention=retention)
    node.round()
    assert not numbers(tmp_path / "replay")
    for number in (10, 20, 30):
        learner_saves(tmp_path, number, retention=retention)
        ask(node, number)
        for _ in range(2):
            node.round()
    assert numbers(tmp_path / "checkpoints") == [10, 20, 30]
    assert numbers(tmp_path / "replay") == [10, 20, 30][-newest:]
    assert sorted(path.name for path in (tmp_path / "replay").iterdir()) == [*["20", "30"][-newest:], "reverb"]
    assert not files(tmp_path / "replay" / "reverb")


def test_saves_once_when_the_program_ends_without_waiting_for_the_others(start, tmp_path):
    node = start()
    node.ending = True
    node.round()
    assert not numbers(tmp_path / "replay")  # The learner still makes its last update.
    ask(node, 7)
    node.round()
    written = manifest.written_at(tmp_path / "replay" / "7")
    node.close()
    assert numbers(tmp_path / "replay") == [7] and manifest.written_at(tmp_path / "replay" / "7") == written


def test_a_request_that_comes_with_the_order_to_stop_is_followed(start, tmp_path):
    node = start()
    ask(node, 7)
    node.close()
    assert numbers(tmp_path / "replay") == [7]


def test_without_a_learner_that_asks_tables_are_saved_all_the_same(start, tmp_path):
    node = start(save_every_s=0.0)
    for sequences in (1, 2):
        add(node)
        node.round()
        assert numbers(tmp_path / "replay") == [0]  # The tables fill; there is no update yet.
        assert size(start(past_lives=1)) == sequences
    node.program_counts = {"updates": 5.0}
    node.round()
    assert numbers(tmp_path / "replay") == [0, 5]
    learner_saves(tmp_path, 5)
    written = manifest.written_at(tmp_path / "replay" / "5")
    node.round()
    assert manifest.written_at(tmp_path / "replay" / "5") == written  # That snapshot is whole.
    node.program_counts = {"updates": 0.0}  # The learner has just started and not yet resumed.
    node.close()
    assert numbers(tmp_path / "replay") == [0, 5]


def test_the_tables_of_the_learners_checkpoint_are_loaded(start, tmp_path):
    node = start()
    for number in (10, 20):
        add(node)
        ask(node, number)
        node.round()
    assert size(start()) == 2  # There are no checkpoints here: they are on another machine's disk.
    learner_saves(tmp_path, 10)
    again = start()
    assert size(again) == 1 and not again.warnings
    ask(again, 30)
    again.round()
    assert numbers(tmp_path / "replay") == [10, 30]  # Nobody went on from 20.
    learner_saves(tmp_path, 20)
    other = start()
    assert size(other) == 1
    assert size(start(past_lives=1)) == 1  # It is 30: the others have gone on meanwhile.
    learner_saves(tmp_path, 30)
    flip(tmp_path / "checkpoints" / "30" / "params")
    again = start()
    assert again._number == 10 and not again.warnings  # The learner tells why.


def test_tables_of_another_update_are_used_with_a_word(start, tmp_path):
    node = start()
    add(node)
    ask(node, 10)
    node.round()
    learner_saves(tmp_path, 40, 50)
    again = start()
    assert size(again) == 1
    assert "the tables are those of update 10, since none that are sound are of 50" in again.warnings[0]


def test_one_flag_sets_the_interval_of_learner_and_replay_and_one_how_many_stay(tmp_path):
    run = Run(workdir=str(tmp_path), save_every_s=7.0, keep_newest=5)
    program = Program("program", run, AGENT, Catch(), [group(Learner), group(muzero.Actor)])
    chosen = {each.label: node_arguments(program, each, 0, {}) for each in program.all_groups}
    assert chosen["learner"]["save_every_s"] == chosen["replay"]["save_every_s"] == 7.0
    assert chosen["learner"]["retention"] == chosen["replay"]["retention"] == Retention(newest=5, every_h=6.0)
    assert [(chosen[name]["folder"], chosen[name]["beside"]) for name in ("learner", "replay")] == [
        (str(tmp_path / "checkpoints"), "replay"),
        (str(tmp_path / "replay"), "checkpoints"),
    ]


@pytest.mark.parametrize("name", ["2099-01-01T00:00:00.0+00:00", "1999-01-01T00:00:00.0+00:00"])
def test_nothing_is_lost_to_a_clock_that_is_set_back_or_forward(start, tmp_path, name):
    """Reverb deletes a new checkpoint as it writes it if the name of one that is there comes later."""
    folder = tmp_path / "replay"
    node = start()
    add(node)
    node._save(1)
    shutil.copytree(folder / "1", folder / "reverb" / name)
    add(node)
    node._save(2)
    shutil.copytree(folder / "1", folder / "reverb" / name)
    again = start()
    assert size(again) == 2
    add(again)
    again._save(3)
    assert numbers(folder) == [1, 2, 3] and size(start()) == 3


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_whichever_file_of_the_newest_is_damaged_the_one_before_is_loaded(start, tmp_path, damage):
    node = start()
    for number in (1, 2):
        add(node)
        node._save(number)
    for path in files(tmp_path / "replay" / "2"):
        content = path.read_bytes()
        if damage(path):
            again = start()
            assert size(again) == 1, path
            (warning,) = again.report()["warnings"]
            assert f"snapshot of the tables 1 is used, since newer ones are not sound: {tmp_path}/replay/2: " in warning
            assert path.name in warning
            path.write_bytes(content)
    assert size(start()) == 2


def test_where_none_is_sound_tables_start_empty_with_a_word(start, tmp_path):
    node = start()
    add(node)
    node._save(1)
    truncate(tmp_path / "replay" / "1" / "chunks.tfrecord")
    again = start()
    assert size(again) == 0
    assert "the tables start empty: no snapshot of the tables in" in again.report()["warnings"][0]
    again._save(2)
    assert numbers(tmp_path / "replay") == [2]


def test_a_save_that_fails_is_told_and_tried_again_but_the_last_one_ends_it(start, tmp_path, monkeypatch):
    node = start()
    ask(node, 1)
    node.round()
    with monkeypatch.context() as patch:
        fill_disk(patch)
        ask(node, 2)
        node.round()
        assert "the tables could not be saved: " in node.report()["warnings"][0]
    ask(node, 3)
    node.round()
    assert numbers(tmp_path / "replay") == [1, 3]
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="has 0.0 MB free, and the last snapshot of the tables took"):
        node.close()


def test_what_reverb_itself_can_not_write_is_told(start, tmp_path, monkeypatch):
    node = start()
    clear = node._clear_reverbs_own

    def in_the_way() -> None:
        shutil.rmtree(tmp_path / "replay" / "reverb")
        (tmp_path / "replay" / "reverb").touch()

    monkeypatch.setattr(node, "_clear_reverbs_own", in_the_way)
    ask(node, 1)
    node.round()
    assert "the tables could not be saved: " in node.report()["warnings"][0] and not numbers(tmp_path / "replay")
    (tmp_path / "replay" / "reverb").unlink()
    monkeypatch.setattr(node, "_clear_reverbs_own", clear)
    ask(node, 2)
    node.round()
    assert numbers(tmp_path / "replay") == [2]


def test_what_reverb_had_room_for_does_not_stay_on_a_full_disk(start, tmp_path, monkeypatch):
    node = start()
    add(node)
    checkpoint = node._client.checkpoint

    def cut_short() -> str:
        truncate(pathlib.Path(checkpoint()) / "chunks.tfrecord")
        raise RuntimeError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(node._client, "checkpoint", cut_short)
        ask(node, 1)
        node.round()
    assert "the tables could not be saved: " in node.report()["warnings"][0]
    assert not files(tmp_path / "replay")
    ask(node, 2)
    node.round()
    assert numbers(tmp_path / "replay") == [2]
