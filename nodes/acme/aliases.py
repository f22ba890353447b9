"""Names that Acme 0.4.0's JAX agents use and that are gone: for comparing with those agents, which is experimental."""

from __future__ import annotations

import importlib
import sys
import types

import acme
import jax
import jax.numpy as jnp

from boonta.agents.light_rlax import import_distrax
from boonta.nodes.acme import VERSION


def install() -> None:
    """Makes `acme.agents.jax` importable, for this process: adds the names to JAX, and leaves out Acme's savers.

    The savers are sonnet's; so Acme's layouts take no checkpoints (`checkpoint=False`).

    Raises:
      ImportError: Acme is of another version, or its agents still can't be imported; the message says which part.
    """
    if acme.__version__ != VERSION:
        raise ImportError(f"the aliases are for dm-acme {VERSION}, and this is {acme.__version__}: install that one")
    import_distrax()  # Acme's networks need it.
    _add(jax, tree_map=jax.tree.map, tree_multimap=jax.tree.map)
    _add(jax, xla=types.SimpleNamespace(DeviceArray=jax.Array, Device=jax.Device))
    _add(jax, pxla=types.SimpleNamespace(ShardedDeviceArray=jax.Array))
    _add(jnp, DeviceArray=jax.Array)
    savers = types.ModuleType("acme.tf.savers")
    savers.Checkpointer = savers.CheckpointingRunner = object  # type: ignore[attr-defined]
    sys.modules.setdefault("acme.tf.savers", savers)
    try:
        importlib.import_module("acme.jax.layouts.local_layout")
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"dm-acme {VERSION}'s JAX agents don't work with jax {jax.__version__}: {error}. They do with jax 0.6.2, "
            "which requirements.lock has for CPython 3.10"
        ) from error


def _add(module: types.ModuleType, **names: object) -> None:
    for name, value in names.items():
        if not hasattr(module, name):
            setattr(module, name, value)
