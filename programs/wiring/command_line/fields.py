"""Numbers for a config's fields on the command line: FIELD=NUMBER,NUMBER,…"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from boonta.agents.config import leaves, number_fields
from boonta.programs.wiring.run import BadInput


def numbers_by_field(config: Any, given: Sequence[str], flag: str) -> dict[str, list[float]]:
    """The numbers that a flag gives for fields of a config; the fields hold numbers or None.

    Args:
      config: a dataclass; fields of its groups have dotted names.
      given: texts of the form FIELD=NUMBER,NUMBER,…, one for each field.
      flag: the flag's name.

    Raises:
      BadInput: the config has no such field, the field holds no number, or a text doesn't contain numbers.
    """
    fields, numbers = leaves(config), number_fields(config)
    values: dict[str, list[float]] = {}
    for text in given:
        name, _, listed = text.partition("=")
        if name not in fields or name in values:
            raise BadInput(f"--{flag} {text!r} is not FIELD=NUMBER,NUMBER,… with another field of {numbers}")
        if name not in numbers:
            raise BadInput(
                f"--{flag} {text!r}: {name} is {fields[name]!r}, which the program needs before it is "
                f"compiled; allowed: {numbers}"
            )
        try:
            values[name] = [float(number) for number in listed.split(",")]
        except ValueError:
            raise BadInput(f"--{flag} {text!r} is not FIELD=NUMBER,NUMBER,…: {listed!r} are no numbers") from None
    return values
