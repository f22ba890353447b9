"""JSON files are read whole and as declared, or refused with the reason."""

from __future__ import annotations

import os
from typing import Annotated

import pydantic
import pytest

from boonta.nodes.snapshots import schema
from boonta.nodes.snapshots.files import sealed, unseal

Sizes = dict[str, tuple[schema.Size, str]]


def test_what_fits_comes_with_its_types():
    assert schema.load(pydantic.TypeAdapter(Sizes), b'{"a": [1, "x"]}') == {"a": (1, "x")}
    assert schema.checked(float, 1) == 1.0 and schema.checked(tuple[int, ...], [1, 2]) == (1, 2)
    assert schema.checked(float, float("inf")) == float("inf")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": [1, "x"], "b": [-1, "x"]}', "b.0 is -1; it must be greater than or equal to 0"),
        ('{"a": ["1", "x"]}', 'a.0 is "1"; it must be an integer'),
        ('{"a": [true, "x"]}', "a.0 is true; it must be an integer"),
        ('{"a": [9223372036854775808, "x"]}', "a.0 is 9223372036854775808; it must be less than 9223372036854775808"),
        ('{"a": [1]}', "a.1 is missing"),
        ("[" * 100_000, "Invalid JSON: recursion limit exceeded"),
        ("{", "Invalid JSON: EOF while parsing"),
        ("[]", r"^it is \[\]; it must be keys with values"),
    ],
)
def test_what_does_not_fit_is_named(content, message):
    with pytest.raises(ValueError, match=message):
        schema.load(pydantic.TypeAdapter(Annotated[Sizes, "sizes"]), content)


def test_a_value_of_none_of_several_types_is_named_once():
    either = pydantic.TypeAdapter(dict[str, int | list[int] | dict[str, int]])
    with pytest.raises(ValueError) as refused:
        schema.load(either, '{"a": "many", "b": {"c": 0.5}}')
    parts = [
        'a is "many"; it must be an integer or a list or keys with values',
        'b is {"c": 0.5}; it must be an integer',
    ]
    assert str(refused.value).startswith("; ".join(parts))
    with pytest.raises(ValueError, match="^a is .*…; it must be an integer$"):
        schema.load(pydantic.TypeAdapter(dict[str, int]), '{"a": "' + "long " * 100 + '"}')


def test_a_message_names_the_first_faults_only():
    with pytest.raises(ValueError) as refused:
        schema.load(pydantic.TypeAdapter(Sizes), '{"' + '": 1, "'.join("abcdefgh") + '": 1}')
    assert str(refused.value).count("must be") == schema.SHOWN


def test_what_has_another_digest_or_none_is_refused():
    content = schema.parse(sealed({"a": [1, "x"]}))
    assert schema.load_sealed(pydantic.TypeAdapter(Sizes), dict(content)) == {"a": (1, "x")}
    for changed in ({**content, "a": [2, "x"]}, {"a": [1, "x"]}, {**content, "sha256": 1}):
        with pytest.raises(ValueError, match="doesn't match the checksum of itself"):
            schema.load_sealed(pydantic.TypeAdapter(Sizes), changed)


def test_what_is_nested_too_deeply_is_refused():
    with pytest.raises(ValueError, match="nested too deeply"):
        schema.parse(b"[" * 100_000)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert not unseal({"deep": deep, "sha256": ""})


def test_only_regular_files_of_a_sane_size_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert schema.read(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ValueError, match="it has 5 bytes, more than 4"):
        schema.read(tmp_path / "file", 4)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert schema.read(tmp_path / "link") == b"12345"
    for name in ("pipe", "zero", "."):
        with pytest.raises(ValueError, match="it is not a regular file"):
            schema.read(tmp_path / name)
