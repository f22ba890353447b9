"""What a run's config.json has: settings in JSON's types, and the picture of the program."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

from boonta.envs.names import steady
from boonta.programs.wiring.pace import Pace

What = Literal["steps", "batches", "params", "observations", "actions"]


@dataclasses.dataclass(frozen=True)
class PictureGroup:
    """A group of nodes in a program's picture.

    Attributes:
      label: the group's name.
      node: the class of its nodes.
      names: the names of its nodes.
    """

    label: str
    node: str
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Arrow:
    """What goes from one group to another.

    Attributes:
      source, target: the labels of the groups.
      what: what goes there.
    """

    source: str
    target: str
    what: What


@dataclasses.dataclass(frozen=True)
class Picture:
    """A program's groups and arrows; all nodes also report to the monitor, which has no arrows."""

    groups: tuple[PictureGroup, ...] = ()
    arrows: tuple[Arrow, ...] = ()


def by_flag(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A program's settings in JSON's types, as their flags name them: the fields of a `Pace` are beside the others."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= plain(value) if isinstance(value, Pace) else {name: plain(value)}
    return found


def class_defaults(value: Any) -> dict[str, Any]:
    """The defaults that a dataclass's class gives its fields; fields without one are missing.

    A run of before a field was there did what the default does.
    """
    found = {}
    for each in dataclasses.fields(value):
        if each.init and each.default is not dataclasses.MISSING:
            found[each.name] = each.default
        elif each.init and each.default_factory is not dataclasses.MISSING:
            found[each.name] = each.default_factory()
    return found


def by_parameter(recorded: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Recorded settings as a program's function takes them, by a call's `settings`; `by_flag` backwards."""
    found = dict(recorded)
    for name, value in settings.items():
        if isinstance(value, Pace) and any(each in found for each in vars(value)):
            found[name] = {each: found.pop(each) for each in vars(value) if each in found}
    return found


def plain(value: Any) -> Any:
    """A value in JSON's types: a dataclass by its fields, anything else that JSON lacks as a text."""
    return json.loads(json.dumps(value, default=_encode))


def _encode(value: Any) -> Any:
    """A value for JSON: a dataclass's fields; a class or function by name; or the `repr` of anything else."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return f"{value.__module__}:{value.__qualname__}" if hasattr(value, "__qualname__") else steady(value)
