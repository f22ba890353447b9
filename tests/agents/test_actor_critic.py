"""Networks of a policy and its critics, and how they act."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import sac, td3
from boonta.agents.actor_critic import Layers, make_networks
from boonta.agents.base import Slots
from boonta.agents.groups import Torso
from boonta.agents.heads import real_actions
from boonta.envs.base import MID, EnvSpec, TimeStep
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

SPEC = EnvSpec(specs.Array((3,), np.float32), specs.BoundedArray((2,), np.float32, [-2, 0], [2, 10]))
IMAGE = SPEC._replace(observations=specs.BoundedArray((36, 36, 3), np.uint8, 0, 255))
SMALL = Layers(widths=(8,))
AGENTS = {
    "sac": lambda spec, **k: sac.make(sac.Config(SMALL), spec, **k),
    "td3": lambda spec, **k: td3.make(td3.Config(SMALL), spec, **k),
}


def shown(spec, size):
    leaf = spec.observations
    observation = np.ones((size, *leaf.shape), leaf.dtype)
    return TimeStep(np.full(size, MID, np.int32), np.zeros(size, np.float32), np.ones(size, np.float32), observation)


@pytest.mark.parametrize("name", AGENTS)
def test_actions_are_uniform_until_something_is_learned_and_each_slots_own(name):
    agent = AGENTS[name](SPEC)
    params = agent.update.params(jax.jit(agent.update.init)(jax.random.PRNGKey(0)))
    assert set(params) == {"policy", "transitions", "observations"}  # No critics go to actors.
    assert params["observations"] == ()  # Nor moments, unless observations are normalised.
    timestep, key = shown(SPEC, 4000), jax.random.PRNGKey(1)
    step, state = jax.jit(agent.policy.step), agent.policy.initial_state(Slots(4000))
    action, extras, _ = jax.device_get(step(params, key, timestep, state))
    assert extras == () and action.shape == (4000, 2) and len(np.unique(action[:, 0])) > 3900
    for i, (low, high) in enumerate([(-2, 2), (0, 10)]):
        counts, _ = np.histogram(action[:, i], bins=4, range=(low, high))
        np.testing.assert_allclose(counts / 4000, 0.25, atol=0.03)
    learned = params | {"transitions": jnp.float32(1)}
    action = np.asarray(step(learned, key, timestep, state)[0])
    assert len(np.unique(action[:, 0])) > 3900  # Each slot draws noise of its own, though all see the same.
    np.testing.assert_allclose(action.mean(0), [0, 5], atol=0.3)  # The middle, where policies start.
    if name == "td3":
        np.testing.assert_allclose(action.std(0), [0.2, 0.5], rtol=0.1)  # A tenth of half the range.
    step = jax.jit(agent.eval_policy.step)
    for before in (params, learned):
        best, _, _ = step(before, key, timestep, state)
        np.testing.assert_allclose(best, np.tile([[0, 5]], (4000, 1)), atol=0.5)
        assert len(np.unique(best)) == 2
    assert agent.eval_policy.deterministic and not agent.policy.deterministic


def test_critics_share_nothing_and_policies_see_images():
    box = real_actions(SPEC.actions, "SAC")
    layers = Layers(Torso("nature", channels=(4, 4, 4), widths=(32,)), widths=(16, 15), critics=3, frame_stack=2)
    made = make_networks(layers, IMAGE, box, lambda x, name: hk.Linear(4, name=name)(x), 4)
    params = drawn(made.init)
    stack = np.random.default_rng(0).integers(0, 256, (6, 36, 36, 3, 2)).astype(np.uint8)
    action = np.zeros((6, 2), np.float32)
    assert jax.eval_shape(made.policy, params["policy"], stack).shape == (6, 4)

    @jax.jit
    def critics(params):
        """The values, and each critic's slopes."""
        values, back = jax.vjp(lambda params: made.critics(params, stack, action), params)
        return values, [back(jnp.zeros_like(values).at[:, i].set(1))[0] for i in range(3)]

    values, slopes = jax.device_get(critics(params["critic"]))
    assert values.shape == (6, 3) and len(np.unique(values[0])) == 3
    assert params["critic"]["critic_1_0"]["w"].shape == (32 + 2, 16)  # The action comes above the convolutions.

    def reached(i):
        return {name for name, leaves in slopes[i].items() if any(np.abs(x).max() > 0 for x in leaves.values())}

    assert reached(0) and not reached(0) & reached(1) and not reached(1) & reached(2)


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            SPEC._replace(actions=specs.DiscreteArray(3)),
            "takes actions of real numbers; this environment takes one of",
        ),
        (
            SPEC._replace(actions=specs.BoundedArray((2,), np.float32, -1, np.inf)),
            "squashes its actions into their bounds",
        ),
        (
            IMAGE,
            r"layers.torso.kind is 'mlp', which .*, but observations have images, uint8\[36, 36, 3\]; take 'nature'",
        ),
    ],
)
def test_envs_that_do_not_fit_are_refused_by_name(name, spec, message):
    with pytest.raises(ValueError, match=message):
        AGENTS[name](spec)


