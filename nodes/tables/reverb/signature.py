"""Raw steps as Reverb keeps them: a row of bytes for each step, and a row for each core.

A step has a dozen leaves, most of them single numbers, and Reverb's Python writer handles each column of each slot by
itself. One column of bytes costs a fraction of that. The reader puts the leaves back into the agent's own classes; it
knows them from the signature, one raw step as `nodes.acting.local.step_shapes` gives it. The order of the leaves is
dm-tree's, in which an inference node sends them, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tree

from boonta.agents.base import Nest, Steps, Table
from boonta.nodes.tables.reverb.library import load

DT_UINT8 = 4  # TensorFlow's number of the type.
EVERY = " every "  # Stands in a table's signature between the layout of its steps and its period.


def pack(nest: Nest) -> np.ndarray | None:
    """Packs leaves [B, ...] into bytes, uint8 [B, N]; None where there is no leaf."""
    leaves = [np.ascontiguousarray(leaf) for leaf in tree.flatten(nest)]
    if not leaves:
        return None
    rows = [leaf.reshape(len(leaf), math.prod(leaf.shape[1:])) for leaf in leaves]
    return np.concatenate([row.view(np.uint8) for row in rows], axis=1)


def unpack(like: Nest, packed: np.ndarray) -> Nest:
    """Unpacks bytes [..., N] into arrays [..., *shape] in the classes, shapes and dtypes of `like`.

    Raises:
      ValueError: there are not as many bytes.
    """
    leaves = [
        np.ascontiguousarray(packed[..., own]).view(spec.dtype).reshape(*packed.shape[:-1], *spec.shape)
        for spec, own in parts(like, packed.shape[-1])
    ]
    return tree.unflatten_as(like, leaves)


def parts(like: Nest, size: int) -> list[tuple[Any, slice]]:
    """The leaves of `like`, and which bytes each has of a row.

    Args:
      like: has the shapes and dtypes of the leaves.
      size: the row's bytes.

    Raises:
      ValueError: the leaves have not as many bytes.
    """
    leaves = tree.flatten(like)
    ends = list(itertools.accumulate(map(_bytes, leaves), initial=0))
    if size != ends[-1]:
        raise ValueError(f"a row has {size} bytes, but {layout(like)} has {ends[-1]}")
    return [(leaf, slice(start, end)) for leaf, start, end in zip(leaves, ends, ends[1:])]


def layout(like: Nest) -> str:
    """Names, dtypes and shapes of the leaves of a row, in order."""
    return " ".join(
        f"{'/'.join(map(str, path))}:{np.dtype(leaf.dtype).name}{list(leaf.shape)}"
        for path, leaf in tree.flatten_with_path(like)
    )


class Column(NamedTuple):
    """A column of a table's sequences.

    Attributes:
      rows: rows of a sequence.
      size: bytes of a row.
      layout: what a row holds, see `layout`, so that a table shows it.
    """

    rows: int
    size: int
    layout: str

    def __str__(self) -> str:
        return f"{self.rows} x {self.layout}"


def columns(table: Table, signature: Steps) -> list[Column]:
    """The columns of a table's sequences: the rows, and the cores where there are any.

    Reverb knows nothing of the period, so that it stands behind the layout of the rows: sequences of another one don't
    belong among a table's own.
    """

    def column(rows: int, like: Nest) -> Column:
        return Column(rows, sum(_bytes(leaf) for leaf in tree.flatten(like)), layout(like))

    rows = column(table.sequence_length, signature._replace(core=()))
    rows = rows._replace(layout=f"{rows.layout}{EVERY}{table.period}")
    return [rows, column(1, signature.core)] if tree.flatten(signature.core) else [rows]


def encode(columns: Sequence[Column]) -> bytes:
    """The columns as Reverb keeps a table's signature, in TensorFlow's message of specs."""
    signature = load().TableInfo().signature
    for column in columns:
        spec = signature.list_value.values.add().tensor_spec_value
        spec.name, spec.dtype = column.layout, DT_UINT8
        for size in (column.rows, column.size):
            spec.shape.dim.add().size = size
    return signature.SerializeToString()


def decode(signature: Any) -> list[Column]:
    """The columns of the signature in a table's `TableInfo`."""
    specs = [value.tensor_spec_value for value in signature.list_value.values]
    return [Column(spec.shape.dim[0].size, spec.shape.dim[1].size, spec.name) for spec in specs]


def unpack_columns(signature: Steps, packed: list[np.ndarray]) -> Steps:
    """Unpacks the columns of sequences, uint8 [T, ..., N] and [1, ..., M], into steps of the signature's classes."""
    rows, *cores = packed
    steps = unpack(signature._replace(core=()), rows)
    return steps._replace(core=unpack(signature.core, cores[0])) if cores else steps


def _bytes(leaf: Any) -> int:
    return math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize
