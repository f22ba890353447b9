"""Reads JSON that must fit a declared schema, and refuses any other before it is used.

A schema is a `pydantic.TypeAdapter` of a dataclass or another type. Types are strict: "1" or true is no number.
"""

from __future__ import annotations

import json
import pathlib
import stat
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import pydantic

from boonta.nodes.snapshots import files

CONFIG = "config.json"  # The file in a run's folder that has its settings.
SWEEP = "sweep.json"  # The file in a sweep's folder that has its plan.
LARGEST = 1 << 26  # Limit of the bytes of a file that is read whole; a manifest has about a hundred for each file.
SHOWN = 3  # Limit of the faults in a message.
LONGEST_VALUE = 60  # Limit of the letters of a value in a message.
SHOULD = "Input should be "  # So pydantic begins what a value must be.
WORDS = {
    "a valid integer": "an integer",
    "a valid number": "a number",
    "a valid string": "a text",
    "a valid boolean": "true or false",
    "a valid array": "a list",
    "an object": "keys with values",
}

T = TypeVar("T")

Size = Annotated[int, pydantic.Field(ge=0, lt=1 << 63)]
Sha256 = Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]
Number = pydantic.FiniteFloat
ROW = pydantic.TypeAdapter(dict[str, Number | None])  # A row of metrics.


def read(path: pathlib.Path, largest: int = LARGEST) -> bytes:
    """Reads a whole file.

    Raises:
      ValueError: it isn't a regular file, or has more than `largest` bytes.
      OSError: it can't be read.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is not a regular file")
    if found.st_size > largest:
        raise ValueError(f"it has {found.st_size:,} bytes, more than {largest:,}")
    return path.read_bytes()


def parse(content: bytes) -> dict[str, Any]:
    """Parses a JSON object of unknown shape.

    Raises:
      ValueError: it isn't one.
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a nested JSON object by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat.update(flattened(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return flat


def load(schema: pydantic.TypeAdapter[T], content: bytes | str) -> T:
    """Parses JSON that must fit a schema.

    Raises:
      ValueError: it isn't JSON, or doesn't fit; the message names the first fields that are wrong.
    """
    try:
        return schema.validate_json(content, strict=True)
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
        if faults[0]["type"] == "json_invalid":
            raise ValueError(faults[0]["msg"]) from None
        raise ValueError("; ".join(_named(faults, json.loads(content))[:SHOWN])) from None


def _named(faults: Sequence[Mapping[str, Any]], content: Any) -> list[str]:
    """What is wrong with each field: that it is missing, or its value and what it must be.

    Args:
      faults: pydantic's, of which a value that fits no type of a union has one for each type.
      content: the JSON value.
    """
    wanted: dict[str, list[str]] = {}
    for fault in faults:
        missing, message = fault["type"] == "missing", fault["msg"].removeprefix("Value error, ")
        where = _where(fault["loc"], content, missing)
        if missing:
            wanted[f"{where} is missing"] = []
        elif message.startswith(SHOULD):
            rest = message.removeprefix(SHOULD)
            value = textwrap.shorten(json.dumps(fault["input"]), LONGEST_VALUE, placeholder="…")
            wanted.setdefault(f"{where or 'it'} is {value}; it must be ", []).append(WORDS.get(rest, rest))
        else:
            wanted[f"{where}: {message}" if where else message] = []
    return [fault + " or ".join(dict.fromkeys(types)) for fault, types in wanted.items()]


def _where(location: Sequence[str | int], content: Any, missing: bool) -> str:
    """The dotted name of a field; the types of unions, which pydantic names in between, are left out."""
    names = []
    for part in location:
        if isinstance(content, dict) and part in content or isinstance(content, list) and part in range(len(content)):
            content = content[part]  # type: ignore[index]
            names.append(part)
    return ".".join(map(str, [*names, *location[-1:]] if missing else names))


def each_line(schema: pydantic.TypeAdapter[T], path: pathlib.Path) -> Iterator[tuple[int, T | None]]:
    """Yields the lines that `load_lines` reads one by one: the number of each, and None for one that doesn't fit.

    Raises:
      OSError: the file can't be read.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield number, load(schema, line)
            except ValueError:
                yield number, None


def load_lines(schema: pydantic.TypeAdapter[T], path: pathlib.Path) -> tuple[list[T], list[int]]:
    """Reads JSON lines, each of which must fit a schema; if a kill has cut the last one short, only that one is lost.

    Returns:
      The lines that fit, and the numbers of those that don't, counted from 1; empty lines are ignored.

    Raises:
      OSError: the file can't be read.
    """
    loaded, malformed = [], []
    for number, line in each_line(schema, path):
        if line is None:
            malformed.append(number)
        else:
            loaded.append(line)
    return loaded, malformed


def checked(hint: Any, value: Any) -> Any:
    """A parsed JSON value as the type that a field's hint declares, such as a tuple for a list.

    Raises:
      ValueError: it isn't of that type.
    """
    return load(pydantic.TypeAdapter(hint), json.dumps(value))


def load_sealed(schema: pydantic.TypeAdapter[T], content: dict[str, Any]) -> T:
    """Checks an object that `files.sealed` has made: its digest, and then its schema.

    Raises:
      ValueError: it doesn't match its digest, or doesn't fit.
    """
    if not files.unseal(content):
        raise ValueError("it doesn't match the checksum of itself")
    return load(schema, json.dumps(content))