def test_a_torso_of_ones_own_takes_the_place_of_the_configs():
    class Mine(hk.Module):
        def __call__(self, stack):
            return hk.Linear(6)(hk.Flatten()(stack.astype(jnp.float32)))

    agent = AGENTS["sac"](IMAGE, network=Mine)
    params = jax.eval_shape(agent.update.init, jax.random.PRNGKey(0)).params
    assert params["critic"]["critic_0_0"]["w"].shape == (6 + 2, 8)
    message = (
        "network is 7; it must be a torso, such as a class of hk.Module, or a whole network, actor_critic.Networks"
    )
    with pytest.raises(ValueError, match=message):
        AGENTS["sac"](SPEC, network=7)
    with pytest.raises(ValueError, match=r"the torso's features must be float32\[N=6, F\]"):
        AGENTS["sac"](SPEC, network=lambda name: lambda stack: stack)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"init": lambda key: {"policy": jnp.zeros(2)}},
            'init must return a dict of "policy" and "critic", but returns',
        ),
        ({"policy": lambda params, stack: jnp.zeros((2, 5))}, r"policy's outputs must be float32\[M=2, P=\d\], but is"),
        (
            {"critics": lambda params, stack, action: jnp.zeros(2)},
            r"critics' values must be float32\[M=2, K\], but is float32\[2\]",
        ),
        ({"critics": lambda params, stack: jnp.zeros((2, 2))}, "critics failed on .*float32.*: TypeError"),
    ],
)
@pytest.mark.parametrize(("name", "size"), [("sac", 4), ("td3", 2)])
def test_a_whole_network_that_does_not_fit_is_refused(name, size, change, message):
    box = real_actions(SPEC.actions, name)
    whole = make_networks(SMALL, SPEC, box, lambda x, name: hk.Linear(size, name=name)(x), size)
    own = AGENTS[name](SPEC, network=whole)
    assert own.network and own.update.at_once == 1
    with pytest.raises(ValueError, match=message):
        AGENTS[name](SPEC, network=whole._replace(**change))


@pytest.mark.parametrize("name", AGENTS)
def test_several_updates_are_made_at_once_where_they_are_quickly_compiled(name):
    convolutions = Layers(Torso("nature", widths=(8,)), widths=(8,))
    module = {"sac": sac, "td3": td3}[name]
    assert AGENTS[name](SPEC).update.at_once == 8
    assert (
        AGENTS[name](SPEC, network=lambda name: hk.Sequential([hk.Flatten(), hk.Linear(3)], name=name)).update.at_once
        == 1
    )
    assert module.make(module.Config(convolutions), IMAGE).update.at_once == 1
