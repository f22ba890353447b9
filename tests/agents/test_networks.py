"""Networks of users' own: those that don't fit are refused, before anything runs, with what is wrong."""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
import sys

import cloudpickle
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs
from haiku.experimental.flax import lift

from boonta.agents import impala, muzero, networks
from boonta.agents.config import replaced
from boonta.agents.groups import Torso
from boonta.agents.heads import categorical
from boonta.agents.muzero.networks import make_model
from boonta.agents.policy_value import make_network
from boonta.envs.base import EnvSpec
from boonta.nodes.checkpoint import Checkpointer
from boonta.tests.helpers.lowered import arguments, programs
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

SPEC = EnvSpec(specs.Array((10, 5), np.float32), specs.DiscreteArray(3))
IMAGE = EnvSpec(specs.BoundedArray((36, 36), np.uint8, 0, 255), specs.DiscreteArray(3))
IMPALA = replaced(impala.CATCH, {"torso.widths": (8,)})
MUZERO = replaced(muzero.CATCH, {"torso.widths": (8,), "head_width": 8})
STOCHASTIC = replaced(MUZERO, {"search": "stochastic", "chance_codes": 4})
TOWER = muzero.Config(Torso("tower", channels=(4,), blocks=1))


class Flat(hk.Module):
    """Features [N, 7]."""

    def __call__(self, stack):
        return hk.Linear(7)(hk.Flatten()(stack.astype(jnp.float32)))


class Planes(hk.Module):
    """Features [N, H, W, 2]."""

    def __call__(self, stack):
        return hk.Conv2D(2, 3)(stack.astype(jnp.float32))


class FlaxTorso(nn.Module):
    """Features [N, 7], in flax."""

    @nn.compact
    def __call__(self, stack):
        return nn.relu(nn.Dense(7)(stack.reshape(len(stack), -1)))


def lifted(name):
    return lift(FlaxTorso(), name=name)


def torso(function):
    """A torso without layers."""
    return lambda name: function


def extras(agent):
    """The shapes of the extras of the policy's first step."""
    return jax.eval_shape(agent.policy.step, *arguments(agent, SPEC))[1]


@pytest.mark.parametrize("own", [Flat, lifted])
@pytest.mark.parametrize("change", [{}, {"lstm_size": 8}, {"value_torso": "own"}, {"frame_stack": 3}])
def test_impala_has_the_torso_in_place_of_its_own(own, change):
    agent = impala.make(replaced(IMPALA, change), SPEC, network=own)
    params = agent.update.params(jax.eval_shape(agent.update.init, jax.random.PRNGKey(0)))
    torsos = {name.split("/")[0] for name in params if "torso" in name}
    assert torsos == ({"torso", "value_torso"} if change.get("value_torso") else {"torso"})
    assert extras(agent).logits.shape == (2, 3)


@pytest.mark.parametrize(("config", "own"), [(MUZERO, Flat), (MUZERO, lifted), (STOCHASTIC, Flat), (TOWER, Planes)])
def test_muzero_has_the_torso_as_its_representation(config, own):
    agent = muzero.make(config, SPEC, network=own)
    params = agent.update.params(jax.eval_shape(agent.update.init, jax.random.PRNGKey(0))).params
    torsos = {name.split("/")[0] for name in params} & {"representation", "encoder"}
    assert torsos == ({"representation", "encoder"} if config is STOCHASTIC else {"representation"})
    assert extras(agent).policy.shape == (2, 3)


@pytest.mark.parametrize("change", [{}, {"frame_stack": 3, "torso.kind": "nature", "torso.widths": None}])
def test_impalas_own_network_is_a_whole_one(change):
    config = replaced(IMPALA, change)
    network = make_network(config, IMAGE, categorical(3))
    usual, own = impala.make(config, IMAGE), impala.make(config, IMAGE, network=network)
    assert programs(usual, IMAGE) == programs(own, IMAGE)


@pytest.mark.parametrize("config", [MUZERO, STOCHASTIC, TOWER])
def test_muzeros_own_model_is_a_whole_one(config):
    usual, own = muzero.make(config, SPEC), muzero.make(config, SPEC, network=make_model(config, SPEC.observations, 3))
    assert programs(usual, SPEC) == programs(own, SPEC)


@pytest.mark.parametrize("make", [lambda: impala.make(IMPALA, SPEC, Flat), lambda: muzero.make(MUZERO, SPEC, Flat)])
def test_an_agent_with_a_network_travels_to_another_process(make):
    agent = make()
    assert programs(cloudpickle.loads(cloudpickle.dumps(agent)), SPEC) == programs(agent, SPEC)


