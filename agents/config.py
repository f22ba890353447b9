"""Hyper-parameters with declared bounds: each field's meaning, unit, source and allowed values.

A config is a frozen dataclass of fields made by `field` and of groups, which are such dataclasses themselves. It is
checked when it is made, so that what can't work is refused before anything runs:

    @documented
    @dataclasses.dataclass(frozen=True)
    class Config:
        batch_size: int = field(32, "Sequences in an update.", unit="sequences", source="Table G.1", at_least=1)
        optimiser: Optimiser = field(Optimiser(learning_rate=6e-4), "Gradient descent on all params.")

        def __post_init__(self) -> None:
            check(self)

A field of a group has a dotted name, such as "optimiser.learning_rate".
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

T = TypeVar("T")


class Declared(NamedTuple):
    """A field's declaration; a bound that is None doesn't bind.

    Attributes:
      help: its meaning, a sentence or a noun phrase.
      unit: the unit of a field that counts something.
      source: the source of its default, or of the idea.
      above, at_least: lower bounds, exclusive and inclusive.
      below, at_most: upper bounds, exclusive and inclusive.
      infinite: whether infinity is allowed.
    """

    help: str
    unit: str = ""
    source: str = ""
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    infinite: bool = False

    def allows(self, number: Any) -> bool:
        """Whether a number is within the bounds; none of them allows NaN."""
        return (
            (self.above is None or number > self.above)
            and (self.at_least is None or number >= self.at_least)
            and (self.below is None or number < self.below)
            and (self.at_most is None or number <= self.at_most)
            and (number == number and (self.infinite or abs(number) != math.inf))
        )

    @property
    def range(self) -> str:
        """A description of the bounds, such as "in [0, 1)"; "" where there are none."""
        lower = _first(self.above, self.at_least)
        upper = _first(self.below, self.at_most)
        if lower is not None and upper is not None:
            opening, closing = "(" if self.above is not None else "[", ")" if self.below is not None else "]"
            return f"in {opening}{lower:g}, {upper:g}{closing}"
        if lower is not None:
            return f"{'above' if self.above is not None else 'at least'} {lower:g}"
        if upper is not None:
            return f"{'below' if self.below is not None else 'at most'} {upper:g}"
        return ""


def field(default: Any, help: str, **declared: Any) -> Any:
    """A field of a config.

    Args:
      default: its value; a group's is an instance of the group.
      help: its meaning.
      **declared: see `Declared`.
    """
    return dataclasses.field(default=default, metadata={Declared: Declared(help, **declared)})


def documented(config: type[T]) -> type[T]:
    """Adds the fields' declarations to a config's docstring, where `help` and the command line's --help show them."""
    lines = []
    for name, kind in _kinds(config).items():
        texts = [kind.declared.unit, kind.allowed if kind.bounded and not kind.choices else "", kind.declared.source]
        labels = ("unit", "allowed", "source")
        extra = "; ".join(f"{label}: {text}" for label, text in zip(labels, texts) if text)
        lines.append(f"  {name}: {kind.declared.help}{f' [{extra}]' if extra else ''}")
    config.__doc__ = "\n".join([inspect.cleandoc(config.__doc__ or ""), "", "Attributes:", *lines])
    return config


def check(config: Any) -> None:
    """Refuses a config with a value that its field doesn't allow.

    Raises:
      ValueError: the message names the config, the field, its value and the allowed values.
    """
    for name, kind in _kinds(type(config)).items():
        require(config, name, kind.allows(getattr(config, name)), kind.allowed)


def require(config: Any, name: str, holds: bool, allowed: str) -> None:
    """Refuses a field's value unless a condition holds, for conditions that bounds can't express.

    Args:
      config: the config with the field.
      name: the field's name, dotted if the field is a group's.
      holds: whether the condition holds.
      allowed: completes "it must be …".

    Raises:
      ValueError: the condition doesn't hold.
    """
    if not holds:
        raise ValueError(f"{name_of(type(config))}: {name} is {_get(config, name)!r}; it must be {allowed}")


def require_sign(config: Any, num_players: int) -> None:
    """Refuses a field `discount` whose sign doesn't fit the number of players.

    Raises:
      ValueError: with two it must be below 0, with one at least 0.
    """
    if not isinstance(config.discount, (int, float)):
        return  # It is traced, since it is learned or one of a population's; the values it starts from were checked.
    two = num_players == 2
    if two != (config.discount < 0):
        raise ValueError(
            f"{name_of(type(config))}: discount is {config.discount}; for a game of {num_players} player(s) it must be "
            + ("below 0, since what is good for one is bad for the other" if two else "at least 0")
        )


