"""Raw steps as Reverb keeps them: a row of bytes for each step, and a row for each core.

A step has a dozen leaves, most of them single numbers, and Reverb's Python writer handles each column of each slot by
itself. One column of bytes costs a fraction of that. The reader puts the leaves back into the agent's own classes; it
knows them from the signature, one raw step as `nodes.acting.local.step_shapes` gives it. The order of the leaves is
dm-tree's, in which an inference node sends them, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tree

from boonta.agents.base import Nest, Steps, Table


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
    specs = tree.flatten(like)
    sizes = [_bytes(spec) for spec in specs]
    if packed.shape[-1] != sum(sizes):
        raise ValueError(f"a row has {packed.shape[-1]} bytes, but {layout(like)} has {sum(sizes)}")
    leaves, start = [], 0
    for spec, size in zip(specs, sizes):
        part = np.ascontiguousarray(packed[..., start : start + size])
        leaves.append(part.view(spec.dtype).reshape(*packed.shape[:-1], *spec.shape))
        start += size
    return tree.unflatten_as(like, leaves)


def layout(like: Nest) -> str:
    """Names, dtypes and shapes of the leaves of a row, in order."""
    return " ".join(
        f"{'/'.join(map(str, path))}:{np.dtype(leaf.dtype).name}{list(leaf.shape)}"
        for path, leaf in tree.flatten_with_path(like)
    )


def columns(table: Table, signature: Steps) -> list[Any]:
    """TensorFlow's specs of a sequence's columns, named by their layout, so that a table shows what it holds."""
    import tensorflow as tf

    def column(length: int, like: Nest) -> Any:
        size = sum(_bytes(leaf) for leaf in tree.flatten(like))
        return tf.TensorSpec((length, size), tf.uint8, name=layout(like))

    rows = column(table.sequence_length, signature._replace(core=()))
    return [rows, column(1, signature.core)] if tree.flatten(signature.core) else [rows]


def unpack_columns(signature: Steps, packed: list[np.ndarray]) -> Steps:
    """Unpacks a sequence's columns, uint8 [..., T, N] and [..., 1, M], into steps of the signature's classes."""
    rows, *cores = packed
    steps = unpack(signature._replace(core=()), rows)
    return steps._replace(core=unpack(signature.core, cores[0])) if cores else steps


def _bytes(leaf: Any) -> int:
    return math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize
