"""A policy over real-valued actions beside critics of states and actions, which learn from replayed transitions.

SAC and TD3 share this: the networks, how they act, and what actors get of the params.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp

from boonta.agents import encoders, networks, sequences
from boonta.agents.base import Batch, Nest, Policy, Slots
from boonta.agents.config import check, documented, field
from boonta.agents.groups import Torso
from boonta.agents.heads import Box, scalar_head
from boonta.agents.normalisation import Moments, merge_moments, moments_seen, no_moments_of, normalise_stack
from boonta.agents.optimisation import AgentLoss, Context, Loss, Outcome, Statistics
from boonta.agents.transitions import MUJOCO, PIXELS
from boonta.envs.base import EnvSpec, TimeStep

M = 2  # Rows that a whole network is checked with.


@documented
@dataclasses.dataclass(frozen=True)
class Layers:
    """The networks of policy and critics, which share nothing.

    Sources: [TC] the code of TD3's authors (https://github.com/sfujim/TD3), [SAC] https://arxiv.org/abs/1812.05905,
    [DroQ] https://arxiv.org/abs/2110.02034.
    """

    torso: Torso = field(
        Torso("mlp", widths=()),
        "What is below the dense layers, such as convolutions over images; by default nothing.",
        source="own choice",
    )
    widths: tuple[int, ...] = field(
        (256, 256),
        "Units of each dense layer; those of a critic are above its features and the action.",
        unit="units",
        source="[SAC], Appendix D; [TC]",
        at_least=1,
    )
    normalise: bool = field(
        False,
        "Whether the critics' dense layers are normalised, which helps where there are many updates for an env step.",
        source="[DroQ], section 3; False as in [SAC] and [TC]",
    )
    critics: int = field(
        2, "Number of critics; the least of their values counts.", unit="critics", source="[TC], 2", at_least=1
    )
    normalise_observations: bool = field(
        False,
        "Whether observations of real numbers or pixels are shifted and scaled by their running mean and deviation, "
        "each number by its own.",
        source="own choice; False as in [SAC] and [TC]",
    )
    frame_stack: int = field(
        1, "L, frames that the networks see at once.", unit="frames", source="[SAC] and [TC], 1", at_least=1
    )

    def __post_init__(self) -> None:
        check(self)


# What configs of agents begin with by the kind of an environment; any other kind has their defaults.
PRESET_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "mujoco": {"replay": MUJOCO},
    "dm_control_pixels": {"replay": PIXELS, "layers": Layers(Torso("nature"), frame_stack=3)},
}


class Networks(NamedTuple):
    """Pure functions.

    Attributes:
      init: `(key) -> params`, a dict of "policy" and "critic".
      policy: `(params of "policy", stack [M, ..., L]) -> outputs [M, P]` of the policy's last layer.
      critics: `(params of "critic", stack [M, ..., L], action [M, D] scaled) -> values, float32 [M, K]`.
    """

    init: Callable[[jax.Array], Nest]
    policy: Callable[[Nest, Nest], jax.Array]
    critics: Callable[[Nest, Nest, jax.Array], jax.Array]


Own = networks.MakeTorso | Networks  # A user's own network: a torso of policy and critics, or all of both.


def updates_at_once(layers: Layers, own: Own | None) -> int:
    """Updates in one dispatch: eight of dense layers, one of others, which may take long to compile."""
    return 8 if layers.torso.kind == "mlp" and own is None else 1


def make_networks(
    layers: Layers,
    spec: EnvSpec,
    box: Box,
    last: Callable[[jax.Array, str], jax.Array],
    outputs: int,
    own: Own | None = None,
) -> Networks:
    """Makes the networks; computes nothing yet.

    Args:
      layers: their settings.
      spec: the env's spec.
      box: the bounds of its actions.
      last: `(features [M, F], name) -> outputs [M, P]`, the policy's last layer; a haiku function.
      outputs: P.
      own: makes torsos in place of the settings', with features [M, F]; or the whole, which is only checked.

    Raises:
      ValueError: the torso can't take the observations; or an output of a whole network doesn't fit.
    """
    if isinstance(own, Networks):
        check_whole(own, layers.frame_stack, spec, box, outputs)
        return own
    check_encoder(layers, spec, own)
    make_torso = networks.encoder(layers.torso, spec.observations) if own is None else own

    def act(stack: Nest) -> jax.Array:
        x = encoders.perceptron(make_torso(name="torso")(stack), layers.widths, "policy", normalised=False)
        return last(x, "policy_out")

    def judge(stack: Nest, action: jax.Array) -> jax.Array:
        values = []
        for i in range(layers.critics):
            x = jnp.concatenate([make_torso(name=f"torso_{i}")(stack), action], axis=-1)
            x = encoders.perceptron(x, layers.widths, f"critic_{i}", layers.normalise)
            values.append(scalar_head(x, f"critic_{i}_value"))
        return jnp.stack(values, axis=-1)

    policy, critics = hk.transform(act), hk.transform(judge)

    def init(key: jax.Array) -> Nest:
        policy_key, critic_key = jax.random.split(key)
        shapes = networks.frames(spec.observations, layers.frame_stack, 1)
        stack = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        action = jnp.zeros((1, box.size))
        return {"policy": policy.init(policy_key, stack), "critic": critics.init(critic_key, stack, action)}

    return Networks(
        init=init,
        policy=lambda params, stack: policy.apply(params, None, stack),
        critics=lambda params, stack, action: critics.apply(params, None, stack, action),
    )


def check_whole(own: Networks, frame_stack: int, spec: EnvSpec, box: Box, outputs: int) -> None:
    """Refuses a whole network whose outputs don't fit.

    Raises:
      ValueError: the message says which output, what it is, and what it must be.
    """
    params = networks.trace("init", lambda _: own.init(jax.random.PRNGKey(0)), ())
    if not isinstance(params, dict) or set(params) != {"policy", "critic"}:
        raise ValueError(
            f'network: init must return a dict of "policy" and "critic", but returns {networks.describe(params)}'
        )
    networks.require_params(params)
    stack = networks.frames(spec.observations, frame_stack, M)
    policy = networks.trace("policy", own.policy, params["policy"], stack)
    networks.require_array("policy's outputs", policy, {"M": M, "P": outputs})
    action = jax.ShapeDtypeStruct((M, box.size), jnp.float32)
    values = networks.trace("critics", own.critics, params["critic"], stack, action)
    networks.require_array("critics' values", values, {"M": M, "K": None})


def check_encoder(layers: Layers, spec: EnvSpec, torso: networks.MakeTorso | None) -> None:
    """Refuses a torso that can't take the observations, and images for an "mlp", which learns nothing from pixels.

    Raises:
      ValueError: the message says what it is and what is allowed.
    """
    if torso is not None:
        networks.check_torso(torso, "actor_critic.Networks", spec.observations, layers.frame_stack, {"F": None})
        return
    encoders.check_observation(layers.torso, spec.observations)
    for leaf in jax.tree.leaves(spec.observations):
        if layers.torso.kind == "mlp" and leaf.dtype == jnp.uint8 and encoders.is_image(leaf.shape):
            raise ValueError(
                f"layers.torso.kind is 'mlp', which takes numbers, but observations have images, "
                f"uint8{list(leaf.shape)}; take 'nature', or for small images 'minatar' or 'deep'"
            )


class Learned(NamedTuple):
    """Statistics of an update, which actors get beside the policy's params.

    Attributes:
      transitions: float32 [], the number of transitions that the params have learned from.
      observations: moments of the frames of all batches; () where they aren't normalised.
    """

    transitions: jax.Array
    observations: Moments | tuple[()] = ()


def statistics_of(layers: Layers, spec: EnvSpec) -> Statistics:
    """The statistics of an update; those of a batch are `Learned`, too."""

    def init() -> Learned:
        return Learned(jnp.zeros(()), no_moments_of(spec) if layers.normalise_observations else ())

    def merge(a: Learned, b: Learned) -> Learned:
        transitions = a.transitions + b.transitions
        if isinstance(a.observations, Moments) and isinstance(b.observations, Moments):
            return Learned(transitions, merge_moments(a.observations, b.observations))
        return Learned(transitions)

    return Statistics(init, merge)


def normalising(networks: Networks, moments: Moments | tuple[()]) -> Networks:
    """The same networks, which normalise what they see by these moments; unchanged by ()."""
    if not isinstance(moments, Moments):
        return networks
    return networks._replace(
        policy=lambda params, stack: networks.policy(params, normalise_stack(stack, moments)),
        critics=lambda params, stack, action: networks.critics(params, normalise_stack(stack, moments), action),
    )


def with_statistics(loss: AgentLoss, networks: Networks, **parts: Any) -> Loss:
    """A loss whose networks normalise by the context's moments, and whose statistics are `Learned`.

    Args:
      loss: `sac_loss`, `td3_loss` or one like them, whose statistics are the number of transitions.
      networks: the networks, which don't normalise.
      parts: further arguments of the loss.
    """

    def measuring(params: Nest, context: Context, batch: Batch) -> tuple[Any, Outcome]:
        moments = context.statistics.observations
        value, outcome = loss(params, context, batch, networks=normalising(networks, moments), **parts)
        seen = moments_seen(batch) if moments else ()
        return value, outcome._replace(statistics=Learned(outcome.statistics, seen))

    return measuring


def make_policy(
    made: Networks,
    act: Callable[[jax.Array, jax.Array], jax.Array],
    box: Box,
    spec: EnvSpec,
    frame_stack: int,
    explores: bool,
) -> Policy:
    """Acts by the policy's params; as long as they have learned from nothing, an explorer acts uniformly at random.

    So actions are random until the table has its `min_size`, and no more where an actor or a run starts again.

    Args:
      made: the networks.
      act: `(outputs [B, P] of the policy's last layer, key) -> action [B, *shape]`.
      box: the bounds of the actions.
      spec: the env's spec.
      frame_stack: L.
      explores: whether this is the policy of actors.

    Returns:
      `Policy` for the params that `published` gives; its state is the last frames.
    """

    def initial_state(slots: Slots) -> Nest:
        return sequences.no_frames(spec.observations, slots.size, frame_stack)

    def step(params: Nest, key: jax.Array, timestep: TimeStep, frames: Nest) -> tuple[jax.Array, Nest, Nest]:
        stack, frames = sequences.push(frames, timestep.observation, timestep.step_type)
        act_key, random_key = jax.random.split(key)
        outputs = normalising(made, params["observations"]).policy(params["policy"], stack)
        action = act(outputs, act_key)
        if explores:
            uniform = jax.random.uniform(random_key, (action.shape[0], box.size), minval=-1.0, maxval=1.0)
            action = jnp.where(params["transitions"] > 0, action, box.unscale(uniform))
        return action, (), frames

    return Policy(initial_state, step, deterministic=not explores)


def published(params: Nest, statistics: Learned) -> Nest:
    """What actors get: the policy's params, and what they have learned from; no critics."""
    return {"policy": params["policy"], **statistics._asdict()}
