"""Integers on the command line, also as 1e6."""

from __future__ import annotations

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

INTEGERS = ConstructorRegistry()  # For `tyro.cli`.


def integer(text: str) -> int:
    """The integer that a text has, in digits or as 1e6; a sweep's file has it as 1000000.0.

    Raises:
      ValueError: it has none.
    """
    try:
        return int(text)
    except ValueError:
        if not float(text).is_integer():
            raise
    return int(float(text))


@INTEGERS.primitive_rule
def _integer_rule(kind: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    if kind.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: integer(words[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )
