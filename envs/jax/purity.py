"""Checks that an environment is a pure JAX program, before a long compilation begins."""

from __future__ import annotations

import dataclasses
import os
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import tree

from boonta.envs import base
from boonta.envs.jax.base import JaxEnv

_CALLBACK = re.compile(r"\b(pure_callback|io_callback)\[")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_IMPURE = (jax.errors.JAXTypeError, jax.errors.JAXIndexError, jax.errors.UnexpectedTracerError)
_JAX = os.path.dirname(jax.__file__) + os.sep
_KEEP = "an environment may hold only settings; everything else belongs in the state that init and step return"


def check_pure(env: JaxEnv) -> None:
    """Traces `init` and `step` of one slot, twice each, and compares the traces with each other and with the spec.

    Nothing is compiled, unless two traces of the same function differ.

    Args:
      env: the environment to check.

    Raises:
      ValueError: it is not a JAX environment, not a pure JAX program, or doesn't match its spec; the message names the
        leaf, what it is and what it must be.
    """
    if not isinstance(env, JaxEnv):
        kind = type(env)
        raise ValueError(f"env is of {kind.__module__}.{kind.__qualname__}; it must be a JaxEnv, see envs.jax.base")
    name = type(env).__name__
    _check_settings(env, name)
    spec = env.spec
    if spec.num_players == 2 and not isinstance(spec.observations, base.BoardView):
        raise ValueError(f"{name}.spec has 2 players; its observations must be a BoardView")
    before = dict(_kept(name, vars(env)))
    try:
        key = jax.eval_shape(lambda: jax.random.PRNGKey(0))
        began = _trace(env.init, f"{name}.init", key)
        _check_timestep(spec, began[1], f"{name}.init")
        action = jax.ShapeDtypeStruct(spec.actions.shape, spec.actions.dtype)
        stepped = _trace(env.step, f"{name}.step", began[0], action)
        _check_timestep(spec, stepped[1], f"{name}.step")
        _check_constant(began, stepped, name)
        _check_metrics(env, name, began[0])
    finally:  # Values that the environment keeps may be the cause of any other error, so they are reported instead.
        _check_kept(env, name, before)


def _check_settings(env: JaxEnv, name: str) -> None:
    """Refuses an environment that can't be a static argument of a compiled program."""
    for path, value in _kept(name, vars(env)):
        if _is_array(value):
            raise ValueError(f"{path} is {_kind(value)}; {_KEEP}")
    try:
        hash(env)
    except TypeError as error:
        raise ValueError(f"{name} can't be hashed ({error}); it must be a frozen dataclass of plain settings") from None


def _check_kept(env: JaxEnv, name: str, before: dict[str, Any]) -> None:
    """Refuses an environment whose attributes, by path, changed while it was traced."""
    for path, value in _kept(name, vars(env)):
        new = path not in before and path.count(".") == 1 and not _is_array(value)  # Such as a cached property.
        if not new and before.get(path, before) is not value:
            raise ValueError(f"{path} became {_kind(value)} when the program was traced; {_KEEP}")


def _kept(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the attributes of an environment with their paths, through nested dicts, sequences and dataclasses."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = vars(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _kept(f"{path}.{key}", inner)
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from _kept(f"{path}[{i}]", inner)
    else:
        yield path, value


def _trace(function: Callable, name: str, *args: Any) -> tuple[Any, Any]:
    """Traces a function that returns a state and a time step; returns them as `jax.ShapeDtypeStruct`s."""
    program, out = _program(function, name, args)
    for _ in range(2):  # The first trace may differ, because it may fill caches.
        other, out = _program(function, name, args)
        same, programs, program = _same(program, other), [program, other], other
        if same:
            break
    else:
        raise ValueError(
            f"{name} is another program each time it is traced{_differing(programs, out, args)}; it must depend on its"
            " arguments alone, not on values kept or drawn by Python or numpy"
        )
    callback = _CALLBACK.search(str(program))
    if callback:
        raise ValueError(f"{name} calls back to Python ({callback[1]}); an environment must be a pure JAX program")
    avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in program.out_avals]
    return jax.tree.unflatten(jax.tree.structure(out), avals)


def _program(function: Callable, name: str, args: tuple) -> tuple[Any, Any]:
    """Traces a function; returns the program and the shapes of its results."""

    def returned(*args: Any) -> tuple[Any, Any]:  # This must be a new function each time, because JAX caches traces.
        try:
            out = function(*args)
        except (*_IMPURE, TypeError, ValueError) as error:  # A shape may depend on a value, for example.
            refused = "is not a pure JAX program" if isinstance(error, _IMPURE) else "can't be traced"
            what = str(error).partition("\n")[0]
            raise ValueError(f"{name} {refused}{where(error)}: {what}") from error
        return _check_returned(out, name)

    return jax.make_jaxpr(returned, return_shape=True)(*args)


def _check_returned(out: Any, name: str) -> tuple[Any, Any]:
    """Refuses results other than a state and a time step of JAX arrays."""
    if not (isinstance(out, tuple) and len(out) == 2 and isinstance(out[1], base.TimeStep)):
        raise ValueError(f"{name} returns {type(out).__name__}; it must return a state and a TimeStep")
    for path, leaf in _leaves(out):
        if not isinstance(leaf, jax.Array):
            raise ValueError(f"{path} of {name} is {_kind(leaf)}; it must be a JAX array")
    return out


