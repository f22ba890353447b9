"""MuZero's model: representation h, dynamics g, prediction f and projection, as perceptrons or as a residual tower.

See "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model" (https://arxiv.org/abs/1911.08265), the
tower's shapes after MooZi's, the projection after "Mastering Atari Games with Limited Data"
(https://arxiv.org/abs/2111.00210), section 4.1, afterstates and chance after "Planning in Stochastic Environments with
a Learned Model" (https://openreview.net/forum?id=X6D9bAHhBQ1), section 4.

Every layer is normalised over its own example (a LayerNorm), not over the batch. The model's output for a state then
depends neither on the other states of the batch, nor on how many devices hold it, nor on whether it acts (B = 1 in an
evaluator) or learns. What frames have in common is taken away before the first layer instead, see `normalising`.

A user's own network is a torso, which the representation then is, or the whole as a `Model`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.agents import encoders, networks
from boonta.agents.base import Nest
from boonta.agents.encoders import convolution, dense, one_hot, perceptron, residual, to_float, tower
from boonta.agents.extremes import extreme
from boonta.agents.groups import Torso
from boonta.agents.heads import dense_head
from boonta.agents.muzero import history
from boonta.agents.muzero.config import Config


class Prediction(NamedTuple):
    """The outputs of f for B hidden states.

    Attributes:
      logits: float32 [B, A+1], logits of the policy.
      value: float32 [B, Z], logits over the support.
    """

    logits: jax.Array
    value: jax.Array


class ChanceModel(NamedTuple):
    """The additional functions of a model with chance; all are pure.

    Attributes:
      afterstate: `(params, X, action [B, A+1] one-hot) -> X`, the state after the action and before the chance outcome.
      predict: `(params, afterstate) -> Prediction`, whose logits [B, C] are the chance codes'.
      encode: `(params, stack [B, ..., L]) -> probabilities [B, C]` of the codes that led to this observation.
    """

    afterstate: Callable[[Nest, jax.Array, jax.Array], jax.Array]
    predict: Callable[[Nest, jax.Array], Prediction]
    encode: Callable[[Nest, Nest], jax.Array]


class Model(NamedTuple):
    """The model's pure functions.

    X are hidden states, one float32 array [B, ...] in a range such as [0, 1]. Of A+1 actions the last is the dummy.

    Attributes:
      init: `(key) -> params`, a nest of float32.
      represent: h, `(params, stack, a nest [B, ..., L]) -> X`; frames are as the environment shows them, oldest first.
        With `action_history` the nest is `history.Seen`, whose actions are int32 [B, L]; and so it is for `encode`.
      predict: f, `(params, X) -> Prediction`.
      dynamics: g, `(params, X, action [B, A+1] one-hot) -> (X, reward logits [B, Z])`. In a model with chance it
        takes an afterstate and a chance code [B, C] instead.
      project: `(params, X) -> [B, D]`, the space in which hidden states are compared; only the self-consistency loss
        needs it and the next.
      foresee: `(params, projection [B, D]) -> [B, D]`, SimSiam's predictor, on the model's side of the comparison.
      chance: `ChanceModel`; None where the dynamics is deterministic.
    """

    init: Callable[[jax.Array], Nest]
    represent: Callable[[Nest, Nest], jax.Array]
    predict: Callable[[Nest, jax.Array], Prediction]
    dynamics: Callable[[Nest, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    project: Callable[[Nest, jax.Array], jax.Array] | None = None
    foresee: Callable[[Nest, jax.Array], jax.Array] | None = None
    chance: ChanceModel | None = None


class Trunk(Protocol):
    """The part of the model, besides the torso, in which the two families of networks differ."""

    def advance(self, hidden: jax.Array, choice: jax.Array, name: str) -> jax.Array:
        """A hidden state and an action or chance code [B, X] -> features, of a hidden state's shape."""

    def look(self, hidden: jax.Array, name: str) -> jax.Array:
        """A hidden state, or features -> [B, D], for heads."""


def scale_hidden(x: jax.Array) -> jax.Array:
    """Scales each hidden state [B, ...] to [0, 1], the range of the actions beside it. See the paper's Appendix G."""
    axes = tuple(range(1, x.ndim))
    low, high = extreme(jnp.min, x, axes), extreme(jnp.max, x, axes)
    return (x - low) / (high - low + 1e-5)


