from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import convolutions, encoders
from boonta.agents.base import Batch
from boonta.agents.groups import Optimiser, Torso
from boonta.agents.optimisation import Outcome, make_update
from boonta.envs.base import BoardView
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


@pytest.mark.parametrize(
    ("way", "size", "channels", "kernel", "stride"),
    [
        (convolutions.convolve_unstrided, 84, 4, 8, 4),
        (convolutions.convolve_unstrided, 20, 32, 4, 2),
        (convolutions.convolve_unstrided, 21, 3, 4, 2),
        (convolutions.convolve_unstrided, 9, 8, 3, 1),
        (convolutions.convolve_windows, 10, 4, 3, 1),
        (convolutions.convolve_windows, 8, 3, 3, 2),
        (convolutions.convolve_windows, 84, 4, 8, 4),
        (convolutions.convolve_windows, 21, 3, 4, 2),
    ],
)
def test_other_ways_compute_the_same_convolution(way, size, channels, kernel, stride):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, size, size + stride, channels)).astype(np.float32)
    w = rng.normal(size=(kernel, kernel, channels, 16)).astype(np.float32) / kernel / channels**0.5

    def value_and_gradients(convolve):
        y, back = jax.vjp(lambda x, w: convolve(x, w, stride), x, w)
        return y, back(jnp.cos(y))

    expected, actual = (jax.jit(value_and_gradients, static_argnums=0)(each) for each in (convolutions.convolve, way))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), actual, expected)


@pytest.mark.parametrize(
    ("torso", "shape"), [("shallow", (84, 84, 4)), ("nature", (84, 84, 4)), ("minatar", (10, 10, 7))]
)
def test_checkpoints_carry_over_between_backends(torso, shape, monkeypatch):
    f = hk.without_apply_rng(hk.transform(lambda x: encoders.encode_array(Torso(torso), x, "torso")))
    x = np.random.default_rng(0).integers(0, 256, (2, *shape)).astype(np.uint8)
    params = drawn(lambda key: f.init(key, x))
    features = {}
    for backend in ("cpu", "gpu"):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        shapes = jax.eval_shape(f.init, jax.random.PRNGKey(0), x)
        assert jax.tree.map(jnp.shape, shapes) == jax.tree.map(jnp.shape, params)
        features[backend] = jax.jit(lambda params: f.apply(params, x))(params)
    np.testing.assert_allclose(features["cpu"], features["gpu"], rtol=1e-4, atol=1e-5)


def test_on_cpu_a_board_needs_no_convolution_that_loops_are_slow_at():
    def network(torso: str, shape: tuple[int, ...]) -> str:
        f = hk.without_apply_rng(hk.transform(lambda x: encoders.encode_array(Torso(torso), x, "torso")))
        x = jnp.zeros((2, *shape), jnp.uint8)
        return str(jax.make_jaxpr(f.apply)(jax.eval_shape(f.init, jax.random.PRNGKey(0), x), x))

    assert "conv_general_dilated" not in network("minatar", (10, 10, 7))
    assert "conv_general_dilated" in network("nature", (84, 84, 4))