def _same(one: Any, two: Any) -> bool:
    """Whether two traces are the same program, with the same constants."""
    texts = [_ADDRESS.sub("", str(program)) for program in (one, two)]
    return texts[0] == texts[1] and all(map(np.array_equal, one.consts, two.consts))


def _differing(programs: list[Any], out: Any, args: tuple) -> str:
    """Names the first leaf in which two traces differ when run on zeros, or into which a tracer has leaked."""
    leaked = _first_leaked(programs[-1], out)
    if leaked:
        return f": {leaked} depends on a tracer of an earlier trace"
    zeros = [jnp.zeros(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(args)]
    values = [jax.extend.core.jaxpr_as_fun(program)(*zeros) for program in programs]
    for (path, _), a, b in zip(_leaves(out), *values):
        if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return f": {path} differs"
    return ""


def _first_leaked(program: Any, out: Any) -> str | None:
    """Returns the first leaf that depends on a tracer of another trace, which is a constant of this one."""
    jaxpr = program.jaxpr
    leaked = {id(var) for var, value in zip(jaxpr.constvars, program.consts) if isinstance(value, jax.core.Tracer)}
    if not leaked:
        return None
    for equation in jaxpr.eqns:
        if any(id(var) in leaked for var in equation.invars):
            leaked.update(map(id, equation.outvars))
    return next((path for (path, _), var in zip(_leaves(out), jaxpr.outvars) if id(var) in leaked), "an unused value")


def _check_constant(began: tuple[Any, Any], stepped: tuple[Any, Any], name: str) -> None:
    """Refuses results whose structure, shape or dtype differs between `init` and `step`."""
    for part, one, two in zip(("state", "timestep"), began, stepped):
        before, after = str(jax.tree.structure(one)), str(jax.tree.structure(two))
        if before != after:
            raise ValueError(
                f"the {part} of {name} is {before} after init, and {after} after step; it must stay the same"
            )
    for (path, one), (_, two) in zip(_leaves(began), _leaves(stepped)):
        if (one.shape, one.dtype, one.weak_type) != (two.shape, two.dtype, two.weak_type):
            raise ValueError(
                f"{path} of {name} is {_shape(one)} after init, and {_shape(two)} after step; it must stay the same"
            )


def _check_timestep(spec: base.EnvSpec, timestep: base.TimeStep, name: str) -> None:
    """Refuses a time step [] that doesn't match the spec."""
    wanted = spec.timestep
    try:
        tree.assert_same_structure(wanted, timestep)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the observation of {name} has not the structure of its spec: {error}") from None
    for (path, leaf), value in zip(tree.flatten_with_path(wanted), tree.flatten(timestep)):
        if (value.shape, value.dtype) != (leaf.shape, leaf.dtype):
            leaf_name = ".".join(map(str, ("timestep", *path)))
            raise ValueError(f"{leaf_name} of {name} is {_shape(value)}; its spec says {_shape(leaf)}")


def _check_metrics(env: JaxEnv, name: str, state: Any) -> None:
    """Refuses numbers of an episode that are no arrays [] by name."""
    method = f"{name}.episode_metrics"
    try:
        found = jax.eval_shape(lambda state: env.episode_metrics(state), state)
    except (*_IMPURE, TypeError, ValueError) as error:
        raise ValueError(f"{method} can't be traced{where(error)}: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ValueError(f"{method} returns {found}; it must be a dict of numbers by name")
    for key, value in found.items():
        if getattr(value, "shape", None) != () or np.dtype(value.dtype).kind not in "biuf":
            raise ValueError(f"{key} of {method} is {value}; it must be a number or a truth value, of shape []")


def _leaves(out: tuple[Any, Any]) -> list[tuple[str, Any]]:
    """Returns the leaves of a state and a time step, with names such as "state.game.row"."""
    leaves = []
    for part, nest in zip(("state", "timestep"), out):
        for path, leaf in jax.tree_util.tree_flatten_with_path(nest)[0]:
            leaves.append((part + jax.tree_util.keystr(path), leaf))
    return leaves


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, jax.Array))  # Tracers are instances of jax.Array.


def _kind(value: Any) -> str:
    """Describes a value for error messages."""
    if isinstance(value, jax.core.Tracer):
        return f"a tracer, {value.dtype}{list(value.shape)}"
    if isinstance(value, jax.Array):
        return f"a JAX array, {value.dtype}{list(value.shape)}"
    if isinstance(value, (np.ndarray, np.generic)):
        return f"a numpy array, {value.dtype}{list(value.shape)}"
    return f"the Python {type(value).__name__} {value!r}"


def _shape(leaf: Any) -> str:
    weak = " (of a Python number: give it a dtype)" if getattr(leaf, "weak_type", False) else ""
    return f"{np.dtype(leaf.dtype)}{list(leaf.shape)}{weak}"


def where(error: Exception) -> str:
    """The end of a message about an error: the innermost line of its traceback outside of JAX."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_JAX)]
    frame = frames[-1]
    return f" at {os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}, `{frame.line}`"
