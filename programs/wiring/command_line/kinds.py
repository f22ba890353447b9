"""Flags that change a group's kind, such as `--config.torso.kind`: the group's other defaults are then that kind's own.

A preset gives sizes for the kind that it names. They mean nothing for another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import typing
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, Union

import tyro

from boonta.agents.config import with_values

PRESET: type[Any] = type(tyro.conf.subcommand())  # Marks one of the presets that a flag chooses from.
T = TypeVar("T")


def with_kinds(default: T, name: str, words: Sequence[str]) -> T:
    """The default of an argument, with the kinds that the command line names.

    Args:
      default: any value; of a dataclass, fields with a method `of_kind` change, and fields of fields.
      name: the name of its flag, without dashes.
      words: the command line.
    """
    if not dataclasses.is_dataclass(default) or isinstance(default, type):
        return default
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(default):
        value, flag = getattr(default, field.name), f"{name}.{field.name}"
        if hasattr(value, "of_kind") and (kind := _given(f"--{flag}.kind", words)):
            with contextlib.suppress(ValueError):  # The parser says what is wrong with a kind.
                changes[field.name] = value.of_kind(kind)
        elif (changed := with_kinds(value, flag, words)) is not value:
            changes[field.name] = changed
    # It isn't checked: another flag may change what doesn't fit the kind. The parser makes it anew, and checks it.
    return with_values(default, changes) if changes else default


def presets_in(hint: Any) -> list[Any]:
    """The presets that an argument's type offers, as marks with `name` and `default`; none of an ordinary type.

    Args:
      hint: any type; one with presets is what `tyro.extras.subcommand_type_from_defaults` makes.
    """
    marks = [mark for option in typing.get_args(hint) for mark in getattr(option, "__metadata__", ())]
    return [mark for mark in marks if isinstance(mark, PRESET)]


def presets_with_kinds(hint: Any, name: str, words: Sequence[str]) -> Any:
    """The type of an argument that is one of several presets, each with the kinds that the command line names.

    Args:
      hint: any type; those with presets change, see `presets_in`.
      name, words: as for `with_kinds`.
    """

    def changed(mark: Any) -> Any:
        is_preset = isinstance(mark, PRESET)
        return dataclasses.replace(mark, default=with_kinds(mark.default, name, words)) if is_preset else mark

    if not presets_in(hint):
        return hint
    options = [(option, getattr(option, "__metadata__", ())) for option in typing.get_args(hint)]
    made = [
        operator.getitem(Annotated, (option.__origin__, *map(changed, marks))) if marks else option
        for option, marks in options
    ]
    return operator.getitem(Union, tuple(made))


def _given(flag: str, words: Sequence[str]) -> str | None:
    """The last value that the words give to a flag; None where they don't name it."""
    value = None
    for word, following in zip(words, [*words[1:], ""]):
        name, equals, text = word.partition("=")
        if name.replace("_", "-") == flag.replace("_", "-"):
            value = text if equals else following
    return value