def make_model(config: Config, view: Nest, num_actions: int, torso: networks.MakeTorso | None = None) -> Model:
    """Makes the model; it computes nothing.

    Args:
      config: hyper-parameters.
      view: nest of specs of one frame.
      num_actions: A, the number of real actions.
      torso: makes the representation in place of the config's. Its features, [N, H, W, C] where the config's torso is a
        "tower" and else [N, D], are a hidden state before it is scaled.
    """
    seen = history.spec_of(config, view, num_actions)
    make_torso = torso or functools.partial(_Torso, config.torso, seen)
    with_chance = config.search == "stochastic"
    actions = num_actions + 1
    places = action_places(view, num_actions) if config.action_planes == "place" else None

    def head(x: jax.Array, outputs: int, name: str) -> jax.Array:
        return dense_head(x, outputs, config.head_width, name)

    def functions() -> tuple[Callable[..., None], tuple[Callable, ...]]:
        trunk: Trunk = _Tower(places) if config.torso.kind == "tower" else _Mlp(config.torso)

        def represent(stack: Nest) -> jax.Array:
            return scale_hidden(make_torso(name="representation")(stack))

        def predict(hidden: jax.Array) -> Prediction:
            x = trunk.look(hidden, "prediction")
            return Prediction(
                head(x, actions, "policy"),
                head(x, config.support_bins, "value"),
            )

        def dynamics(hidden: jax.Array, choice: jax.Array) -> tuple[jax.Array, jax.Array]:
            x = trunk.advance(hidden, choice, "dynamics")
            return scale_hidden(x), head(trunk.look(x, "outcome"), config.support_bins, "reward")

        def project(hidden: jax.Array) -> jax.Array:
            x = perceptron(hk.Flatten()(hidden), [config.head_width], "projection", normalised=True)
            return hk.Linear(config.head_width, name="projection_out")(x)

        def foresee(projection: jax.Array) -> jax.Array:
            x = perceptron(projection, [config.head_width // 2 + 1], "foresight", normalised=True)
            return hk.Linear(config.head_width, name="foresight_out")(x)

        def afterstate(hidden: jax.Array, choice: jax.Array) -> jax.Array:
            return scale_hidden(trunk.advance(hidden, choice, "afterstate"))

        def predict_chance(hidden: jax.Array) -> Prediction:
            x = trunk.look(hidden, "chance")
            return Prediction(
                head(x, config.chance_codes, "code"),
                head(x, config.support_bins, "afterstate_value"),
            )

        def encode(stack: Nest) -> jax.Array:
            x = trunk.look(make_torso(name="encoder")(stack), "encoding")
            return jax.nn.softmax(hk.Linear(config.chance_codes, name="encoder_out")(x))

        def init(stack: Nest, action: jax.Array) -> None:
            hidden = represent(stack)
            predict(hidden)
            foresee(project(hidden))
            if with_chance:
                action, hidden = encode(stack), afterstate(hidden, action)
                predict_chance(hidden)
            dynamics(hidden, action)

        chance = (afterstate, predict_chance, encode) if with_chance else ()
        return init, (represent, predict, dynamics, project, foresee, *chance)

    transformed = hk.without_apply_rng(hk.multi_transform(functions))

    def init(key: jax.Array) -> Nest:
        stack = jax.tree.map(lambda x: jnp.zeros((1, *x.shape, config.frame_stack), x.dtype), seen)
        return transformed.init(key, stack, jnp.zeros((1, actions)))

    represent, predict, dynamics, project, foresee, *chance = transformed.apply
    return Model(init, represent, predict, dynamics, project, foresee, ChanceModel(*chance) if chance else None)


def action_places(view: specs.Array, num_actions: int) -> np.ndarray:
    """The place of each action on a board: two planes, its place and whether it has none; float32 [A + 1, H, W, 2].

    Actions are columns if their number fits, else cells, row by row. One more action, the last, is a pass; like the
    dummy action it has no place. See the paper's Appendix E, "Go".

    Raises:
      ValueError: the actions are neither; the message has their number and the numbers allowed.
    """
    height, width = view.shape[:2]
    sizes = {width: (1, width), height * width: (height, width)}
    size = sizes.get(num_actions) or sizes.get(num_actions - 1)
    if size is None:
        raise ValueError(
            f"muzero.Config: action_planes is 'place', which takes an action for each column, {width}, or for each "
            f"cell, {height * width}, and one to pass; this environment has {num_actions}: take 'each'"
        )
    count = size[0] * size[1]
    placed = np.broadcast_to(np.eye(count).reshape(count, *size, 1), (count, height, width, 1))
    planes = np.concatenate([placed, np.zeros_like(placed)], axis=-1)
    nowhere = np.broadcast_to([0.0, 1.0], (num_actions + 1 - count, height, width, 2))
    return np.concatenate([planes, nowhere]).astype(np.float32)


class _Torso:
    """The representation that the config describes: a nest [B, ..., L] -> a hidden state before it is scaled.

    A perceptron sees all leaves side by side: its first layer is one for each leaf, whose outputs are added. A tower
    sees one array, and past actions as planes beside it. See MooZi, section 5.3.4. Other kinds have an encoder for each
    leaf, as in all agents, and a hidden state is what these give, side by side.
    """

    def __init__(self, torso: Torso, seen: Nest, name: str):
        self._own, self._seen, self._name = torso.resolved, seen, name

    def __call__(self, stack: Nest) -> jax.Array:
        own, kinds = self._own, jax.tree.leaves(self._seen)
        if own.kind not in ("mlp", "tower"):
            return encoders.encode(own, stack, self._seen, self._name)
        leaves = [to_float(one_hot(x, kind)) for x, kind in zip(jax.tree.leaves(stack), kinds, strict=True)]
        if own.kind == "mlp":
            x = jnp.concatenate([hk.Flatten()(x) for x in leaves], axis=-1)
            return dense(own, x, self._name)
        assert own.channels is not None and own.blocks is not None
        frames, *actions = leaves
        size = frames.shape[:3]
        planes = [frames.reshape(*size, -1), *(_planes(x, size) for x in actions)]  # [B, H, W, C]
        return tower(jnp.concatenate(planes, axis=-1), own.channels[0], own.blocks, own.halvings, self._name)


def _planes(actions: jax.Array, size: tuple[int, ...]) -> jax.Array:
    """One-hot actions [B, L, A+1] as planes [B, H, W, L * (A+1)], where `size` is [B, H, W], over their number, A+1."""
    planes = actions.reshape(size[0], 1, 1, -1) / actions.shape[-1]
    return jnp.broadcast_to(planes, (*size, planes.shape[-1]))


class _Mlp:
    """Perceptrons of the torso's widths; a hidden state is [B, D]."""

    def __init__(self, torso: Torso):
        self._torso = torso

    def advance(self, hidden: jax.Array, choice: jax.Array, name: str) -> jax.Array:
        x = dense(self._torso, jnp.concatenate([hidden, choice], axis=-1), name)
        return hidden + hk.Linear(hidden.shape[-1], name=f"{name}_out")(x)

    def look(self, hidden: jax.Array, name: str) -> jax.Array:
        del name
        return hidden


class _Tower:
    """Residual convolutions; a hidden state is [B, H, W, channels]."""

    def __init__(self, places: np.ndarray | None):
        self._places = places

    def advance(self, hidden: jax.Array, choice: jax.Array, name: str) -> jax.Array:
        if self._places is None:
            planes = jnp.broadcast_to(choice[:, None, None, :], (*hidden.shape[:3], choice.shape[-1]))
        else:
            planes = jnp.einsum("ba,ahwc->bhwc", choice, self._places)
        x = convolution(jnp.concatenate([hidden, planes], axis=-1), hidden.shape[-1], f"{name}_in")
        return residual(residual(x, f"{name}_0"), f"{name}_1")

    def look(self, hidden: jax.Array, name: str) -> jax.Array:
        x = residual(convolution(hidden, hidden.shape[-1], f"{name}_in"), f"{name}_0")
        return hk.Flatten()(x)
