"""N-step returns, errors of fresh sequences and the rescaling of values, by hand, in numpy and in JAX."""

from __future__ import annotations

import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Steps
from boonta.agents.exploration import Estimates
from boonta.agents.light_rlax import rlax
from boonta.agents.n_step import FreshErrors, ahead_of_roots, n_step, rescaled, sequence_error, unscaled
from boonta.agents.returns import value_targets
from boonta.envs.base import FIRST, LAST, MID
from boonta.tests.helpers.deadline import DEADLINE_S

ON = [FIRST, MID, MID, MID, MID, MID], [0, 1, 2, 3, 4, 5], [1, 1, 1, 1, 1, 1]
ENDED = [MID, MID, LAST, FIRST, MID, MID], [0, 1, 2, 0, 4, 5], [1, 1, 0, 1, 1, 1]
TRUNCATED = [MID, MID, LAST, FIRST, MID, MID], [0, 1, 2, 0, 4, 5], [1, 1, 1, 1, 1, 1]
VALUE = np.array([10, 20, 30, 40, 50, 60], np.float32)[:, None]
# By hand, with a discount of 1/2 and N = 2: reward, discount, rows ahead, mask of roots 0 to 3; the targets where the
# mask is 1.
CASES = {
    "goes on": (ON, [2, 3.5, 5, 6.5], [0.25] * 4, [2, 2, 2, 2], [1, 1, 1, 1], [9.5, 13.5, 17.5, 21.5]),
    "terminates": (ENDED, [2, 2, 2, 6.5], [0, 0, 0.25, 0.25], [2, 1, 2, 2], [1, 1, 0, 1], [2, 2, 14.5, 21.5]),
    "truncates": (
        TRUNCATED,
        [2, 2, 2, 6.5],
        [0.25, 0.5, 0.25, 0.25],
        [2, 1, 2, 2],
        [1, 1, 0, 1],
        [9.5, 17, 14.5, 21.5],
    ),
}


def columns(case):
    step_type, reward, discount = case
    return (
        np.array(step_type, np.int32)[:, None],
        np.array(reward, np.float32)[:, None],
        np.array(discount, np.float32)[:, None],
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("numbers", [np.asarray, jnp.asarray])
def test_by_hand(name, numbers):
    case, reward, discount, ahead, mask, target = CASES[name]
    found = n_step(*map(numbers, columns(case)), 0.5, 2)
    for got, wanted in zip(found, (reward, discount, ahead, mask)):
        np.testing.assert_allclose(np.asarray(got)[:, 0], wanted)
    assert found.ahead.dtype == np.int32 and found.reward.dtype == np.float32
    targets = found.reward + found.discount * ahead_of_roots(numbers(VALUE), found.ahead, 2)
    np.testing.assert_allclose(np.asarray(targets)[:, 0], target)


def test_as_rlax_computes_them_within_an_episode():
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 12, 3)).astype(np.float32)
    discount = np.where(rng.random((12, 3)) < 0.2, 0, 1).astype(np.float32)
    step_type = np.where(discount == 0, LAST, MID).astype(np.int32)
    found = n_step(step_type, reward, discount, 0.9, 4)
    got = found.reward + found.discount * ahead_of_roots(value, found.ahead, 4)
    for slot in range(3):
        wanted = rlax.n_step_bootstrapped_returns(reward[1:, slot], 0.9 * discount[1:, slot], value[1:, slot], 4)
        np.testing.assert_allclose(got[:, slot], wanted[:8], rtol=1e-5)


def test_across_episodes_they_are_value_targets_of_a_trace_of_one():
    rng = np.random.default_rng(0)
    kinds = np.full((12, 50), MID, np.int32)
    for t in range(1, 12):
        kinds[t] = np.where(kinds[t - 1] == LAST, FIRST, np.where(rng.random(50) < 0.3, LAST, MID))
    discount = np.where((kinds == LAST) & (rng.random((12, 50)) < 0.5), 0, 1).astype(np.float32)
    reward = np.where(kinds == FIRST, 0, rng.normal(size=(12, 50))).astype(np.float32)
    value = rng.normal(size=(12, 50)).astype(np.float32)
    for n in (1, 4):
        found = n_step(kinds, reward, discount, 0.9, n)
        ours = found.reward + found.discount * ahead_of_roots(value, found.ahead, n)
        theirs = value_targets(Steps((), kinds, reward, discount, kinds, (), kinds), value, 0.9, n, 1.0)[: 12 - n]
        counts = found.mask > 0
        assert (counts == (kinds[: 12 - n] != LAST)).all()
        np.testing.assert_allclose(ours[counts], theirs[counts], rtol=1e-4, atol=1e-5)


