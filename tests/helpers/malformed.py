"""Hypothesis strategies for malformed files: valid ones whose bytes, JSON values, or headers are changed.

A file that contains its own digest is also made with the right digest of its wrong content.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from boonta.nodes.snapshots.files import sealed

DEEP = 800  # Levels; a few hundred more exceed Python's recursion limit.
STRINGS = st.sampled_from(
    ["", ".", "..", "../up", "/etc/hostname", "a/../../b", "a\0b", "\ud800", "x" * 300, "nan", "1", "float32", "object"]
)
NUMBERS = st.sampled_from([0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 10**400, 1e308, -0.5])
NUMBERS |= st.integers() | st.floats()
SCALARS = st.none() | st.booleans() | NUMBERS | STRINGS | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS | st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def changed_bytes(draw: st.DrawFn, valid: bytes) -> bytes:
    """Content with a few bytes changed, or with a part removed, added, repeated, or moved."""
    content = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 64)))
        kind = draw(st.sampled_from(["flip", "set", "set", "cut", "remove", "insert", "repeat", "number"]))
        if kind == "flip" and start < len(content):
            content[start] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set" and start < len(content):
            content[start] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        elif kind == "cut":
            del content[start:]
        elif kind == "remove":
            del content[start:end]
        elif kind == "insert":
            content[start:start] = draw(st.binary(max_size=16))
        elif kind == "repeat":
            content[start:start] = content[start:end]
        elif kind == "number":
            content[start : start + 8] = draw(st.integers(0, 2**64 - 1)).to_bytes(8, "little")
    return bytes(content)


@st.composite
def changed_json(draw: st.DrawFn, valid: Any) -> Any:
    """A JSON value with one to three of its parts, at any depth, replaced, removed, renamed, or added."""
    root = [copy.deepcopy(valid)]
    for _ in range(draw(st.integers(1, 3))):
        parent, key = draw(st.sampled_from(_places(root)))
        kind = draw(st.sampled_from(["value", "value", "near", "remove", "rename", "add", "wrap", "nest"]))
        if kind == "value":
            parent[key] = draw(VALUES)
        elif kind == "near":
            parent[key] = draw(_near(parent[key]))
        elif kind == "remove" and parent is not root:
            del parent[key]
        elif kind == "rename" and isinstance(parent, dict):
            parent[draw(STRINGS | st.text(max_size=8))] = parent.pop(key)
        elif kind == "add" and isinstance(parent[key], dict):
            parent[key][draw(STRINGS | st.text(max_size=8))] = draw(VALUES)
        elif kind == "add" and isinstance(parent[key], list):
            parent[key].append(draw(VALUES))
        elif kind == "wrap":
            parent[key] = draw(st.sampled_from([[parent[key]], {"": parent[key]}, json.dumps(parent[key])]))
        elif kind == "nest":
            for _ in range(draw(st.sampled_from([10, DEEP]))):
                parent[key] = [parent[key]]
    return root[0]


def _near(value: Any) -> st.SearchStrategy:
    """Values of the same type, and the same value as another type."""
    if isinstance(value, bool) or value is None:
        return st.sampled_from([True, False, None, 0, 1])
    if isinstance(value, int | float):
        return NUMBERS | st.sampled_from([value + 1, -value, str(value), bool(value)])
    if isinstance(value, str):
        return STRINGS | st.text(max_size=8).map(lambda text: value + text) | st.just(value.upper())
    return st.sampled_from([[], {}, list(value), value])


def _places(root: list) -> list[tuple[Any, Any]]:
    """The containers and keys of all values in a JSON value, itself included."""
    found, waiting = [], [root]
    while waiting:
        container = waiting.pop()
        for key in container if isinstance(container, dict) else range(len(container)):
            found.append((container, key))
            if isinstance(container[key], dict | list):
                waiting.append(container[key])
    return found


def _dumped(dump: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """A function that dumps a value, or a plain wrong one where it is too deep for Python to dump it."""

    def dumped(value: Any) -> bytes:
        try:
            return dump(value)
        except RecursionError:
            return b"[" * 100_000

    return dumped


def json_files(valid: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Malformed JSON files."""
    text = json.dumps(valid, indent=1).encode()
    values = changed_json(valid).map(_dumped(lambda value: json.dumps(value).encode()))
    return values | changed_bytes(text) | st.binary(max_size=64) | st.just(b"[" * 100_000)


def sealed_files(valid: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Malformed JSON files of objects that contain their own digest, most of them with the right one."""

    def seal(value: Any) -> bytes:
        return sealed(value) if isinstance(value, dict) else json.dumps(value).encode()

    values = changed_json(valid).map(_dumped(seal))
    return values | values | json_files(json.loads(sealed(valid)))


@st.composite
def safetensors_files(draw: st.DrawFn, valid: bytes) -> bytes:
    """Malformed safetensors: eight bytes of the header's length, the header, which is JSON, and the data."""
    if draw(st.booleans()):
        return draw(changed_bytes(valid))
    length = int.from_bytes(valid[:8], "little")
    header, data = draw(changed_json(json.loads(valid[8 : 8 + length]))), valid[8 + length :]
    text = _dumped(lambda value: json.dumps(value).encode())(header)
    length = draw(st.sampled_from([len(text)] * 8 + [0, 2**63, 2**64 - 1, 100_000_000, len(text) - 1]))
    return length.to_bytes(8, "little") + text + draw(st.just(data) | changed_bytes(data))


@st.composite
def parquet_files(draw: st.DrawFn, valid: bytes) -> bytes:
    """Parquet files that are sound, but of other columns, types, or rows than an archive's index says."""
    table = pq.read_table(pa.BufferReader(valid))
    for _ in range(draw(st.integers(1, 2))):
        i = draw(st.integers(0, max(0, table.num_columns - 1)))
        kind = draw(st.sampled_from(["drop", "type", "rows", "numbers", "null", "rename", "repeat"]))
        if not table.num_columns:
            break
        if kind == "drop":
            table = table.remove_column(i)
        elif kind == "type":
            other = draw(st.sampled_from([pa.int8(), pa.float64(), pa.string(), pa.binary(), pa.binary(3), pa.bool_()]))
            plain = {pa.string(): "1", pa.binary(): b"1", pa.binary(3): b"123", pa.bool_(): True}.get(other, 1)
            table = table.set_column(i, table.field(i).name, pa.array([plain] * table.num_rows, other))
        elif kind == "rows":
            table = table.slice(0, draw(st.integers(0, table.num_rows)))
        elif kind == "numbers":
            numbers = st.integers(-(2**31), 2**31 - 1) | st.integers(0, 2)
            values = draw(st.lists(numbers, min_size=table.num_rows, max_size=table.num_rows))
            table = table.set_column(i, table.field(i).name, pa.array(values, pa.int32()))
        elif kind == "null":
            table = table.set_column(i, table.field(i).name, pa.nulls(table.num_rows, table.field(i).type))
        elif kind == "rename":
            table = table.rename_columns([draw(STRINGS.filter(str.isascii)), *table.column_names[1:]])
        elif kind == "repeat":
            table = pa.concat_tables([table] * draw(st.integers(2, 3)))
    sink = pa.BufferOutputStream()
    rows = draw(st.sampled_from([1, 3, 1000]))
    pq.write_table(table, sink, compression=draw(st.sampled_from(["zstd", "none", "snappy"])), row_group_size=rows)
    return sink.getvalue().to_pybytes()
