"""Users' own networks: the values that `network=` of an agent's `make` may have, and checks of the networks' outputs.

A network is either a torso, below the agent's own heads and recurrence, or the whole network, as the agent's own named
tuple of pure functions. Torsos that settings describe come through the same interface, `MakeTorso`.

Checks trace a network with `jax.eval_shape`, when `make` is called: they compute nothing and touch no device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import haiku as hk
import jax
import jax.numpy as jnp

from boonta.agents import convolutions, encoders
from boonta.agents.base import Nest
from boonta.agents.groups import Torso

Axes = Mapping[str, int | None]  # The axes of an array by name, with their sizes; None allows any size.

ROWS = 6  # N, of the frames that a torso is checked with.


class MakeTorso(Protocol):
    """Makes a torso, which maps a nest of frames [N, ..., L] to features [N, D]; a class of `hk.Module` is one.

    It is called inside a haiku transform, once for each torso that the network needs. Frames are as the environment
    shows them, such as uint8 images; the last axis has L of them, oldest first. Features are float32.
    """

    def __call__(self, *, name: str) -> Callable[[Nest], jax.Array]:
        """Makes a torso; torsos with different names share no params."""


def encoder(torso: Torso, observation: Nest) -> MakeTorso:
    """The torso that settings describe, for frames of the spec `observation`.

    Raises:
      ValueError: it can't take such frames.
    """
    encoders.check_observation(torso, observation)
    return lambda name: functools.partial(encoders.encode, torso, spec=observation, name=name)


def torso_for(settings: Torso, own: MakeTorso | None, whole: str, observation: Nest, frame_stack: int) -> MakeTorso:
    """The torso that settings describe, or a user's own in its place, for features [N, D].

    Args:
      settings: the config's.
      own: the user's own, if there is one.
      whole, observation, frame_stack: see `check_torso`.

    Raises:
      ValueError: it can't take such frames, or its features don't fit.
    """
    if own is None:
        return encoder(settings, observation)
    check_torso(own, whole, observation, frame_stack, {"D": None})
    return own


def name_of(network: Any) -> str:
    """The name of a user's own network as "module:name"; empty for None. Of a whole one it is that of a function."""
    if network is None:
        return ""
    named = network
    if isinstance(named, tuple):
        named = next(filter(callable, named), named)
    while isinstance(named, functools.partial):
        named = named.func
    named = named if hasattr(named, "__qualname__") else type(named)
    return f"{named.__module__}:{named.__qualname__}"


def check_torso(make: MakeTorso, whole: str, observation: Nest, frame_stack: int, axes: Axes) -> None:
    """Refuses a torso that fails on the environment's frames, or whose features don't fit.

    Args:
      make: the torso.
      whole: the name of the agent's whole network, for the message if `make` is neither.
      observation: nest of specs of one frame.
      frame_stack: L.
      axes: the features' axes after the first, see `require_array`.

    Raises:
      ValueError: the message has the features' shape and the one that is expected.
    """
    if not callable(make):
        raise ValueError(
            f"network is {make!r}; it must be a torso, such as a class of hk.Module, or a whole network, {whole}"
        )
    torso = hk.transform(lambda stack: make(name="torso")(stack))

    def features_of(key: jax.Array, stack: Nest) -> tuple[Nest, jax.Array]:
        params = torso.init(key, stack)
        return params, torso.apply(params, None, stack)

    stack = frames(observation, frame_stack, ROWS)
    params, features = trace("the torso", lambda _, stack: features_of(jax.random.PRNGKey(0), stack), (), stack)
    require_params(params)
    require_array("the torso's features", features, {"N": ROWS, **axes})


def frames(observation: Nest, frame_stack: int, *batch: int) -> Nest:
    """Shapes of a batch of stacked frames, a nest [*batch, ..., L], for specs of one frame."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((*batch, *x.shape, frame_stack), x.dtype), observation)


def trace(what: str, function: Callable[..., Nest], params: Nest, *inputs: Nest) -> Nest:
    """The shapes of a function's outputs, for shapes of its params and inputs.

    Raises:
      ValueError: the function failed; the message has its error and the inputs' shapes.
    """
    try:
        with convolutions.no_device():
            # JAX remembers what it has traced by function; the real network must not be mistaken for this one.
            return jax.eval_shape(lambda *given: function(*given), params, *inputs)
    except Exception as error:
        given = f" on {', '.join(map(describe, inputs))}" if inputs else ""
        raise ValueError(f"network: {what} failed{given}: {type(error).__name__}: {error}") from error


def require_array(what: str, got: Any, axes: Axes, more: bool = False) -> None:
    """Refuses anything but a float32 array of a given shape.

    Args:
      what: the array's name.
      got: the array, or its shape and dtype; anything else is refused.
      axes: its axes.
      more: whether further axes may follow.

    Raises:
      ValueError: the message has what it is and what it must be.
    """
    sizes, shape = list(axes.values()), getattr(got, "shape", ())
    fits = isinstance(got, (jax.Array, jax.ShapeDtypeStruct)) and got.dtype == jnp.float32
    fits = fits and (len(shape) == len(sizes) or (more and len(shape) > len(sizes)))
    if not fits or any(size not in (None, own) for own, size in zip(shape, sizes)):
        names = [name if size is None else f"{name}={size}" for name, size in axes.items()] + ["..."] * more
        raise ValueError(f"network: {what} must be float32[{', '.join(names)}], but is {describe(got)}")


def require_same(what: str, got: Nest, wanted: Nest, like: str) -> None:
    """Refuses a nest of another structure, or with other shapes or dtypes.

    Args:
      what: the nest's name.
      got, wanted: shapes.
      like: the name of the nest that it must match.

    Raises:
      ValueError: the message has both.
    """
    if describe(got) != describe(wanted):
        raise ValueError(f"network: {what} must be like {like}, {describe(wanted)}, but is {describe(got)}")


def require_params(params: Nest) -> None:
    """Refuses params with a leaf that isn't float32.

    Raises:
      ValueError: the message names the leaf.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if leaf.dtype != jnp.float32:
            raise ValueError(
                f"network: params must be float32, but {jax.tree_util.keystr(path)} is {describe(leaf)}; layers may "
                "compute in another type"
            )


def describe(nest: Nest) -> str:
    """The dtype and shape of an array, such as float32[2, 3], or a nest of them."""
    if hasattr(nest, "dtype"):
        return f"{nest.dtype}{list(nest.shape)}"
    return str(jax.tree.map(describe, nest)).replace("'", "") if jax.tree.leaves(nest) else repr(nest)
