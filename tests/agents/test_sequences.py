import jax
import numpy as np
import pytest

from boonta.agents import sequences
from boonta.agents.base import Batch, Steps
from boonta.envs.base import FIRST, LAST, MID


def random_step_types(rng, rows, batch):
    """Streams FIRST, MID…, LAST, FIRST, … of random episode lengths, down to FIRST, LAST."""
    step_type = np.zeros((rows, batch), np.int32)
    for b in range(batch):
        stream = []
        while len(stream) < rows:
            stream += [FIRST] + [MID] * rng.integers(0, 6) + [LAST]
        step_type[:, b] = stream[:rows]
    return step_type


@pytest.mark.parametrize("length", [1, 2, 4])
def test_stack_equals_push_bit_by_bit(length):
    rng = np.random.default_rng(length)
    rows, batch = 40, 5
    step_type = random_step_types(rng, rows, batch)
    observation = {
        "image": rng.integers(1, 256, (rows, batch, 3, 2)).astype(np.uint8),
        "number": rng.normal(size=(rows, batch)).astype(np.float32),
    }
    frames = jax.tree.map(lambda x: np.zeros((*x.shape[1:], length - 1), x.dtype), observation)
    acted = []
    for t in range(rows):
        stacked, frames = sequences.push(frames, jax.tree.map(lambda x, t=t: x[t], observation), step_type[t])
        acted.append(stacked)
    acted = jax.tree.map(lambda *x: np.stack(x), *acted)
    for start in range(12):
        window = slice(start, start + length - 1 + 21)
        learned = sequences.stack(jax.tree.map(lambda x, w=window: x[w], observation), step_type[window], length)
        expected = jax.tree.map(lambda x, s=start: x[s + length - 1 : s + length - 1 + 21], acted)
        jax.tree.map(np.testing.assert_array_equal, learned, expected)
        assert learned["image"].dtype == np.uint8


def test_stack_stops_at_the_start_of_the_episode():
    step_type = np.array([MID, LAST, FIRST, MID, MID], np.int32)[:, None]
    observation = np.array([1, 2, 3, 4, 5], np.uint8)[:, None]
    stacked = sequences.stack(observation, step_type, 3)
    np.testing.assert_array_equal(stacked[:, 0], [[0, 0, 3], [0, 3, 4], [3, 4, 5]])


def test_transitions_shift_and_mask():
    def column(*x):
        return np.array(x, np.float32)[:, None]

    steps = Steps(
        observation=(),
        step_type=np.array([FIRST, MID, LAST, FIRST, LAST], np.int32)[:, None],
        reward=column(0, 1, 2, 0, 4),
        discount=column(1, 1, 0, 1, 1),  # The first episode terminates, the second is truncated.
        action=np.array([10, 11, 12, 13, 14], np.int32)[:, None],
        extras=(),
        version=(),
    )
    action_tm1, reward_t, discount_t, mask_tm1 = sequences.transitions(steps, 0.5)
    np.testing.assert_array_equal(action_tm1[:, 0], [10, 11, 12, 13])
    np.testing.assert_array_equal(reward_t[:, 0], [1, 2, 0, 4])
    np.testing.assert_array_equal(discount_t[:, 0], [0.5, 0, 0.5, 0.5])
    np.testing.assert_array_equal(mask_tm1[:, 0], [1, 1, 0, 1])


def test_drop_context_leaves_the_transitions_and_one_row():
    steps = Steps(*[np.arange(24)] * 7, core=np.arange(1))
    dropped = sequences.drop_context(steps, 4)
    assert dropped.reward.tolist() == list(range(3, 24)) and dropped.core.tolist() == [0]


def test_selected_sequences_keep_their_own_probabilities():
    whole = Batch(Steps(*[np.arange(12).reshape(3, 4)] * 7), np.array([0.1, 0.2, 0.3, 0.4]))
    batch = sequences.select(whole, slice(1, None, 2))
    assert batch.steps.reward.tolist() == [[1, 3], [5, 7], [9, 11]] and batch.probability.tolist() == [0.2, 0.4]
