import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from boonta.agents import descent, optimisation
from boonta.agents.descent import make_schedule
from boonta.agents.groups import Optimiser

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

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
        return jnp.sum(params * batch), optimisation.Outcome(None, {"drawn": jax.random.uniform(context.key)})

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
    np.testing.assert_allclose(update.params(state), [0.5, 2.5], rtol=1e-5)  # The length of the first step is the rate.


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
    assert make_schedule(Optimiser(learning_rate=0.5))(1000) == 0.5


def test_weights_decay_apart_from_the_gradient_and_biases_do_not():
    start = jnp.array([[1.0, 2.0]])
    update = make_update("adam", eps=1e-8, weight_decay=0.1, init=lambda key: start)
    state, _, _ = update.step(update.init(jax.random.PRNGKey(0)), jnp.array([[3.0, -4.0]]))
    np.testing.assert_allclose(update.params(state), [[0.5 - 0.5 * 0.1 * 1.0, 2.5 - 0.5 * 0.1 * 2.0]], rtol=1e-5)
    update = make_update("adam", eps=1e-8, weight_decay=0.1)  # Arrays of rank 1 are biases.
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


def test_a_target_may_follow_slowly_and_only_a_part():
    target = optimisation.Target(period=2, tau=0.25, part=lambda params: params[:1])
    update = make_update("sgd", target=target)
    state = update.init(jax.random.PRNGKey(0))
    np.testing.assert_array_equal(state.target_params, [1.0])
    state, _, _ = update.step(state, jnp.array([4.0, 4.0]))  # 1 - 0.5 * 4
    np.testing.assert_array_equal(state.target_params, [1.0])
    state, _, _ = update.step(state, jnp.array([4.0, 4.0]))
    np.testing.assert_allclose(state.params, [-3.0, -2.0])
    np.testing.assert_allclose(state.target_params, [0.75 * 1.0 + 0.25 * -3.0])


def test_the_default_update_is_the_plain_one_to_the_bit():
    """One gradient, one step of optax, with the keys that a plain loop would draw."""

    def loss(params, context, batch):
        drawn = jax.random.uniform(context.key, params.shape)
        return jnp.sum(jnp.sin(params * batch + drawn)), optimisation.Outcome(None, {})

    settings = Optimiser("adam", 0.3, anneal_updates=9, max_grad_norm=0.7)
    update = optimisation.make_update(lambda key: jax.random.normal(key, (5,)), loss, settings)
    state = update.init(jax.random.PRNGKey(3))
    rate = optax.linear_schedule(0.3, 0.0, 9)
    plain = optax.chain(optax.clip_by_global_norm(0.7), optax.adamw(rate, eps_root=1e-16, weight_decay=0.0))
    key, init_key = jax.random.split(jax.random.PRNGKey(3))
    params = jax.random.normal(init_key, (5,))
    opt_state = plain.init(params)
    for t in range(4):
        batch = jnp.arange(5.0) + t
        key, loss_key = jax.random.split(key)
        gradient = jax.grad(lambda p, k, b: jnp.sum(jnp.sin(p * b + jax.random.uniform(k, p.shape))))
        change, opt_state = plain.update(gradient(params, loss_key, batch), opt_state, params)
        params = optax.apply_updates(params, change)
        state, _, _ = update.step(state, batch)
        np.testing.assert_array_equal(state.params, params)
    np.testing.assert_array_equal(state.key, key)


def test_groups_of_params_have_optimisers_of_their_own():
    def loss(params, context, batch):
        return 3 * params["actor"] + 4 * params["critic"][0], optimisation.Outcome(None, {})

    def init(key):
        return {"actor": jnp.float32(1.0), "critic": jnp.ones(1)}

    settings = {"actor": Optimiser("sgd", 0.1), "critic": Optimiser("sgd", 0.5, anneal_updates=2, max_grad_norm=1.0)}
    update = optimisation.make_update(init, loss, settings)
    state, _, metrics = update.step(update.init(jax.random.PRNGKey(0)), None)
    state, _, metrics = update.step(state, None)
    np.testing.assert_allclose(state.params["actor"], 1 - 2 * 0.1 * 3, rtol=1e-6)
    np.testing.assert_allclose(state.params["critic"], [1 - 0.5 - 0.25], rtol=1e-6)
    assert float(metrics["grad_norm/actor"]) == 3 and float(metrics["grad_norm/critic"]) == 4
    np.testing.assert_allclose([metrics["learning_rate/actor"], metrics["learning_rate/critic"]], [0.1, 0.25])
    with pytest.raises(
        ValueError, match=r"optimisers are for the params \['actor'\], but the params are \['actor', 'c"
    ):
        optimisation.make_update(init, loss, {"actor": settings["actor"]}).init(jax.random.PRNGKey(0))
    with pytest.raises(ValueError, match=r"optimisers are for the params \['actor', 'critic'\], but .* are ArrayImpl"):
        optimisation.make_update(lambda key: START, loss, settings).init(jax.random.PRNGKey(0))


