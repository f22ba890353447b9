"""Flags that change a group's kind, such as `--config.torso.kind`: the group's other defaults are then that kind's own.

A preset gives sizes for the kind that it names. They mean nothing for another.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from boonta.agents.config import with_values

T = TypeVar("T")


def with_kinds(default: T, name: str, words: Sequence[str]) -> T:
    """The default of an argument, where the command line has its say on kinds.

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
        if hasattr(value, "of_kind"):
            with contextlib.suppress(ValueError):  # The parser says what is wrong with a kind.
                changes[field.name] = value.of_kind(_given(f"--{flag}.kind", words) or value.kind)
        elif (changed := with_kinds(value, flag, words)) is not value:
            changes[field.name] = changed
    # It isn't checked: another flag may change what doesn't fit the kind. The parser makes it anew, and checks it.
    return with_values(default, changes) if changes else default


def _given(flag: str, words: Sequence[str]) -> str | None:
    """The last value that the words give to a flag; None where they don't name it."""
    value = None
    for word, following in zip(words, [*words[1:], ""]):
        name, equals, text = word.partition("=")
        if name.replace("_", "-") == flag.replace("_", "-"):
            value = text if equals else following
    return value
