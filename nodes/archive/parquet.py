"""Columns of arrays as a Parquet file, and back; what is read is checked before it is decoded."""

from __future__ import annotations

import json
import math
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from boonta.nodes.archive.index import Leaf

LARGEST = 1 << 30  # Bytes of a file, and of its decoded columns.
OVERHEAD = 1 << 22  # Bytes of page headers and dictionaries, which even a file of a few rows has.


def encode(columns: dict[str, np.ndarray]) -> bytes:
    """Encodes columns [N, ...] as a compressed Parquet file with a checksum of every page.

    Raises:
      ValueError: they have more than `LARGEST` bytes.
    """
    _require_size(sum(values.nbytes for values in columns.values()))
    fields, arrays = [], []
    for path, values in columns.items():
        metadata = {"dtype": values.dtype.name, "shape": json.dumps(values.shape[1:])}
        array = _encode(values)
        fields.append(pa.field(path, array.type, nullable=False, metadata=metadata))
        arrays.append(array)
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=pa.schema(fields)), sink, compression="zstd", write_page_checksum=True
    )
    return sink.getvalue().to_pybytes()


def decode(content: bytes, wanted: dict[str, Leaf], steps: int) -> dict[str, np.ndarray]:
    """Decodes `trajectory` and the wanted columns, read-only arrays [N, ...], of a Parquet file.

    Raises:
      ValueError: it is damaged, has other rows or columns, or would take more than `LARGEST` bytes.
    """
    leaves = {"trajectory": Leaf("int32", ()), **wanted}
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        _require_layout(file, leaves, steps)
        table = file.read(columns=list(leaves), use_threads=False).combine_chunks()
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from error
    if len(table) != steps or any(column.null_count for column in table.columns):
        raise ValueError("it has rows without a value")
    return {path: _decode(table.column(path), leaf) for path, leaf in leaves.items()}


def _require_layout(file: pq.ParquetFile, leaves: dict[str, Leaf], steps: int) -> None:
    """Refuses a file whose footer lists other rows or columns, before memory is taken for them."""
    if file.metadata.num_rows != steps:
        raise ValueError(f"it has {file.metadata.num_rows:,} rows, not {steps:,}")
    size = steps * sum(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape) for leaf in leaves.values())
    _require_size(size)
    declared = sum(_declared(file.metadata.row_group(i), leaves) for i in range(file.metadata.num_row_groups))
    if declared > 2 * size + OVERHEAD:
        raise ValueError(f"its pages have {declared:,} bytes, and its columns {size:,}")
    for path, leaf in leaves.items():
        types = [field.type for field in file.schema_arrow if field.name == path]
        if types != [_type(leaf)]:
            raise ValueError(f"its columns {path!r} are of types {[str(each) for each in types]}, not {_type(leaf)}")


def require_types(leaves: dict[str, Leaf]) -> None:
    """Raises ValueError, naming the leaf, unless a file can hold columns of these types."""
    for path, leaf in leaves.items():
        if 0 in leaf.shape:
            raise ValueError(f"{path!r} is {leaf}; a leaf without values can't be archived")
        try:
            _type(leaf)
        except pa.ArrowNotImplementedError as error:
            raise ValueError(f"{path!r} is {leaf}; Parquet has no such type of scalars") from error


def _declared(group: pq.RowGroupMetaData, paths: Collection[str]) -> int:
    """The bytes of the pages of some columns, from the footer."""
    columns = [group.column(i) for i in range(group.num_columns)]
    return sum(column.total_uncompressed_size for column in columns if column.path_in_schema in paths)


def _require_size(size: int) -> None:
    if size > LARGEST:
        raise ValueError(f"columns of {size:,} bytes are more than a chunk may have, {LARGEST:,}")


def _type(leaf: Leaf) -> pa.DataType:
    """The type of a column: a scalar's own, or bytes of fixed length."""
    dtype = np.dtype(leaf.dtype)
    return pa.binary(dtype.itemsize * math.prod(leaf.shape)) if leaf.shape else pa.from_numpy_dtype(dtype)


def _encode(values: np.ndarray) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    type_ = _type(Leaf(values.dtype.name, values.shape[1:]))
    return pa.FixedSizeBinaryArray.from_buffers(type_, len(little), [None, pa.py_buffer(little)])


def _decode(column: pa.ChunkedArray, leaf: Leaf) -> np.ndarray:
    if not leaf.shape:
        return column.to_numpy()
    array = column.chunk(0)
    dtype = np.dtype(leaf.dtype).newbyteorder("<")
    count = len(array) * math.prod(leaf.shape)
    values = np.frombuffer(array.buffers()[1], dtype, count, offset=array.offset * array.type.byte_width)
    return values.reshape(len(array), *leaf.shape)
