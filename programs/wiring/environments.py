"""Environments by name: `atari/Pong`, `minatar/breakout`, `catch`, or a user's own as `package.module:name`."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tyro

from boonta.envs.base import Env, EnvSpec, suggest
from boonta.envs.names import in_gymnasium, named
from boonta.envs.spec_check import ConformanceError, adapter_of, check_spec
from boonta.programs.wiring.command_line.booleans import spelled_out
from boonta.programs.wiring.command_line.integers import INTEGERS
from boonta.programs.wiring.run import BadInput


class Family(NamedTuple):
    """Environments of one class.

    Attributes:
      module: the class's module.
      name: the class's name.
      example: the name of one of them on the command line.
      jax: whether it is a `JaxEnv`.
    """

    module: str
    name: str
    example: str
    jax: bool = False

    @property
    def has_games(self) -> bool:
        """Whether the class's first field names one of several games."""
        return "/" in self.example


FAMILIES = {
    "atari": Family("boonta.envs.atari", "Atari", "atari/Pong"),
    "brax": Family("boonta.envs.jax.brax", "Brax", "brax/ant", jax=True),
    "catch": Family("boonta.envs.catch", "Catch", "catch"),
    "dm_control": Family("boonta.envs.dm_control", "DmControl", "dm_control/cartpole-swingup"),
    "envpool": Family("boonta.envs.envpool", "EnvPool", "envpool/Pendulum-v1"),
    "grid_world": Family("boonta.envs.jax.grid_world", "GridWorld", "grid_world", jax=True),
    "gymnasium": Family("boonta.envs.gymnasium", "Gymnasium", "gymnasium/CartPole-v1"),
    "gymnax": Family("boonta.envs.jax.gymnax", "Gymnax", "gymnax/CartPole-v1", jax=True),
    "minatar": Family("boonta.envs.minatar", "MinAtar", "minatar/breakout"),
    "open_spiel": Family("boonta.envs.open_spiel", "OpenSpiel", "open_spiel/connect_four"),
    "pgx": Family("boonta.envs.jax.pgx", "Pgx", "pgx/connect_four", jax=True),
}
OURS = "boonta.envs."  # The modules of our environments begin with it.
MIXED = ("default", "envpool", "gymnasium", "gymnax")  # Families whose worlds have little in common.
PLAIN = (bool, int, float, str, type(None))  # Types of values that a flag can express.
EXAMPLES = tuple(family.example for family in FAMILIES.values())


def make_env(name: str, arguments: Sequence[str] = ()) -> Env:
    """Makes the environment with this name.

    Args:
      name: FAMILY/GAME; FAMILY alone where it has no games; or MODULE:NAME of an environment, its class, or a function
        that makes one.
      arguments: the command line's arguments; they may contain settings of our families, as `--env.SETTING VALUE`.

    Raises:
      BadInput: there is none with this name, and the message lists near matches; or it can't be made, for example
        because it needs a package that is missing.
    """
    if ":" in name:
        return _own(name)
    family_name, slash, game = name.partition("/")
    if family_name not in FAMILIES:
        module, dot, own = name.rpartition(".")
        near = f"did you mean 'gymnasium/{name}'?" if in_gymnasium(name) else suggest(family_name, FAMILIES)
        raise BadInput(
            f"environment {name!r} is unknown: {near} Examples: {', '.join(EXAMPLES)}, or "
            f"{f'{module}:{own}' if dot else 'package.module:name'} for one of your own"
        )
    family = FAMILIES[family_name]
    if family.has_games != bool(game):
        raise BadInput(f"environment {name!r} must be written like {family.example!r}")
    try:
        kind = getattr(importlib.import_module(family.module), family.name)
        settings = _given(_settings_of(kind, {}), arguments)
        env = kind(game, **settings) if family.has_games else kind(**settings)
        _ = env.spec  # Some only find out here that they can't be made.
        return env
    except (ValueError, ImportError) as error:
        raise BadInput(f"environment {name!r}: {error}") from error


def _own(name: str) -> Env:
    """A user's environment."""
    try:
        found = named(name)
    except ImportError as error:
        raise BadInput(f"environment {name!r}: {error}") from error
    if inspect.isabstract(found):
        raise BadInput(f"environment {name!r} lacks {', '.join(sorted(found.__abstractmethods__))}")
    if inspect.isclass(found) or inspect.isfunction(found):
        try:
            inspect.signature(found).bind()
        except TypeError as error:
            raise BadInput(
                f"environment {name!r} is called without arguments, and must give an Env, which itself is called with "
                f"(num_envs, seed): {error}"
            ) from error
        try:
            found = found()
        except ValueError as error:  # Of one of our adapters, or of its own.
            raise BadInput(f"environment {name!r}: {error}") from error
    if not hasattr(found, "spec") or not callable(found):
        kind = type(found).__name__
        raise BadInput(
            f"environment {name!r} is a {kind}, not an Env: it needs a spec and (num_envs, seed){adapter_of(found)}"
        )
    try:
        check_spec(found)
    except ConformanceError as error:
        raise BadInput(f"environment {name!r} has a spec that agents can't take: {error}") from error
    return found


