"""Running moments against numpy's of all rows at once."""

from __future__ import annotations

import jax
import numpy as np

from boonta.agents import normalisation


def test_merged_moments_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    batches = [{"a": 5 + 3 * rng.normal(size=(4, 2, 3)), "b": rng.normal(size=(4, 2))} for _ in range(3)]
    moments = normalisation.no_moments(jax.tree.map(lambda x: x[0, 0], batches[0]))
    for batch in batches:
        moments = normalisation.merge_moments(moments, normalisation.moments_of(batch))
    for name in "ab":
        rows = np.concatenate([batch[name].reshape(-1, *batch[name].shape[2:]) for batch in batches])
        assert moments.rows == len(rows)
        np.testing.assert_allclose(moments.mean[name], rows.mean(0), rtol=1e-5)
        np.testing.assert_allclose(moments.variance[name], rows.var(0), rtol=1e-5)
        shown = normalisation.normalise(rows, normalisation.Moments(1, moments.mean[name], moments.variance[name]))
        np.testing.assert_allclose([shown.mean(), shown.std()], [0, 1], atol=1e-5)


def test_nothing_seen_changes_nothing():
    row = np.array([3.0, -20.0])
    nothing = normalisation.no_moments(row)
    np.testing.assert_allclose(normalisation.normalise(row, nothing), [3, -10], rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, normalisation.merge_moments(nothing, nothing), nothing)
    none = normalisation.merge_moments(normalisation.no_moments([]), normalisation.moments_of([]))
    assert (none.rows, none.mean, none.variance) == (0, [], [])