def name_of(config: type) -> str:
    """The name of a config in messages: its package and class, such as impala.Config."""
    return ".".join([*config.__module__.split(".")[-2:-1], config.__qualname__])


def leaves(config: Any) -> dict[str, Any]:
    """The values of a config's fields by dotted name, those of its groups included."""
    values: dict[str, Any] = {}
    for each in dataclasses.fields(config):
        value = getattr(config, each.name)
        if dataclasses.is_dataclass(value):
            values |= {f"{each.name}.{name}": leaf for name, leaf in leaves(value).items()}
        else:
            values[each.name] = value
    return values


def number_fields(config: Any) -> list[str]:
    """The dotted names of the fields that hold a real number, or None: those that may be traced."""
    return [name for name in leaves(config) if float in _members(_hint(config, name))]


def declared_of(config: Any, name: str) -> Declared | None:
    """The declaration of a field, by its dotted name; None where it isn't made by `field`."""
    group, _, own = name.rpartition(".")
    kind = _kinds(type(_get(config, group) if group else config)).get(own)
    return kind.declared if kind else None


def recast(kind: type[T], config: Any) -> T:
    """A config's values in a subclass of its class, whose presets differ."""
    return kind(**{each.name: getattr(config, each.name) for each in dataclasses.fields(config)})


def replaced(config: T, values: Mapping[str, Any]) -> T:
    """A copy with other values by dotted name, checked as any config is.

    Raises:
      ValueError: there is no such field, or the config doesn't allow a value.
    """
    changes: dict[str, Any] = {}
    for name, inner in _by_field(config, values).items():
        changes[name] = replaced(getattr(config, name), inner) if isinstance(inner, _Inner) else inner
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def with_values(config: T, values: Mapping[str, Any]) -> T:
    """A copy with other values by dotted name, which may be traced: a tracer can't be compared, so none is checked.

    Raises:
      ValueError: there is no such field.
    """
    changed = copy.copy(config)
    for name, inner in _by_field(config, values).items():
        value = with_values(getattr(config, name), inner) if isinstance(inner, _Inner) else inner
        object.__setattr__(changed, name, value)  # The class is frozen.
    return changed


class _Kind(NamedTuple):
    """The constraints on a field, from its type and its declaration."""

    declared: Declared
    choices: tuple[Any, ...]
    optional: bool
    many: bool
    bounded: bool

    def allows(self, value: Any) -> bool:
        if value is None or not self.bounded:
            return self.optional or not self.bounded
        if self.choices:
            return value in self.choices
        return all(map(self.declared.allows, value)) if self.many else self.declared.allows(value)

    @property
    def allowed(self) -> str:
        words = f"one of {self.choices}" if self.choices else self.declared.range
        if self.many:
            words = f"each {words}"
        elif self.finite:
            words += ", and finite"
        return f"{words}, or None" if self.optional else words

    @property
    def finite(self) -> bool:
        """Whether the description of the bounds must exclude infinity explicitly."""
        one_sided = not self.declared.range.startswith("in ")
        return one_sided and not self.choices and not self.declared.infinite


class _Inner(dict[str, Any]):
    """Values for the fields of a group."""


def _find_kinds(config: type) -> dict[str, _Kind]:
    hints = typing.get_type_hints(config)
    kinds = {}
    for each in dataclasses.fields(config):
        if Declared not in each.metadata:
            continue
        declared, members = each.metadata[Declared], _members(hints[each.name])
        choices = tuple(
            choice for member in members if typing.get_origin(member) is Literal for choice in member.__args__
        )
        many = any(typing.get_origin(member) is tuple for member in members)
        bounded = bool(choices or declared.range)
        infinite = declared.infinite or float not in members
        optional = type(None) in members
        kinds[each.name] = _Kind(declared._replace(infinite=infinite), choices, optional, many, bounded)
    return kinds


_kinds: Callable[[type], dict[str, _Kind]] = functools.cache(_find_kinds)


def _members(hint: Any) -> tuple[Any, ...]:
    """The members of a union type; a type itself where it is none."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _hint(config: Any, name: str) -> Any:
    group, _, own = name.rpartition(".")
    return typing.get_type_hints(type(_get(config, group) if group else config))[own]


def _get(config: Any, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), config)


def _by_field(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by field of the config itself; those of a group's fields are together in an `_Inner`."""
    known = leaves(config)
    changes: dict[str, Any] = {}
    for name, value in values.items():
        head, _, rest = name.partition(".")
        if name not in known and (rest or head not in {each.name for each in dataclasses.fields(config)}):
            raise ValueError(f"{name_of(type(config))} has no field {name!r}; its fields are {list(known)}")
        if rest:
            changes.setdefault(head, _Inner())[rest] = value
        else:
            changes[name] = value
    return changes


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