def kind_of(env: Env) -> str:
    """The kind of an environment, by which agents choose their presets; its attribute `kind`, if it has one.

    An environment that wraps another one as its `env` and has no `kind` has that one's. Of a family with worlds of all
    sorts those that show pictures are like Atari's, or dm_control's; others with real-valued actions are "continuous".
    """
    kind = _named_kind(env)
    if kind not in MIXED:
        return kind
    continuous = np.issubdtype(env.spec.actions.dtype, np.floating)
    if env.spec.shows_pictures:
        return "dm_control_pixels" if continuous else "atari"
    return "continuous" if continuous else kind


def _named_kind(env: Env) -> str:
    if hasattr(env, "kind"):
        return env.kind
    wrapped: Any = getattr(env, "env", None)
    if isinstance(getattr(wrapped, "spec", None), EnvSpec):
        return _named_kind(wrapped)
    game = getattr(env, "game", getattr(env, "env", ""))
    if game == "CartPole-v1":
        return "cartpole"
    if env.spec.num_players == 2:
        return "connect_four" if game == "connect_four" else "board"
    return _family_name(type(env)) or "default"


def settings_class(env: Env) -> Any:
    """An environment's settings, an instance of a dataclass made for the command line; None where there are none.

    It leaves out the name of the game, which the command line gives first, and values that no flag can express.
    """
    return _settings_of(type(env), vars(env)) if dataclasses.is_dataclass(env) else None


def _settings_of(kind: Any, values: Mapping[str, Any]) -> Any:
    """See `settings_class`; settings that `values` lacks keep the class's default."""
    hints = typing.get_type_hints(kind)
    family = FAMILIES.get(_family_name(kind))
    named = dataclasses.fields(kind)[:1] if family is not None and family.has_games else ()
    fields = [f for f in dataclasses.fields(kind) if f not in named and _is_plain(hints[f.name])]
    if not fields:
        return None
    defaults = [(f.name, hints[f.name], dataclasses.field(default=values.get(f.name, f.default))) for f in fields]
    made = dataclasses.make_dataclass(f"{kind.__name__}Settings", defaults, frozen=True)
    made.__doc__ = inspect.getdoc(kind)
    return made()


def _given(settings: Any, arguments: Sequence[str]) -> dict[str, Any]:
    """The environment's settings in a command line, whose other arguments are ignored."""
    if settings is None or not any(argument.startswith("--env.") for argument in arguments):
        return {}

    def collect(env: Any = settings) -> Any:
        return env

    collect.__annotations__ = {"env": type(settings)}
    words = spelled_out([word for word in arguments if word not in ("-h", "--help")], {"env": type(settings)})
    return dataclasses.asdict(tyro.cli(collect, args=words, return_unknown_args=True, registry=INTEGERS)[0])


def with_settings(env: Env, settings: Any) -> Env:
    """The environment with changed settings, an instance of its `settings_class`.

    Raises:
      ValueError: the environment refuses them.
    """
    changed: Any = env
    return dataclasses.replace(changed, **dataclasses.asdict(settings))


def usual(name: str, env: Env) -> Any:
    """The environment that was made by this name as `recorded.plain` has it, with the defaults of its class's settings.

    No environment is made for it: some refuse their defaults for some games.
    """
    if ":" in name:
        return env
    made: Any = env
    defaults = {f.name: f.default for f in dataclasses.fields(made) if f.default is not dataclasses.MISSING}
    return dataclasses.asdict(made) | defaults


def _family_name(kind: type) -> str:
    """The name of the family that has a class of environments, or has its twin in JAX; empty for a user's own class."""
    names = {family.name: family_name for family_name, family in FAMILIES.items()}
    return names.get(kind.__name__, "") if kind.__module__.startswith(OURS) else ""


def _is_plain(hint: Any) -> bool:
    """Whether a flag can express a value of this type."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint) or (hint,)
    plain = (*PLAIN, ...) if origin is tuple else PLAIN  # A tuple's parts are any number of values of one type.
    return origin is typing.Literal or all(part in plain for part in parts)


def module_of(env: Env, name: str = "") -> str:
    """The module of a user's own environment; empty if the environment is one of Boonta's.

    Args:
      env: the environment.
      name: the name by which the command line asked for it, such as "package.module:name"; empty if it didn't.
    """
    if ":" in name:
        return name.partition(":")[0]
    if not type(env).__module__.startswith(OURS):
        return type(env).__module__
    game = _first_setting(env) if dataclasses.is_dataclass(env) else None
    return getattr(game, "__module__", None) or "" if callable(game) else ""


def name_of(env: Env) -> str:
    """The environment's name in a run's default folder: its family and game, with dashes, or what makes it."""
    name = _family_name(type(env))
    if name:
        game = _first_setting(env) if FAMILIES[name].has_games else ""
        if callable(game):
            return _maker(game) or name
        return "-".join(filter(None, (name, str(game).replace("/", "-"))))
    return _maker(getattr(env, "make", None)) or type(env).__name__.lower()


def _first_setting(env: Any) -> Any:
    """The value of a dataclass's first field; of an environment that has games it names the game."""
    return getattr(env, dataclasses.fields(env)[0].name)


def _maker(made_by: Any) -> str:
    """The name of a class or a function of the user's that makes an environment; empty for anything else."""
    named = callable(made_by) and hasattr(made_by, "__qualname__")
    return f"{made_by.__module__}-{made_by.__qualname__}" if named else ""
