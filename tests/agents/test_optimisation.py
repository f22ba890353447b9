import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents import optimisation
from boonta.agents.groups import Optimiser

START = jnp.array([1.0, 2.0])


def make_update(
    name="rmsprop",
    eps=0.1,
    max_grad_norm=1e9,
    anneal_updates=None,
    target=None,
    init=lambda key: START,
    **kwargs,
):
    """Descends on `sum(params * batch)`, whose gradient is the batch."""
    optimiser = Optimiser(name, 0.5, anneal_updates, max_grad_norm, eps, decay=0.9, **kwargs)

    def loss(params, context, batch):
        return jnp.sum(params * batch), (None, {"drawn": jax.random.uniform(context.key)})

    return optimisation.make_update(init, loss, optimiser, target=target)


def test_rmsprop_by_hand():
    update = make_update()
    state, priorities, metrics = update.step(update.init(jax.random.PRNGKey(0)), jnp.array([3.0, 4.0]))
    mean_square = 0.9 * 1.0 + 0.1 * np.array([9.0, 16.0])
    np.testing.assert_allclose(
        update.params(state), [1.0, 2.0] - 0.5 * np.array([3.0, 4.0]) / np.sqrt(mean_square + 0.1), rtol=1e-5
    )
    assert priorities is None and int(state.updates) == 1
    assert float(metrics["loss"]) == 11 and float(metrics["grad_norm"]) == 5


def test_adam_by_hand():
    update = make_update("adam", eps=1e-8)
    state, _, _ = update.step(update.init(jax.random.PRNGKey(0)), jnp.array([3.0, -4.0]))
    np.testing.assert_allclose(update.params(state), [0.5, 2.5], rtol=1e-5)  # the first step has the rate's length


def test_gradients_are_clipped_by_their_global_norm():
    update = make_update(max_grad_norm=1.0)
    state, _, metrics = update.step(update.init(jax.random.PRNGKey(0)), jnp.array([30.0, 40.0]))
    clipped = np.array([0.6, 0.8])
    expected = [1.0, 2.0] - 0.5 * clipped / np.sqrt(0.9 + 0.1 * clipped**2 + 0.1)
    np.testing.assert_allclose(update.params(state), expected, rtol=1e-5)
    np.testing.assert_allclose(metrics["grad_norm"], 50)


def test_learning_rate_falls_to_zero_and_keys_are_consumed():
    update = make_update(anneal_updates=4)
    state = update.init(jax.random.PRNGKey(0))
    rates, drawn = [], []
    for _ in range(6):
        state, _, metrics = update.step(state, jnp.ones(2))
        rates.append(float(metrics["learning_rate"]))
        drawn.append(float(metrics["drawn"]))
    np.testing.assert_allclose(rates, [0.5, 0.375, 0.25, 0.125, 0, 0])
    assert len(set(drawn)) == 6


def test_constant_learning_rate():
    assert optimisation.make_schedule(Optimiser(learning_rate=0.5))(1000) == 0.5


def test_weights_decay_apart_from_the_gradient_and_biases_do_not():
    start = jnp.array([[1.0, 2.0]])
    update = make_update("adam", eps=1e-8, weight_decay=0.1, init=lambda key: start)
    state, _, _ = update.step(update.init(jax.random.PRNGKey(0)), jnp.array([[3.0, -4.0]]))
    np.testing.assert_allclose(update.params(state), [[0.5 - 0.5 * 0.1 * 1.0, 2.5 - 0.5 * 0.1 * 2.0]], rtol=1e-5)
    update = make_update("adam", eps=1e-8, weight_decay=0.1)  # rank 1: a bias
    state, _, _ = update.step(update.init(jax.random.PRNGKey(0)), jnp.array([3.0, -4.0]))
    np.testing.assert_allclose(update.params(state), [0.5, 2.5], rtol=1e-5)


def test_the_target_is_a_copy_made_every_so_many_updates():
    update = make_update(target=optimisation.Target(period=2))
    state = update.init(jax.random.PRNGKey(0))
    np.testing.assert_array_equal(state.target_params, START)
    state, _, _ = update.step(state, jnp.array([3.0, 4.0]))
    np.testing.assert_array_equal(state.target_params, START)
    state, _, _ = update.step(state, jnp.array([3.0, 4.0]))
    np.testing.assert_array_equal(state.target_params, state.params)
    assert make_update().init(jax.random.PRNGKey(0)).target_params == ()