def test_an_optimiser_of_ones_own_takes_the_place_of_settings():
    """It sees all arrays of the params as they are, however many, and has no learning rate that we know."""
    params = {f"leaf {i}": jnp.full(i + 1, 2.0) for i in range(descent.FEW + 1)}

    def loss(params, context, batch):
        return 3 * sum(map(jnp.sum, params.values())), optimisation.Outcome(None, {})

    own = optax.masked(optax.sgd(lambda steps: 0.1 * (steps + 1)), {name: name != "leaf 0" for name in params})
    own = optax.chain(own, optax.masked(optax.set_to_zero(), {name: name == "leaf 0" for name in params}))
    update = optimisation.make_update(lambda key: params, loss, own)
    state, _, metrics = jax.jit(update.step)(update.init(jax.random.PRNGKey(0)), None)
    state, _, metrics = jax.jit(update.step)(state, None)
    np.testing.assert_allclose(state.params["leaf 0"], [2.0])
    np.testing.assert_allclose(state.params["leaf 7"], np.full(8, 2 - 3 * (0.1 + 0.2)), rtol=1e-6)
    numbers = sum(leaf.size for leaf in params.values())
    np.testing.assert_allclose(metrics["grad_norm"], 3 * np.sqrt(numbers), rtol=1e-6)
    np.testing.assert_allclose(metrics["update_norm"], 0.6 * np.sqrt(numbers - 1), rtol=1e-6)
    assert "learning_rate" not in metrics


def test_an_optimiser_of_ones_own_is_for_all_of_several_or_for_those_named():
    sgd, lion = Optimiser("sgd", 0.1), optax.lion(0.5)
    several = {"actor": sgd, "critic": sgd}
    assert descent.chosen(several, None) == several and descent.chosen(sgd, None) == sgd
    assert descent.chosen(sgd, lion) is lion
    assert descent.chosen(several, lion) == {"actor": lion, "critic": lion}
    assert descent.chosen(several, {"critic": lion}) == {"actor": sgd, "critic": lion}
    with pytest.raises(ValueError, match=r"an entry 'critics'; the agent's optimisers are \['actor', 'critic'\]"):
        descent.chosen(several, {"critics": lion})


def test_an_optimiser_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"optimiser is <function adam .*; it must be settings .* or an optax"):
        optimisation.make_update(lambda key: START, lambda *_: None, optax.adam)


def test_an_optimiser_that_needs_more_than_gradients_is_refused():
    def loss(params, context, batch):
        return jnp.sum(params), optimisation.Outcome(None, {})

    update = optimisation.make_update(lambda key: START, loss, optax.polyak_sgd())
    with pytest.raises(ValueError, match=r"optimiser: .*'value'; it must need nothing but gradients and params"):
        jax.eval_shape(update.step, jax.eval_shape(update.init, jax.random.PRNGKey(0)), None)


@pytest.mark.parametrize("kind", ["adam", "rmsprop", "sgd"])
def test_many_arrays_as_one_vector_descend_as_they_do_one_by_one(kind, monkeypatch):
    shapes = [(3, 2), (2,), (2, 4), (4,), ()]
    params = {f"layer_{i}": jax.random.normal(jax.random.PRNGKey(i), shape) for i, shape in enumerate(shapes)}
    gradient = jax.tree.map(lambda x: 3 * jnp.cos(x), params)
    weight_decay = {"weight_decay": 0.1} if kind == "adam" else {}
    settings = Optimiser(kind, 0.1, max_grad_norm=0.5, **weight_decay)

    def descend(few: int):
        monkeypatch.setattr(descent, "FEW", few)
        made = descent.make_descent(settings, {})
        moved, state, metrics = params, made.init(params), {}
        for updates in range(3):
            moved, state, metrics = made.step(gradient, state, moved, jnp.int32(updates))
        return moved, metrics, max(x.ndim for x in jax.tree.leaves(state))

    one_by_one, packed = descend(len(shapes)), descend(len(shapes) - 1)
    assert (one_by_one[2], packed[2]) == ((0, 0) if kind == "sgd" else (2, 1))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), one_by_one[:2], packed[:2])


def test_only_what_is_published_goes_to_actors():
    def loss(params, context, batch):
        return params["actor"] + params["critic"], optimisation.Outcome(None, {}, batch)

    update = optimisation.make_update(
        lambda key: {"actor": jnp.float32(1.0), "critic": jnp.float32(2.0)},
        loss,
        Optimiser("sgd", 0.5),
        statistics=optimisation.Statistics(lambda: jnp.float32(0.0), lambda known, new: known + new),
        published=lambda params, statistics: (params["actor"], statistics),
    )
    state, _, _ = update.step(update.init(jax.random.PRNGKey(0)), jnp.float32(7.0))
    assert update.params(state) == (0.5, 7.0)
    assert make_update().params(make_update().init(jax.random.PRNGKey(0))) is not None


def test_the_learning_rate_of_what_rarely_moves_falls_by_updates():
    """The policy moves in the second and the fourth update, by the rates of these."""

    def loss(params, context, batch):
        return params["policy"] + params["critic"], optimisation.Outcome(None, {})

    settings = {name: Optimiser("sgd", 0.4, anneal_updates=4) for name in ("policy", "critic")}
    update = optimisation.make_update(
        lambda key: {"policy": jnp.float32(0.0), "critic": jnp.float32(0.0)}, loss, settings, periods={"policy": 2}
    )
    state = update.init(jax.random.PRNGKey(0))
    for _ in range(4):
        state, _, metrics = update.step(state, None)
    np.testing.assert_allclose(metrics["learning_rate/policy"], 0.1, rtol=1e-6)
    np.testing.assert_allclose(state.params["policy"], -(0.3 + 0.1), rtol=1e-6)
    np.testing.assert_allclose(state.params["critic"], -(0.4 + 0.3 + 0.2 + 0.1), rtol=1e-6)
