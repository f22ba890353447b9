"""Values of flags, in a sweep's file, on a command line, and in a folder's name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from boonta.programs.wiring.run import BadInput

Scalar = bool | int | float | str | None
Value = Scalar | list[Scalar]  # A list is one value: the words of a flag that takes several.
Flags = Mapping[str, Value]
BOOLEANS = {"true": True, "True": True, "false": False, "False": False}
NUMBER = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
MERGE = "tag:yaml.org,2002:merge"  # The tag of the key <<.


class _Loader(yaml.SafeLoader):
    """Reads 1e-3 as a number, as JSON and Python do; YAML 1.1 wants 1.0e-3. Refuses a key that is given twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Looks at keys as they are written; when objects are made of them, those of merged mappings are among them."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            if (key.tag, key.value) in seen:
                raise yaml.composer.ComposerError(None, None, f"{key.value!r} is given twice", key.start_mark)
            seen.add((key.tag, key.value))
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+"),
    list("-+.0123456789"),
)


def load(text: str) -> Any:
    """Parses YAML.

    Raises:
      ValueError: it isn't YAML, or has a key twice.
    """
    try:
        return yaml.load(text, _Loader)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{at}{error.problem or error.context}") from error
    except (yaml.YAMLError, TypeError, AttributeError, OverflowError) as error:  # The library's own checks have gaps.
        raise ValueError(" ".join(str(error).split())) from error


def parsed(text: str) -> Scalar:
    """A word of a command line as a value.

    The word becomes a word of the runs' command lines again. So it stays as it is unless it is plainly a number, true
    or false: YAML would read 010 as 8, 1:30 as 90, and ~ as None.
    """
    if text in BOOLEANS:
        return BOOLEANS[text]
    try:
        value: Scalar = load(text) if NUMBER.fullmatch(text) else text
    except ValueError:  # Python reads integers of a few thousand digits only.
        return text
    return value


def normal(flag: str) -> str:
    """A flag's name as the command line's help shows it; equal flags have equal names."""
    return flag.removeprefix("--").replace("_", "-")


def joined(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Flags, or axes of a grid, with others that take the place of own ones of the same name."""
    names = set(map(normal, given))
    return {**{flag: value for flag, value in own.items() if normal(flag) not in names}, **given}


def words(flags: Flags) -> list[str]:
    """The words of a command line that give flags their values."""
    found: list[str] = []
    for flag, value in flags.items():
        if isinstance(value, bool):
            group, dot, name = flag.rpartition(".")
            found.append(f"--{flag}" if value else f"--{group}{dot}no-{name}")
        else:
            found += [f"--{flag}", *map(str, value if isinstance(value, list) else [value])]
    return found


def flags_of(command: Sequence[str]) -> dict[str, Value]:
    """The flags of a program's command line, by name.

    Raises:
      BadInput: a word belongs to no flag, or a flag is given twice.
    """
    flags: dict[str, Value] = {}
    name = ""
    for word in command:
        if word.startswith("--"):
            flag, equals, own = word.partition("=")
            name = normal(flag)
            if name in flags:
                raise BadInput(f"--{name} is given twice after --")
            flags[name] = parsed(own) if equals else True
        elif not name:
            raise BadInput(f"{word!r} after -- is no flag; environments are given by --env, before --")
        else:
            value = parsed(word)
            value = word if isinstance(value, bool) else value  # A flag that takes no word is no flag with one.
            given = flags[name]
            flags[name] = value if given is True else [*given, value] if isinstance(given, list) else [given, value]
    return flags
