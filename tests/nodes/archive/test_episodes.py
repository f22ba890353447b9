"""Sequences go back into the episodes that they were cut from."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from boonta.agents.base import Steps
from boonta.envs.base import FIRST, LAST, MID
from boonta.nodes.archive.episodes import stitch


def stream(slot: int, lengths: list[int], seed: int = 0) -> Steps:
    """Episodes of these lengths, one after another; the reward encodes the slot and the row."""
    step_type = np.concatenate([[FIRST] + [MID] * (length - 2) + [LAST] for length in lengths]).astype(np.int32)
    row = np.arange(len(step_type))
    noise = np.random.default_rng(seed).normal(size=(len(row), 2)).astype(np.float32)
    reward = (1000 * slot + row).astype(np.float32)
    ones = np.ones(len(row), np.float32)
    return Steps({"x": noise}, step_type, reward, ones, row.astype(np.int32), (), row.astype(np.int32))


def cut(steps: Steps, length: int, period: int, start: int = 0) -> list[Steps]:
    total = len(steps.step_type)
    starts = range(start, total - length + 1, period)
    return [jax.tree.map(lambda leaf, s=s: leaf[s : s + length], steps) for s in starts]


def interleave(*slots: list[Steps]) -> list[Steps]:
    return [sequence for together in zip(*slots, strict=True) for sequence in together]


def rewards(trajectories) -> list[list[float]]:
    return sorted(trajectory.reward.tolist() for trajectory in trajectories)


def test_episodes_of_interleaved_slots_come_back_whole_and_each_step_once():
    streams = [stream(slot, [3, 9, 2, 5, 5, 4], seed=slot) for slot in range(3)]
    sequences = interleave(*[cut(steps, length=8, period=5) for steps in streams])
    assert len(sequences) == 3 * 5
    expected = []
    for slot in range(3):
        ends = np.cumsum([0, 3, 9, 2, 5, 5, 4])
        rows = 1000.0 * slot + np.arange(28)
        expected += [rows[start:end].tolist() for start, end in zip(ends, ends[1:])]
    episodes = list(stitch(sequences, overlap=3))
    assert rewards(episodes) == sorted(expected)
    for episode in episodes:
        assert (episode.step_type[0], episode.step_type[-1]) == (FIRST, LAST)
        assert episode.observation["x"].shape == (len(episode.reward), 2)


def test_what_was_not_recorded_whole_comes_in_pieces_but_none_of_one_row():
    sequences = cut(stream(0, [6, 5, 5]), length=8, period=5, start=3)  # Rows 3 to 15, in two.
    assert rewards(stitch(sequences, overlap=3)) == [[3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13, 14, 15]]
    sequences = cut(stream(0, [6, 5, 5]), length=7, period=5, start=5)  # Row 5 is LAST, row 11 FIRST.
    assert rewards(stitch(sequences, overlap=2)) == [[6, 7, 8, 9, 10]]


def test_a_sequence_that_is_missing_parts_a_stream():
    sequences = cut(stream(0, [20, 6]), length=8, period=6)
    assert len(sequences) == 4
    del sequences[1]
    assert rewards(stitch(sequences, overlap=2)) == [list(range(8)), list(range(12, 20)), list(range(20, 26))]


def test_slots_that_saw_the_same_are_told_apart_by_what_they_earned():
    one, other = (cut(stream(slot, [9, 9]), length=8, period=5) for slot in (0, 1))
    episodes = stitch([one[0], other[0], other[1], one[1], one[2], other[2]], overlap=3)
    assert rewards(episodes) == [list(range(start, start + 9)) for start in (0, 9, 1000, 1009)]


def test_slots_that_agree_to_the_last_bit_keep_their_number():
    same = stream(0, [4, 4, 4, 4])
    sequences = interleave(cut(same, 6, 5), cut(same, 6, 5))
    episodes = rewards(stitch(sequences, overlap=1))
    assert episodes == sorted(2 * [list(range(start, start + 4)) for start in (0, 4, 8, 12)])


def test_one_of_two_that_agree_whose_beginning_is_missing_begins_where_it_was_recorded():
    first, second, _ = cut(stream(0, [4, 4, 4, 4]), 6, 5)
    expected = [[0, 1, 2, 3], [4, 5, 6, 7], [5, 6, 7], [8, 9, 10], [8, 9, 10]]
    assert rewards(stitch([first, second, second], overlap=1)) == expected


@pytest.mark.parametrize("period", [5, 7])
def test_sequences_that_do_not_overlap_are_not_joined(period):
    sequences = cut(stream(0, [20]), length=5, period=period)
    pieces = [list(range(start, start + 5)) for start in range(0, 16, period)]
    assert rewards(stitch(sequences, overlap=5 - period)) == pieces
