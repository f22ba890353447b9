import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import encoders
from boonta.agents.groups import Torso


@pytest.mark.parametrize("size,channels,kernel,stride", [(84, 4, 8, 4), (20, 32, 4, 2), (21, 3, 4, 2), (9, 8, 3, 1)])
def test_convolution_without_stride_is_the_same_convolution(size, channels, kernel, stride):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, size, size + stride, channels)).astype(np.float32)
    w = rng.normal(size=(kernel, kernel, channels, 16)).astype(np.float32) / kernel / channels**0.5

    def value_and_gradients(convolve):
        def scalar(x, w):
            return jnp.sum(jnp.sin(convolve(x, w, stride)))

        return convolve(x, w, stride), jax.grad(scalar, (0, 1))(x, w)

    expected = value_and_gradients(encoders.convolve)
    actual = value_and_gradients(encoders.convolve_unstrided)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), actual, expected)


@pytest.mark.parametrize("torso", ["shallow", "nature"])
def test_checkpoints_carry_over_between_backends(torso, monkeypatch):
    f = hk.without_apply_rng(hk.transform(lambda x: encoders.encode_array(Torso(torso), x)))
    x = np.random.default_rng(0).integers(0, 256, (2, 84, 84, 4)).astype(np.uint8)
    params = f.init(jax.random.PRNGKey(0), x)
    features = {}
    for backend in ("cpu", "gpu"):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        assert jax.tree.map(jnp.shape, f.init(jax.random.PRNGKey(0), x)) == jax.tree.map(jnp.shape, params)
        features[backend] = f.apply(params, x)
    np.testing.assert_allclose(features["cpu"], features["gpu"], rtol=1e-4, atol=1e-5)


def test_convolution_has_haikus_parameters():
    x = jnp.ones((1, 20, 20, 3))
    key = jax.random.PRNGKey(0)
    ours = hk.without_apply_rng(hk.transform(lambda x: encoders.Convolution(8, 4, 2, input_gradient=True)(x)))
    haikus = hk.without_apply_rng(hk.transform(lambda x: hk.Conv2D(8, 4, 2, padding="VALID")(x)))
    params = ours.init(key, x)
    jax.tree.map(np.testing.assert_array_equal, params, haikus.init(key, x))
    np.testing.assert_allclose(ours.apply(params, x), haikus.apply(params, x), rtol=1e-5, atol=1e-5)


def test_deep_network_has_fifteen_convolutions():
    f = hk.transform(lambda x: encoders.encode_array(Torso("deep"), x))
    params = jax.eval_shape(f.init, jax.random.PRNGKey(0), jnp.zeros((1, 84, 84, 4), jnp.uint8))
    assert sum(p["w"].ndim == 4 for p in params.values()) == 15


def test_images_are_scaled_and_numbers_are_not():
    f = hk.without_apply_rng(hk.transform(lambda x: encoders.encode_array(Torso("mlp", widths=(8,)), x)))
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
