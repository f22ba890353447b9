"""What can be sent, how it arrives, and that nothing else is sent or accepted."""

from __future__ import annotations

import collections
import struct
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from boonta.nodes.rpc import encoding
from boonta.tests.helpers.fuzzing import QUICK

NUMBERS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
SCALARS = NUMBERS | st.text() | st.binary()
KEYS = st.text() | st.binary()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)
ARRAYS = arrays.arrays(
    st.sampled_from([name for name in encoding.NAMES if not name.startswith("complex")]),
    arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


def crossed(value: Any) -> Any:
    """The value as it arrives."""
    return encoding.decode(memoryview(bytearray(b"".join(encoding.encode(value)))))


@pytest.mark.once
@QUICK
@given(VALUES)
def test_values_arrive_as_they_were_sent(value):
    assert crossed(value) == value


@QUICK
@given(ARRAYS)
def test_arrays_arrive_with_their_dtype_shape_and_content_and_may_be_written_to(array):
    (got,) = crossed([array])
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(got, array)
    got[...] = 0


def test_arrays_of_any_layout_and_numpys_scalars_arrive():
    turned, foreign = np.arange(6.0).reshape(2, 3).T, np.arange(3, dtype=">i4")
    got = crossed([turned, foreign, turned[::-1, 1], np.float32(0.5), np.bool_(True)])
    np.testing.assert_array_equal(got[0], turned)
    np.testing.assert_array_equal(got[1], foreign)
    np.testing.assert_array_equal(got[2], turned[::-1, 1])
    assert got[3:] == [0.5, True] and type(got[3]) is float and type(got[4]) is bool


class Evil:
    """An object that runs code when it is unpickled."""

    def __reduce__(self):
        return print, ("code",)


REFUSED = {
    "an object": Evil(),
    "a class": Evil,
    "a set": {1, 2},
    "a complex number": 1j,
    "an array of objects": np.array([Evil()]),
    "an array of strings": np.array(["a"]),
    "a structured array": np.zeros(2, "i4,f4"),
    "an array of times": np.zeros(2, "M8[s]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_values_are_refused_with_their_type(name):
    with pytest.raises(TypeError, match="can't be sent"):
        encoding.encode({"a": [REFUSED[name]]})


@pytest.mark.parametrize("key", [1, 1.5, True, None, ("a", 1), np.int32(1)])
def test_keys_that_could_not_be_decoded_are_refused_with_what_can(key):
    with pytest.raises(TypeError, match=r"a dict with the key .* can't be sent; strings and bytes are the keys"):
        encoding.encode([{"a": {key: 2}}])


def test_large_bytes_arrive_among_arrays_wherever_they_are():
    large, array = bytes(range(256)) * 100 + b"odd", np.arange(5, dtype=np.int16)
    inner = {"large": large[1:], "more": [array[1:], {"last": array[2:]}]}
    got = crossed([large, inner, [array[:2], (large[2:], b"small")], array[3:]])
    assert (got[0], got[1]["large"], got[2][1]) == (large, large[1:], [large[2:], b"small"])
    arrived = (got[1]["more"][0], got[1]["more"][1]["last"], got[2][0], got[3])
    for own, sent in zip(arrived, (array[1:], array[2:], array[:2], array[3:])):
        np.testing.assert_array_equal(own, sent)
        assert own.flags.aligned and own.dtype == np.int16


def test_what_is_nested_too_deeply_is_refused():
    value: list = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(ValueError, match="nested so deeply"):
        encoding.encode(value)


def test_named_tuples_and_tuples_arrive_as_lists():
    pair = collections.namedtuple("pair", "a b")(1, (2, 3))
    assert crossed(pair) == [1, [2, 3]]


def message(head: bytes, contents: bytes = b"") -> bytes:
    padding = bytes(-(8 + len(head)) % 16)
    return encoding.SIZE.pack(len(head)) + head + padding + contents


def array_of(code: int, shape: tuple[int, ...], contents: bytes) -> bytes:
    description = struct.pack(f"<BB{len(shape)}Q", code, len(shape), *shape)
    return message(msgpack.packb(msgpack.ExtType(encoding.ARRAY, description)), contents)


def special(kind: int, description: bytes, contents: bytes = b"") -> bytes:
    return message(msgpack.packb(msgpack.ExtType(kind, description)), contents)


FLOAT32 = encoding.NAMES.index("float32")
MALFORMED = {
    "nothing": b"",
    "no head": bytes(8),
    "a head cut short": message(msgpack.packb([1, "two"]))[:10],
    "a head longer than the message": encoding.SIZE.pack(2**64 - 1) + bytes(8),
    "something after the value": message(b"\1\1"),
    "something after the head": message(b"\1", bytes(16)),
    "another type of msgpack's": special(3, b""),
    "a string that is no UTF-8": message(b"\xa1\xff"),
    "a key that is a list": message(b"\x81\x90\x01"),
    "a list longer than the message": message(b"\xdd\xff\xff\xff\xff"),
    "bytes longer than the message": message(b"\xc6\xff\xff\xff\xff"),
    "nested too deeply": message(b"\x91" * 100_000 + b"\x01"),
    "large bytes without a size": special(encoding.BYTES, b"\1"),
    "large bytes that are missing": special(encoding.BYTES, encoding.SIZE.pack(17), bytes(16)),
    "large bytes larger than any memory": special(encoding.BYTES, encoding.SIZE.pack(2**64 - 1), bytes(16)),
    "an array without a description": special(encoding.ARRAY, b"\0"),
    "an array of an unknown dtype": array_of(len(encoding.NAMES), (0,), b""),
    "an array of too many dimensions": array_of(FLOAT32, (1,) * 33, bytes(16)),
    "an array whose shape is cut short": special(encoding.ARRAY, b"\0\2\0\0"),
    "an array with fewer bytes": array_of(FLOAT32, (3, 2), bytes(16)),
    "an array with more bytes": array_of(FLOAT32, (2, 2), bytes(32)),
    "an array larger than any memory": array_of(FLOAT32, (2**62, 2**62), bytes(16)),
    "an array whose size overflows to 0": array_of(FLOAT32, (2**63, 2), b""),
    "an empty array with an absurd dimension": array_of(FLOAT32, (0, 2**64 - 1), b""),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_messages_are_refused(name):
    with pytest.raises(ValueError):
        encoding.decode(memoryview(MALFORMED[name]))