@pytest.mark.parametrize(("size", "stride"), [(8, 1), (9, 2), (8, 2)])
def test_a_padded_convolution_in_a_loop_is_haikus(size, stride):
    x = np.random.default_rng(0).normal(size=(2, size, size, 3)).astype(np.float32)
    ours = hk.without_apply_rng(hk.transform(lambda x: convolutions.PaddedConvolution(8, 3, stride, name="conv2_d")(x)))
    haikus = hk.without_apply_rng(hk.transform(lambda x: hk.Conv2D(8, 3, stride)(x)))
    params = drawn(lambda key: ours.init(key, x))
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, haikus.init(jax.random.PRNGKey(0), x))
    with convolutions.in_loop():
        y = ours.apply(params, x)
        assert "conv_general_dilated" not in str(jax.make_jaxpr(ours.apply)(params, x))
    np.testing.assert_allclose(y, haikus.apply(params, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("torso", ["shallow", "nature", "deep", "tower"])
def test_steps_on_minibatches_hold_no_convolution_that_loops_are_slow_at(torso):
    f = hk.without_apply_rng(hk.transform(lambda x: encoders.encode_array(Torso(torso), x, "torso")))

    def loss(params, context, images):
        return jnp.mean(f.apply(params, images) ** 2), Outcome(None, {})

    def traced(minibatches: int) -> str:
        update = make_update(
            lambda key: f.init(key, jnp.zeros((1, 84, 84, 4))),
            loss,
            Optimiser("sgd"),
            minibatches=minibatches,
            prepare=lambda params, context, batch: batch.steps,
        )
        batch = Batch(jnp.zeros((4, 84, 84, 4)), jnp.ones(4))
        return str(jax.make_jaxpr(update.step)(jax.eval_shape(update.init, jax.random.PRNGKey(0)), batch))

    assert "conv_general_dilated" in traced(minibatches=1)
    assert "conv_general_dilated" not in traced(minibatches=2)


def test_convolution_has_haikus_parameters():
    x = jnp.ones((1, 20, 20, 3))
    key = jax.random.PRNGKey(0)
    ours = hk.without_apply_rng(hk.transform(lambda x: encoders.Convolution(8, 4, 2, input_gradient=True)(x)))
    haikus = hk.without_apply_rng(hk.transform(lambda x: hk.Conv2D(8, 4, 2, padding="VALID")(x)))
    params = ours.init(key, x)
    jax.tree.map(np.testing.assert_array_equal, params, haikus.init(key, x))
    np.testing.assert_allclose(ours.apply(params, x), haikus.apply(params, x), rtol=1e-5, atol=1e-5)


def test_deep_network_has_fifteen_convolutions():
    f = hk.transform(lambda x: encoders.encode_array(Torso("deep"), x, "torso"))
    params = jax.eval_shape(f.init, jax.random.PRNGKey(0), jnp.zeros((1, 84, 84, 4), jnp.uint8))
    assert sum(p["w"].ndim == 4 for p in params.values()) == 15


def test_images_are_scaled_and_numbers_are_not():
    f = hk.without_apply_rng(hk.transform(lambda x: encoders.encode_array(Torso("mlp", widths=(8,)), x, "torso")))
    image = np.full((1, 3, 3), 255, np.uint8)
    params = f.init(jax.random.PRNGKey(0), image)
    np.testing.assert_allclose(f.apply(params, image), f.apply(params, np.ones((1, 3, 3), np.float32)), rtol=1e-6)


def test_check_image():
    encoders.check_image(Torso("nature"), (36, 36))
    encoders.check_image(Torso("deep"), (10, 10, 4))
    encoders.check_image(Torso("mlp"), (7,))
    with pytest.raises(ValueError, match=r"'nature'.*64 channels.*window of 3.*\(2, 2\)"):
        encoders.check_image(Torso("nature"), (35, 35))
    with pytest.raises(ValueError, match=r"'shallow', which takes images .* observations are \(7,\)"):
        encoders.check_image(Torso("shallow"), (7,))


def features_of(torso, observation, spec):
    f = hk.without_apply_rng(hk.transform(lambda x: encoders.encode(torso, x, spec, "torso")))
    params = drawn(lambda key: f.init(key, observation))
    return params, np.asarray(jax.jit(f.apply)(params, observation))


@pytest.mark.parametrize(
    ("torso", "layers"),
    [
        (Torso("mlp", widths=(7, 6, 5)), 3),
        (Torso("mlp", widths=()), 0),
        (Torso("nature", (9,), channels=(4, 5), kernels=(3, 3), strides=(2, 1)), 3),
        (Torso("deep", (9, 8), channels=(4, 5), blocks=1), 2 * 3 + 2),
        (Torso("tower", (9,), channels=(4,), blocks=3, halvings=1), 3 + 2 + 2 * 3 + 1),
    ],
)
def test_any_width_and_depth(torso, layers):
    spec = specs.Array((12, 10, 2), np.uint8)
    params, features = features_of(torso, np.ones((3, 12, 10, 2, 4), np.uint8), spec)
    assert sum("w" in p for p in params.values()) == layers
    widest = torso.resolved.widths[-1] if torso.resolved.widths else 12 * 10 * 2 * 4
    assert features.shape == (3, widest)


class Pair(NamedTuple):
    image: Any
    number: Any


@pytest.mark.parametrize("nest", [dict, tuple, Pair])
def test_every_leaf_of_a_nest_has_its_own_encoder(nest):
    def make(image, number):
        if nest is dict:
            return {"image": image, "number": number}
        return (image, number) if nest is tuple else nest(image, number)

    torso, spec = Torso("mlp", widths=(4,)), make(specs.Array((2, 2), np.uint8), specs.Array((), np.float32))
    image, number = np.full((1, 2, 2, 1), 51, np.uint8), np.ones((1, 1), np.float32)
    params, features = features_of(torso, make(image, number), spec)
    parts = []
    for i, x in enumerate((np.full((1, 4), 0.2), np.ones((1, 1)))):
        layer = params[f"torso_leaf_{i}_dense_0"]
        parts.append(np.maximum(x @ layer["w"] + layer["b"], 0))
    np.testing.assert_allclose(features, np.concatenate(parts, axis=-1), rtol=1e-5, atol=1e-6)


MIXED = {
    "board": specs.Array((12, 10), np.float32),
    "choice": specs.DiscreteArray(3),
    "pixels": specs.Array((16, 20, 3), np.uint8),
    "state": specs.Array((5,), np.float32),
}


def test_of_a_dict_images_are_convolved_and_the_rest_joins_them():
    """Each leaf is encoded as it would be alone, vectors and choices by a perceptron; two frames are stacked."""
    torso = Torso("nature", (9,), channels=(4,), kernels=(3,), strides=(2,))
    rng = np.random.default_rng(0)
    seen = {name: rng.integers(0, 3, (2, *kind.shape, 2)).astype(kind.dtype) for name, kind in MIXED.items()}
    params, features = features_of(torso, seen, MIXED)
    assert features.shape == (2, 4 * 9)
    assert {name for name, own in params.items() if own["w"].ndim == 4} == {"conv2_d", "conv2_d_1"}
    parts = []
    for i, name in enumerate(sorted(MIXED)):
        alone = Torso("mlp", (9,)) if name in ("choice", "state") else torso
        x = jax.nn.one_hot(seen[name], 3) if name == "choice" else seen[name]
        f = hk.without_apply_rng(hk.transform(lambda x, alone=alone: encoders.encode_array(alone, x, "torso")))
        own = {"torso_dense_0": params[f"torso_leaf_{i}_dense_0"]}
        if alone is torso:
            own["conv2_d"] = params["conv2_d" if name == "board" else "conv2_d_1"]
        parts.append(f.apply(own, x))
    np.testing.assert_array_equal(features, np.concatenate(parts, axis=-1))


def test_of_a_dict_leaves_that_are_no_images_have_the_kinds_own_widths():
    seen = {"board": np.ones((1, 12, 10, 1), np.float32), "state": np.ones((1, 5, 1), np.float32)}
    params, features = features_of(Torso("minatar"), seen, {name: MIXED[name] for name in seen})
    assert features.shape == (1, 2 * 128)
    assert [own["w"].shape for name, own in params.items() if "leaf_1" in name] == [(5, 128)]


def test_a_leaf_that_no_convolution_takes_is_named():
    encoders.check_observation(Torso("nature", kernels=(3, 3, 1), strides=(1, 1, 1)), MIXED)
    with pytest.raises(ValueError, match=r"window of 8, but from observations\['pair'\]\[1\] only \(5, 3\) reach it"):
        encoders.check_observation(Torso("nature"), {"pair": (MIXED["state"], specs.Array((5, 3), np.float32))})
    with pytest.raises(ValueError, match=r"'deep', which takes images .*, but observations\['choice'\] are \(\); take"):
        encoders.check_observation(Torso("deep"), {"choice": MIXED["choice"], "state": MIXED["state"]})
    encoders.check_observation(Torso("mlp"), MIXED)


def test_an_observation_of_another_nest_than_its_spec_is_refused_with_both():
    view = specs.Array((4,), np.float32)
    board = BoardView(*(np.zeros((1, *shape, 1), np.float32) for shape in ((4,), (3,), ())))
    cases = [
        (board, view, r"an observation of \.view, \.legal, \.player, but a spec of one array; .*view_of"),
        (board.view, BoardView.spec(view, 3), r"of one array, but a spec of \.view, \.legal, \.player;"),
        (
            {"a": board.view, "b": board.view},
            {"a": view, "c": view},
            r"of \['a'\], \['b'\], but a spec of \['a'\], \['c'\];",
        ),
    ]
    for seen, spec, message in cases:
        with pytest.raises(ValueError, match=message):
            encoders.encode(Torso("mlp"), seen, spec, "torso")


def test_a_discrete_leaf_is_one_hot():
    _, features = features_of(Torso("mlp", widths=()), np.array([[2], [0]]), specs.DiscreteArray(3))
    np.testing.assert_array_equal(features, [[0, 0, 1], [1, 0, 0]])


def test_normalised_layers_have_mean_and_deviation_of_their_own_example():
    x = np.random.default_rng(0).normal(size=(2, 30)).astype(np.float32)
    f = hk.without_apply_rng(hk.transform(lambda x: encoders.normalise(x, "layer")))
    y = f.apply(f.init(jax.random.PRNGKey(0), x), 7 * x + 3)
    np.testing.assert_allclose(y, (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), rtol=1e-3, atol=1e-3)
