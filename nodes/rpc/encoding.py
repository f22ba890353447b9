"""The encoding of messages: numbers, strings, bytes, arrays, and lists and dicts of these; never objects.

A message is a head in msgpack, followed by the contents of its arrays and large bytes. These are sent without copies,
and received arrays share the message's memory. Decoding runs no code that a message contains, and takes memory in
proportion to the message's size.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import msgpack
import numpy as np

Part = bytes | memoryview

ARRAY, BYTES = 1, 2  # Codes, in msgpack, of the types whose contents follow the head.
LARGE = 1 << 14  # A `bytes` object of this length or more follows the head.
ALIGNED = 16  # The alignment of contents, in bytes.
SIZE = struct.Struct("<Q")
NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
DTYPES = tuple(np.dtype(name).newbyteorder("<") for name in NAMES)  # An array's first byte is an index of these.
CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
MAX_RANK = 32


def encode(value: Any) -> list[Part]:
    """Encodes a value as buffers that together are the message.

    Tuples become lists, and NumPy's scalars become Python's numbers. Keys of dicts are strings or bytes: of numbers, a
    sender could find many with the same hash, which make a dict slow.

    Raises:
      TypeError: it contains another type, an array of another dtype, or another key.
      ValueError: it is nested too deeply.
      OverflowError: an integer has more than 64 bits.
    """
    contents: list[Part] = []
    try:
        head = msgpack.packb(_apart(value, contents), default=_encode_other)
    except RecursionError as error:
        raise ValueError("a value that is nested so deeply can't be sent") from error
    return [_padded(SIZE.pack(len(head)) + head), *contents]


def decode(message: memoryview) -> Any:
    """Decodes a message; its arrays share its memory, and are writable if it is.

    Raises:
      ValueError: the message is malformed.
    """
    try:
        (size,) = SIZE.unpack_from(message)
        contents = _Contents(message[_aligned(SIZE.size + size) :])
        value = msgpack.unpackb(message[SIZE.size : SIZE.size + size], ext_hook=contents.take, timestamp=1)
    except (msgpack.UnpackException, struct.error, TypeError, OverflowError) as error:
        raise ValueError(f"malformed message: {type(error).__name__} {error}") from error
    contents.require_end()
    return value


def _apart(value: Any, contents: list[Part]) -> Any:
    """The value with descriptions in place of arrays and large bytes, whose contents are appended to `contents`."""
    if isinstance(value, (list, tuple)):
        return [_apart(part, contents) for part in value]
    if isinstance(value, dict):
        return {_required(key): _apart(part, contents) for key, part in value.items()}
    if isinstance(value, bytes) and len(value) >= LARGE:
        _add(contents, value, len(value))
        return msgpack.ExtType(BYTES, SIZE.pack(len(value)))
    return _described(value, contents) if isinstance(value, np.ndarray) else value


def _required(key: Any) -> str | bytes:
    """The key of a dict, if it can be decoded."""
    if isinstance(key, (str, bytes)):
        return key
    raise TypeError(f"a dict with the key {key!r} can't be sent; strings and bytes are the keys that can")


def _described(array: np.ndarray, contents: list[Part]) -> msgpack.ExtType:
    code, rank = CODES.get(array.dtype.newbyteorder("<")), array.ndim
    if code is None or rank > MAX_RANK:
        raise TypeError(
            f"an array of {rank} dimensions and dtype {array.dtype} can't be sent; {MAX_RANK} dimensions, and "
            f"{', '.join(NAMES)}, are what can"
        )
    _add(contents, np.asarray(array, DTYPES[code], order="C").reshape(-1).view(np.uint8).data, array.nbytes)
    return msgpack.ExtType(ARRAY, struct.pack(f"<BB{rank}Q", code, rank, *array.shape))


def _encode_other(value: Any) -> Any:
    if isinstance(value, np.generic) and value.dtype in CODES:
        return value.item()
    raise TypeError(f"a {type(value).__name__} can't be sent; numbers, strings, bytes, arrays, lists and dicts can")


def _add(contents: list[Part], content: Part, size: int) -> None:
    contents.append(content)
    if size % ALIGNED:
        contents.append(bytes(_aligned(size) - size))


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _padded(head: bytes) -> bytes:
    return head + bytes(_aligned(len(head)) - len(head))


class _Contents:
    """The contents after a head, in the order in which the head describes them."""

    def __init__(self, left: memoryview):
        self._left = left

    def take(self, kind: int, description: bytes) -> Any:
        """The next content, for its description in the head; sizes are checked before memory is taken."""
        if kind == BYTES:
            (size,) = SIZE.unpack(description)
            return bytes(self._next(size))
        if kind != ARRAY:
            raise ValueError(f"type {kind} is unknown")
        if len(description) < 2 or description[0] >= len(DTYPES) or description[1] > MAX_RANK:
            raise ValueError("an array's dtype or rank is unknown")
        dtype, rank = DTYPES[description[0]], description[1]
        shape = struct.unpack(f"<{rank}Q", description[2:])
        return np.frombuffer(self._next(math.prod(shape) * dtype.itemsize), dtype).reshape(shape)

    def require_end(self) -> None:
        if len(self._left):
            raise ValueError(f"{len(self._left)} bytes follow a message")

    def _next(self, size: int) -> memoryview:
        if _aligned(size) > len(self._left):
            raise ValueError(f"{size} bytes are missing, {len(self._left)} are left")
        part, self._left = self._left[:size], self._left[_aligned(size) :]
        return part