def test_make_touches_no_device_even_where_a_layer_suits_itself_to_it():
    program = """
import functools
from boonta.agents import encoders, impala, muzero
from boonta.agents.groups import Torso
from boonta.agents.heads import categorical
from boonta.tests.agents.test_networks import Flat, IMAGE, IMPALA, MUZERO
from boonta.agents.policy_value import make_network
from boonta.agents.muzero.networks import make_model
own = lambda name: functools.partial(encoders.encode, Torso("nature"), spec=IMAGE.observations, name=name)
impala.make(IMPALA, IMAGE, own)
impala.make(IMPALA, IMAGE, make_network(impala.Config(Torso("nature"), frame_stack=1), IMAGE, categorical(3)))
muzero.make(MUZERO, IMAGE, own)
muzero.make(MUZERO, IMAGE, make_model(MUZERO, IMAGE.observations, 3))
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ | {"JAX_PLATFORMS": "nowhere"})


class HalfLayer(hk.Module):
    """Has a param in half precision."""

    def __call__(self, stack):
        x = hk.Flatten()(stack)
        return (x @ hk.get_parameter("w", (x.shape[-1], 4), jnp.float16, jnp.zeros)).astype(jnp.float32)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (torso(lambda x: x), r"the torso's features must be float32\[N=6, D\], but is float32\[6, 10, 5, 1\]"),
        (torso(lambda x: x[0, 0, :, 0]), r"features must be float32\[N=6, D\], but is float32\[5\]"),
        (torso(lambda x: x.reshape(6, -1).astype(jnp.bfloat16)), r"but is bfloat16\[6, 50\]"),
        (torso(lambda x: (x[:, 0, :, 0], x)), r"but is \(float32\[6, 5\], float32\[6, 10, 5, 1\]\)"),
        (torso(lambda x: x @ x), r"the torso failed on float32\[6, 10, 5, 1\]: TypeError: dot_general"),
        (HalfLayer, r"params must be float32, but \['torso'\]\['w'\] is float16\[50, 4\]"),
        (lambda stack: stack, "the torso failed on .*TypeError: .*unexpected keyword argument 'name'"),
        (
            hk.transform(lambda x: x),
            "network is Transformed.*; it must be a torso, .* or a whole network, impala.Network",
        ),
        (muzero.Model(*[None] * 4), "network is Model.*; it must be a torso, .* or a whole network, impala.Network"),
    ],
)
def test_a_torso_that_does_not_fit_is_refused(own, message):
    with pytest.raises(ValueError, match=message):
        impala.make(IMPALA, SPEC, network=own)


@pytest.mark.parametrize(
    ("config", "own", "message"),
    [
        (MUZERO, Planes, r"the torso's features must be float32\[N=6, D\], but is float32\[6, 10, 5, 2\]"),
        (TOWER, Flat, r"the torso's features must be float32\[N=6, H, W, C\], but is float32\[6, 7\]"),
        (
            dataclasses.replace(TOWER, action_planes="place"),
            torso(lambda x: x[:, :5]),
            r"must be float32\[N=6, H=10, W=5, C\], but is float32\[6, 5, 5, 1\]",
        ),
        (MUZERO, make_network(IMPALA, SPEC, categorical(3)), "it must be a torso, .* or a whole network, muzero.Model"),
    ],
)
def test_muzeros_torso_must_be_of_the_dynamics_kind(config, own, message):
    with pytest.raises(ValueError, match=message):
        muzero.make(config, SPEC, network=own)


def unrolled(**change):
    """A whole network of IMPALA with other outputs."""

    def unroll(params, inputs, state):
        t, b = inputs.step_type.shape
        out = {"logits": jnp.zeros((t, b, 3)), "value": jnp.zeros((t, b)), "state": state}
        out |= {name: function(out[name]) for name, function in change.items() if name in out}
        return impala.Outputs(out["logits"], out["value"]), out["state"]

    start = change.get("initial_state", lambda batch_size: {"h": jnp.zeros((batch_size, 4))})
    return impala.Network(change.get("init", lambda key: {}), start, change.get("unroll", unroll))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logits": lambda x: x[..., :2]}, r"unroll's logits must be float32\[T=3, B=2, P=3\], but is .*\[3, 2, 2\]"),
        ({"logits": lambda x: x.astype(jnp.float16)}, r"unroll's logits must be .*, but is float16\[3, 2, 3\]"),
        ({"value": lambda x: x[..., None]}, r"unroll's value must be float32\[T=3, B=2\], but is float32\[3, 2, 1\]"),
        ({"value": lambda x: x.T}, r"unroll's value must be float32\[T=3, B=2\], but is float32\[2, 3\]"),
        (
            {"state": lambda x: (x["h"],)},
            r"unroll's state must be like initial_state's, {h: float32\[2, 4\]}, but is \(",
        ),
        ({"state": lambda x: {"h": x["h"].astype(jnp.bfloat16)}}, r".*, but is {h: bfloat16\[2, 4\]}"),
        (
            {"initial_state": lambda b: jnp.zeros((4, b))},
            r"initial_state must return arrays \[B=2, ...\], but .*\[4, 2\]",
        ),
        ({"unroll": lambda *x: jnp.zeros(3)}, r"unroll must return \(Outputs, state\), but returns float32\[3\]"),
        ({"unroll": lambda params, x, state: params["w"]}, r"unroll failed on Inputs\(.*KeyError: 'w'"),
        ({"init": lambda key: {"w": jnp.zeros(3, int)}}, r"params must be float32, but \['w'\] is int32\[3\]"),
    ],
)
def test_a_whole_network_that_does_not_fit_is_refused(change, message):
    impala.make(IMPALA, SPEC, network=unrolled())
    with pytest.raises(ValueError, match=f"network: {message}"):
        impala.make(IMPALA, SPEC, network=unrolled(**change))


@pytest.mark.parametrize(("field", "value"), [("lstm_size", 8), ("value_torso", "own")])
def test_a_whole_network_has_no_parts_of_the_configs(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value!r}; it must be .* where network is a whole one"):
        impala.make(replaced(IMPALA, {field: value}), SPEC, network=unrolled())


def modelled(**change):
    """A whole model of MuZero with other functions."""
    zeros = lambda n: lambda x: jnp.zeros((len(x), n))  # noqa: E731
    functions = {
        "init": lambda key: {},
        "represent": lambda params, stack: jnp.zeros((len(stack), 4)),
        "predict": lambda params, x: muzero.Prediction(zeros(4)(x), zeros(21)(x)),
        "dynamics": lambda params, x, action: (x, zeros(21)(x)),
        "project": lambda params, x: x,
        "foresee": lambda params, x: x,
    }
    return muzero.Model(**{**functions, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"represent": lambda params, x: {"h": x}},
            r"represent's hidden state must be float32\[B=2, ...\], but is {h:",
        ),
        (
            {"predict": lambda params, x: muzero.Prediction(x[:, :3], jnp.zeros((2, 21)))},
            r"predict's logits must be float32\[B=2, A\+1=4\], but is float32\[2, 3\]",
        ),
        (
            {"predict": lambda params, x: muzero.Prediction(x, x[:, 0])},
            r"predict's value must be float32\[B=2, Z=21\], but is float32\[2\]",
        ),
        ({"predict": lambda params, x: (x, x)}, r"predict must return a Prediction, but returns \(float32\[2, 4\]"),
        ({"dynamics": lambda params, x, a: x}, r"dynamics must return \(hidden state, reward logits\), but"),
        (
            {"dynamics": lambda params, x, a: (jnp.concatenate([x, a], -1), x)},
            r"dynamics' hidden state must be like represent's, float32\[2, 4\], but is float32\[2, 8\]",
        ),
        (
            {"dynamics": lambda params, x, a: (x, x)},
            r"dynamics' reward must be float32\[B=2, Z=21\], but is .*\[2, 4\]",
        ),
        ({"foresee": lambda params, x: x[:, :2]}, r"foresee's projection must be like project's, float32\[2, 4\], but"),
        ({"project": None}, "project and foresee must be functions where consistency_cost is 2.0"),
        ({"chance": muzero.ChanceModel(None, None, None)}, "chance must be a ChanceModel where search is 'stochastic'"),
    ],
)
def test_a_whole_model_that_does_not_fit_is_refused(change, message):
    muzero.make(MUZERO, SPEC, network=modelled())
    with pytest.raises(ValueError, match=f"network: {message}"):
        muzero.make(MUZERO, SPEC, network=modelled(**change))


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    own, usual = (impala.make(IMPALA, SPEC, network=network).update for network in (Flat, None))
    Checkpointer(tmp_path).save(1, drawn(own.init), {})
    with pytest.raises(ValueError, match="is another network's: params/.*; give the settings it was made with"):
        Checkpointer(tmp_path).restore(drawn(usual.init))


def test_a_network_is_named_by_its_class_or_by_a_function_of_it():
    def act(params, observation):
        return params

    assert networks.name_of(None) == ""
    assert networks.name_of(Flat) == networks.name_of(functools.partial(Flat, 3)) == f"{__name__}:Flat"
    whole = make_network(IMPALA, SPEC, categorical(3))._replace(init=functools.partial(act, 1))
    assert networks.name_of(whole).startswith(f"{__name__}:") and networks.name_of(whole).endswith(".act")