def test_rows_of_any_kind_are_selected():
    ahead = np.array([[1], [2]], np.int32)
    frames = np.arange(4 * 2, dtype=np.uint8).reshape(4, 1, 2)
    legal = np.array([[[True, False]], [[False, True]], [[True, True]], [[False, False]]])
    for numbers in (np.asarray, jnp.asarray):
        chosen = ahead_of_roots(numbers(frames), ahead, 2)
        assert chosen.dtype == np.uint8 and np.asarray(chosen)[:, 0].tolist() == [[2, 3], [6, 7]]
        chosen = ahead_of_roots(numbers(legal), ahead, 2)
        assert chosen.dtype == bool and np.asarray(chosen)[:, 0].tolist() == [[False, True], [False, False]]


def test_a_sequence_mixes_its_largest_error_with_the_mean():
    errors = np.array([[1, 9], [3, 9], [100, 9]], np.float32)
    mask = np.array([[1, 0], [1, 0], [0, 0]], np.float32)
    np.testing.assert_allclose(sequence_error(errors, mask, 0.9), [0.9 * 3 + 0.1 * 2, 0])
    np.testing.assert_allclose(sequence_error(errors, mask, 0.0), [2, 0])


def test_rescaling_is_rlaxs():
    x = np.array([-300, -1, -1e-3, 0, 1e-3, 2, 1e4], np.float32)
    np.testing.assert_allclose(rescaled(x), rlax.SIGNED_HYPERBOLIC_PAIR.apply(x), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(
        unscaled(rescaled(x)), rlax.SIGNED_HYPERBOLIC_PAIR.apply_inv(rescaled(x)), rtol=1e-3, atol=3e-4
    )


def test_the_inverse_keeps_the_digits_of_float32():
    x = np.concatenate([np.linspace(-300, 300, 601), np.linspace(-1, 1, 201), [1e4, -1e5]]).astype(np.float32)
    for back in (unscaled(rescaled(x)), jax.jit(lambda x: unscaled(rescaled(x)))(x)):
        assert back.dtype == np.float32
        np.testing.assert_allclose(back, x, rtol=2e-6, atol=1e-6)


def steps_of(case, chosen, best, context=0):
    step_type, reward, discount = columns(case)
    extras = Estimates(np.array(chosen, np.float32)[:, None], np.array(best, np.float32)[:, None])
    steps = Steps((), step_type, reward, discount, (), extras, ())
    return jax.tree.map(lambda x: np.concatenate([np.zeros_like(x[:1])] * context + [x]), steps)


def test_fresh_errors_by_hand():
    chosen, best = [1, 2, 3, 4, 5, 6], VALUE[:, 0]
    plain = FreshErrors(discount=0.5, length=2, roots=4)
    np.testing.assert_allclose(plain(steps_of(ON, chosen, best)), [(8.5 + 11.5 + 14.5 + 17.5) / 4])
    largest = FreshErrors(discount=0.5, length=2, roots=4, largest_share=1.0, context=3, unit=2.0)
    np.testing.assert_allclose(largest(steps_of(ENDED, chosen, best, context=3)), [17.5 / 2])
    clipped = FreshErrors(discount=0.5, length=1, roots=1, clip=True)  # The reward of 5 counts as 1.
    np.testing.assert_allclose(clipped(steps_of(([MID, MID], [0, 5], [1, 1]), [0, 0], [0, 4])), [3])
    rescaling = FreshErrors(discount=0.5, length=1, rescale=True)
    wanted = rlax.SIGNED_HYPERBOLIC_PAIR.apply(jnp.float32(7.0)) - 1
    np.testing.assert_allclose(rescaling(steps_of(([MID, MID], [0, 5], [1, 1]), [1, 0], [0, 4])), [wanted], rtol=1e-4)


def test_fresh_errors_are_the_same_traced():
    errors = FreshErrors(discount=0.5, length=2, roots=4, largest_share=0.9)
    steps = steps_of(TRUNCATED, [1, 2, 3, 4, 5, 6], VALUE[:, 0])
    np.testing.assert_allclose(jax.jit(errors)(steps), errors(steps), rtol=1e-6)


def test_an_actor_without_jax_can_compute_them():
    """From an inference node extras come as a tuple of their leaves."""
    errors = FreshErrors(discount=0.5, length=1)
    code = f"""
import pickle, sys, numpy as np
from boonta.agents.base import Steps
errors = pickle.loads({pickle.dumps(errors)!r})
number = np.ones((2, 3), np.float32)
steps = Steps((), number.astype(np.int32), number, number, (), (number, 3 * number), ())
assert errors(steps).tolist() == [1.5] * 3, errors(steps)
assert "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S)
