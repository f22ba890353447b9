"""The replay server's snapshots: none is lost to the clock, to damage or to Reverb's own retention."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from boonta.envs.catch import Catch
from boonta.programs import muzero
from boonta.programs.wiring.program import Program, group, node_arguments
from boonta.programs.wiring.run import Run
from boonta.tests.helpers import tiny
from boonta.tests.helpers.damage import DAMAGES, fill_disk, truncate

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402  # It imports rlax, which must come before TensorFlow.
from boonta.nodes.learner import Learner  # noqa: E402
from boonta.nodes.snapshots.store import numbers  # noqa: E402
from boonta.tests.nodes.test_replay import Address, steps  # noqa: E402

reverb = pytest.importorskip("reverb")
AGENT = tiny.make(Catch().spec, batch_size=4, length=6)


@pytest.fixture
def start(tmp_path):
    """Starts a replay server in the test's folder; all are stopped in the end, without saving."""
    nodes = []

    def make(**settings) -> replay.Replay:
        address = Address(portpicker.pick_unused_port())
        nodes.append(replay.Replay("replay", address, AGENT, Catch().spec, str(tmp_path), **settings))
        nodes[-1].start()
        return nodes[-1]

    yield make
    for node in nodes:
        node._server.stop()


def add(node: replay.Replay, sequences: int = 1) -> None:
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    (table,) = AGENT.tables
    writer = ReverbWriter(reverb.Client(f"localhost:{node._server.port}"), [table], sequences, node.wait_for)
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
        node.close()


def test_saves_once_when_the_program_ends_without_waiting_for_the_others(start, tmp_path):
    node = start()
    node.round()
    assert not numbers(tmp_path)
    node.ending = True
    for _ in range(2):
        node.round()
    node.close()
    assert numbers(tmp_path) == [1]


def test_saves_at_the_interval_of_the_run_and_keeps_two(start, tmp_path):
    node = start(save_every_s=0.0)
    for _ in range(3):
        node.round()
    assert numbers(tmp_path) == [2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3", "reverb"] and not files(tmp_path / "reverb")


def test_one_flag_sets_the_interval_of_learner_and_replay(tmp_path):
    run = Run(workdir=str(tmp_path), save_every_s=7.0)
    program = Program("program", run, AGENT, Catch(), [group(Learner), group(muzero.Actor)])
    chosen = {each.label: node_arguments(program, each, 0, {}).get("save_every_s") for each in program.all_groups}
    assert (chosen["learner"], chosen["replay"]) == (7.0, 7.0)


@pytest.mark.parametrize("name", ["2099-01-01T00:00:00.0+00:00", "1999-01-01T00:00:00.0+00:00"])
def test_nothing_is_lost_to_a_clock_that_is_set_back_or_forward(start, tmp_path, name):
    """Reverb deletes a new checkpoint as it writes it if the name of one that is there comes later."""
    node = start()
    add(node)
    node._save()
    shutil.copytree(tmp_path / "1", tmp_path / "reverb" / name)
    add(node)
    node._save()
    shutil.copytree(tmp_path / "1", tmp_path / "reverb" / name)
    again = start()
    assert size(again) == 2
    add(again)
    again._save()
    assert numbers(tmp_path) == [2, 3] and size(start()) == 3


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_whichever_file_of_the_newest_is_damaged_the_one_before_is_loaded(start, tmp_path, damage):
    node = start()
    for _ in range(2):
        add(node)
        node._save()
    for path in files(tmp_path / "2"):
        content = path.read_bytes()
        if damage(path):
            again = start()
            assert size(again) == 1, path
            (warning,) = again.report()["warnings"]
            assert f"snapshot of the tables 1 is used, since newer ones are not sound: {tmp_path}/2: " in warning
            assert path.name in warning
            path.write_bytes(content)
    assert size(start()) == 2


def test_where_none_is_sound_tables_start_empty_with_a_word(start, tmp_path):
    node = start()
    add(node)
    node._save()
    truncate(tmp_path / "1" / "chunks.tfrecord")
    again = start()
    assert size(again) == 0
    assert "the tables start empty: no snapshot of the tables in" in again.report()["warnings"][0]
    again._save()
    assert numbers(tmp_path) == [2]


def test_a_save_that_fails_is_told_and_tried_again_but_the_last_one_ends_it(start, tmp_path, monkeypatch):
    node = start(save_every_s=0.0)
    node.round()
    with monkeypatch.context() as patch:
        fill_disk(patch)
        node.round()
        assert "the tables could not be saved: " in node.report()["warnings"][0]
    node.round()
    assert numbers(tmp_path) == [1, 2]
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="has 0.0 MB free, and the last snapshot of the tables took"):
        node.close()


def test_what_reverb_itself_can_not_write_is_told(start, tmp_path, monkeypatch):
    node = start(save_every_s=0.0)
    clear = node._clear_reverbs_own

    def in_the_way() -> None:
        shutil.rmtree(tmp_path / "reverb")
        (tmp_path / "reverb").touch()

    monkeypatch.setattr(node, "_clear_reverbs_own", in_the_way)
    node.round()
    assert "the tables could not be saved: " in node.report()["warnings"][0] and not numbers(tmp_path)
    (tmp_path / "reverb").unlink()
    monkeypatch.setattr(node, "_clear_reverbs_own", clear)
    node.round()
    assert numbers(tmp_path) == [1]
