"""What is measured of a learner's step, and the loss that ends it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from boonta.nodes.learning.step import policy_lag, require_finite


def test_policy_lag_is_counted_in_updates():
    lag = policy_lag(7, jnp.array([[3, 7], [5, 5]]))
    assert lag == {"policy_lag": 2.0, "policy_lag_max": 4.0}


def test_policy_lag_is_exact_after_days_of_updates():
    """A float32 has only multiples of 128 there."""
    lag = policy_lag(jnp.int32(2**30 + 3), jnp.array([[2**30 + 1, 2**30], [2**30 + 3, 2**30 + 2]]))
    assert lag == {"policy_lag": 1.5, "policy_lag_max": 3.0}


@pytest.mark.parametrize("name", ["update_norm", "update_norm/critics"])
def test_a_change_of_the_params_that_is_not_finite_is_refused_though_the_loss_is(name):
    require_finite({"loss": 1.0, name: 0.0}, 7)
    with pytest.raises(FloatingPointError, match=f"the {name} is nan after 7 updates"):
        require_finite({"loss": 1.0, name: np.nan}, 7)


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_is_refused_with_the_number_of_updates(loss):
    require_finite({"loss": 1.0}, 1234)
    require_finite({}, 1234)  # An update need not have a loss.
    with pytest.raises(FloatingPointError, match=f"the loss is {loss} after 1,234 updates"):
        require_finite({"loss": loss}, 1234)
