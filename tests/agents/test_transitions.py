"""A batch of sequences as transitions; the table that keeps the ratio of updates to env steps."""

from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from boonta.agents.base import Batch, Steps
from boonta.agents.heads import real_actions
from boonta.agents.returns import mean_over
from boonta.agents.transitions import TransitionReplay, make_table, transitions_of
from boonta.envs.base import FIRST, LAST, MID
from boonta.nodes.fused.schedule import ratio

BOX = real_actions(specs.BoundedArray((1,), np.float32, 0, 4), "SAC")


def batch_of(kinds, discount):
    """Two slots: the rows of the second are those of the first and 100; row t shows t, acts t / 2 and earned 10 t."""
    rows = np.arange(len(kinds), dtype=np.float32)
    shown = np.stack([rows, rows + 100], axis=1)[..., None]
    both = lambda x, dtype: np.stack([np.asarray(x, dtype)] * 2, axis=1)  # noqa: E731
    kind, factor = both(kinds, np.int32), both(discount, np.float32)
    reward = both(10 * rows, np.float32)
    return Batch(Steps(shown, kind, reward, factor, both(rows / 2, np.float32)[..., None], (), kind), np.ones(2))


def test_one_transition_of_a_sequence():
    found = transitions_of(batch_of([MID, MID], [1, 1]), BOX, TransitionReplay(), 1, 0.9)
    np.testing.assert_array_equal(found.stack_tm1[..., 0, 0], [0, 100])
    np.testing.assert_array_equal(found.stack_t[..., 0, 0], [1, 101])
    np.testing.assert_array_equal(found.action_tm1, [[-1], [-1]])  # The least of the box from 0 to 4.
    np.testing.assert_allclose(found.reward_t, [10, 10])
    np.testing.assert_allclose(found.discount_t, [0.9, 0.9])
    np.testing.assert_array_equal(found.mask_tm1, [1, 1])


def test_what_the_env_ignored_does_not_count():
    found = transitions_of(batch_of([LAST, FIRST], [0, 1]), BOX, TransitionReplay(), 1, 0.9)
    np.testing.assert_array_equal(found.mask_tm1, [0, 0])
    assert float(mean_over(found.mask_tm1)(np.array([3.0, 5.0]))) == 0
    found = found._replace(mask_tm1=np.array([1.0, 0.0]))
    assert float(mean_over(found.mask_tm1)(np.array([3.0, 5.0]))) == 3


def test_several_transitions_of_several_steps_stop_at_a_truncation():
    data = TransitionReplay(batch_size=4, unroll_length=2, bootstrap_length=2)
    found = transitions_of(batch_of([MID, MID, LAST, FIRST], [1, 1, 1, 1]), BOX, data, 1, 0.5)
    np.testing.assert_array_equal(found.stack_tm1[..., 0, 0], [0, 1, 100, 101])  # Sequence after sequence.
    np.testing.assert_array_equal(found.stack_t[..., 0, 0], [2, 2, 102, 102])
    np.testing.assert_allclose(found.reward_t[:2], [10 + 0.5 * 20, 20])
    np.testing.assert_allclose(found.discount_t[:2], [0.25, 0.5])
    np.testing.assert_allclose(found.action_tm1[:2, 0], [-1, -0.75])


def test_frames_are_stacked():
    found = transitions_of(batch_of([MID, MID, MID], [1, 1, 1]), BOX, TransitionReplay(), 2, 0.9)
    np.testing.assert_array_equal(found.stack_tm1[0, 0], [0, 1])
    np.testing.assert_array_equal(found.stack_t[0, 0], [1, 2])


def test_the_table_keeps_the_ratio_of_updates_to_env_steps():
    table = make_table(TransitionReplay(batch_size=64, updates_per_env_step=0.5), frame_stack=1)
    assert (table.sequence_length, table.period, table.batch_size, table.samples_per_insert) == (2, 1, 64, 32)
    assert (table.size, table.min_size) == (1_000_000, 1_000)
    data = TransitionReplay(batch_size=64, updates_per_env_step=20, unroll_length=8, bootstrap_length=3)
    table = make_table(data, frame_stack=4)
    assert (table.sequence_length, table.period, table.batch_size) == (3 + 8 + 3, 8, 8)
    # A sequence is 8 env steps, so 160 updates; each draws 8 sequences.
    assert table.samples_per_insert == 160 * 8 and (table.size, table.min_size) == (125_000, 125)


@pytest.mark.parametrize(("updates", "round_"), [(1 / 16, (4, 1)), (1.0, (1, 4)), (20.0, (1, 80))])
def test_a_fused_program_keeps_it_exactly(updates, round_):
    """By rounds of so many rollouts of one step, here in four slots, and so many updates."""
    assert ratio(make_table(TransitionReplay(updates_per_env_step=updates), 1), num_envs=4) == round_


def test_a_ratio_that_no_round_keeps_is_refused():
    with pytest.raises(ValueError, match="that makes 0.004 updates a rollout; it must be a fraction over at most 64"):
        ratio(make_table(TransitionReplay(updates_per_env_step=0.001), 1), num_envs=4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"updates_per_env_step": 0.0}, "TransitionReplay: updates_per_env_step is 0.0; it must be above 0"),
        ({"batch_size": 10, "unroll_length": 4}, "batch_size is 10; it must be a multiple of unroll_length, 4"),
        ({"min_size": 10, "size": 5}, "min_size is 10; it must be at most size, 5"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        TransitionReplay(**settings)
