"""The best checkpoint: kept beside the newest ones, whatever comes after it."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.snapshots.best import RECORD, Best, Record, read_record
from boonta.nodes.snapshots.store import Retention, numbers
from boonta.tests.helpers.damage import fill_disk, flip


def state(number: float):
    return {"w": np.full(3, number)}, {"updates": number}


def record(value: float, updates: int) -> Record:
    return Record(value, 0.1, updates, updates)


def restored(folder) -> tuple[float, dict[str, float]]:
    params, counts = Checkpointer(folder / "best").restore({"w": np.zeros(3)})
    return float(params["w"][0]), counts


def offered(best: Best, *values: tuple[float, int]) -> None:
    for value, updates in values:
        best.offer(record(value, updates), lambda updates=updates: state(updates))


def test_the_best_stays_and_a_resumed_run_knows_it(tmp_path):
    warnings: list[str] = []
    (tmp_path / "config.json").write_text("{}")
    folder = tmp_path / "checkpoints"
    best = Best(folder, warnings.append)
    assert best.record is None
    best.write()
    assert not folder.exists()
    # Of equal ones the newest; NaN is no evaluation.
    offered(best, (float("nan"), 5), (1.0, 10), (3.0, 15), (3.0, 20), (2.0, 30), (float("nan"), 40))
    best.write()
    assert restored(folder) == (20.0, {"updates": 20.0})
    assert (folder / "best" / "20" / "config.json").read_text() == "{}"
    Checkpointer(folder, Retention(newest=1)).save(50, *state(50))
    Checkpointer(folder, Retention(newest=1)).save(60, *state(60))
    assert numbers(folder) == [60] and numbers(folder / "best") == [20]

    again = Best(folder, warnings.append)
    assert again.record == record(3.0, 20)
    offered(again, (2.5, 15))
    again.write()
    assert numbers(folder / "best") == [20]
    offered(again, (4.0, 15))  # The run went on from a snapshot of before.
    again.write()
    assert numbers(folder / "best") == [15] and restored(folder)[0] == 15.0 and not warnings


def test_another_evaluation_of_the_same_update_may_be_the_best(tmp_path):
    best = Best(tmp_path, print)
    offered(best, (1.0, 10))
    best.write()
    best.offer(record(2.0, 10), lambda: state(11))
    best.write()
    assert restored(tmp_path)[0] == 11.0 and read_record(tmp_path / "best", print) == record(2.0, 10)


def test_a_damaged_one_is_reported_and_begins_anew(tmp_path):
    best = Best(tmp_path, print)
    offered(best, (1.0, 10))
    best.write()
    flip(tmp_path / "best" / "10" / RECORD)
    warnings: list[str] = []
    again = Best(tmp_path, warnings.append)
    assert again.record is None and "the best checkpoint begins anew: " in warnings[0] and RECORD in warnings[0]
    offered(again, (0.5, 5))
    again.write()
    assert numbers(tmp_path / "best") == [5]


def test_what_a_full_disk_has_no_room_for_is_tried_again(tmp_path, monkeypatch):
    warnings: list[str] = []
    best = Best(tmp_path, warnings.append)
    offered(best, (1.0, 10))
    best.write()
    offered(best, (2.0, 20))
    with monkeypatch.context() as patch:
        fill_disk(patch)
        best.write()
    assert numbers(tmp_path / "best") == [10] and "it is tried again" in warnings[0]
    best.write()
    assert numbers(tmp_path / "best") == [20]


def follow(best: Best, updates: int, **evaluation: float) -> None:
    best.follow({f"eval_{name}": value for name, value in evaluation.items()}, updates, lambda: state(updates))


def test_a_learner_that_was_started_again_leaves_out_what_was_evaluated_before(tmp_path):
    best = Best(tmp_path, print)
    follow(best, 1_000, started=1_000)
    follow(best, 1_010, started=1_000, version=1_000, **{"return": 10.0})
    best.write()
    # It goes on from 1,100 while 1,200, which it had come to, is evaluated.
    again = Best(tmp_path, print, {"eval_started": 1_200, "eval_version": 1_000, "eval_return": 10.0})
    follow(again, 1_101, started=1_200, version=1_000, **{"return": 10.0})
    follow(again, 1_150, started=1_200, version=1_200, **{"return": 12.0})
    follow(again, 1_201, started=1_200, version=1_200, **{"return": 12.0})
    follow(again, 1_305, started=1_300, version=1_200, **{"return": 12.0})
    again.write()
    assert numbers(tmp_path / "best") == [1_000]
    follow(again, 1_400, started=1_300, version=1_300, **{"return": 11.0})
    assert again.record == Record(11.0, None, 1_300, 1_305)


def test_params_that_are_newer_than_the_learners_own_are_of_an_earlier_life(tmp_path):
    best = Best(tmp_path, print)
    follow(best, 700, started=1_000)
    follow(best, 800, started=1_000, version=1_000, **{"return": 5.0})
    follow(best, 1_205, started=1_200, version=1_000, **{"return": 5.0})
    assert best.record is None
    follow(best, 1_300, started=1_200, version=1_200, **{"return": 4.0})
    assert best.record == Record(4.0, None, 1_200, 1_205)


def test_a_state_that_may_have_failed_is_not_written(tmp_path):
    best = Best(tmp_path, print)
    offered(best, (1.0, 10))
    best.write(sound=9)
    assert not numbers(tmp_path / "best")
    best.write(sound=10)
    assert numbers(tmp_path / "best") == [10]


def test_of_another_nodes_evaluation_the_state_is_kept_from_when_it_began(tmp_path):
    best = Best(tmp_path, print)
    follow(best, 5)
    follow(best, 12, started=10)
    follow(best, 500, started=10)
    follow(best, 900, started=10, version=10, **{"return": 1.0, "return_se": 0.1})
    assert best.record == Record(1.0, 0.1, 10, 12)
    best.write()
    assert restored(tmp_path)[0] == 12.0
    # The next one has begun before the learner hears of the result.
    follow(best, 1_010, started=1_000, version=10, **{"return": 1.0})
    follow(best, 1_500, started=1_490, version=1_000, **{"return": 2.0})
    assert best.record == Record(2.0, None, 1_000, 1_010)
    follow(best, 1_600, started=1_490, version=1_490, **{"return": 3.0})
    assert best.record == Record(3.0, None, 1_490, 1_500)
    # It began and ended between two heartbeats.
    follow(best, 1_702, started=1_700, version=1_700, **{"return": 4.0})
    assert best.record == Record(4.0, None, 1_700, 1_702)
    follow(best, 2_000, started=1_900, version=1_900, **{"return": 0.0})
    best.write()
    assert restored(tmp_path)[0] == 1_702.0


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(Record) if each.name != "member"])
def test_a_record_that_lacks_a_field_is_refused(tmp_path, field):
    from boonta.nodes.snapshots import schema
    from boonta.nodes.snapshots.best import _RECORD

    content = dataclasses.asdict(record(1.0, 10))
    del content[field]
    with pytest.raises(ValueError, match=field):
        schema.load(_RECORD, json.dumps(content))
