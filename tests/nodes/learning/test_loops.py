"""Several updates in one program: in a loop and without one they are the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Update
from boonta.nodes.learning.loops import compiler_options, convolves_on_cpu, in_turn, updates_in_dispatch


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("unrolled", [False, True])
def test_each_update_goes_on_from_the_one_before_and_all_outputs_return(unrolled, number):
    def one(total, x):
        return total + x, {"before": total, "input": x}

    inputs = jnp.arange(1, number + 1)
    total, outputs = jax.jit(lambda inputs: in_turn(one, jnp.int32(10), inputs, number, unrolled))(inputs)
    assert total == 10 + sum(range(1, number + 1))
    np.testing.assert_array_equal(outputs["input"], inputs)
    np.testing.assert_array_equal(outputs["before"], [10, 11, 13][:number])


@pytest.mark.parametrize(("given", "updates"), [(None, 8), (1, 1), (3, 3)])
def test_a_program_may_name_another_number_of_updates_than_the_agent(given, updates):
    assert updates_in_dispatch(Update(None, None, None, at_once=8), given) == updates


def test_only_gradients_of_convolutions_on_cpu_stay_out_of_loops():
    def convolve(state, batch):
        return jnp.sum(jax.lax.conv(batch, state, (1, 1), "SAME"))

    def multiply(state, batch):
        return jnp.sum(state) * jnp.sum(batch)

    state, batch = jnp.ones((1, 1, 3, 3)), jnp.ones((2, 1, 8, 8))
    for loss, platform, slow in ((convolve, "cpu", True), (convolve, "tpu", False), (multiply, "cpu", False)):
        update = Update(None, lambda state, batch, loss=loss: (jax.grad(loss)(state, batch), None, {}), None)
        assert convolves_on_cpu(platform, update, state, batch) == slow


def test_options_for_convolutions_compile_and_change_no_result():
    def loss(x):
        return jnp.sum(jax.lax.conv(x, jnp.ones((4, 1, 3, 3)), (1, 1), "SAME") ** 2)

    assert compiler_options(convolves_on_cpu=False) == {}
    x = jnp.ones((2, 1, 8, 8))
    gradients = [
        jax.jit(jax.grad(loss), compiler_options=compiler_options(convolves))(x) for convolves in (False, True)
    ]
    np.testing.assert_allclose(*gradients, rtol=1e-5)
