"""The numbers of an episode besides its return, as environments give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def chosen(names: Sequence[str], info: Mapping[str, Any]) -> dict[str, float]:
    """The numbers with these names in what Gymnasium's `info` says of one slot in an episode's last step.

    Raises:
      ValueError: one is missing, or is no number; the message lists the numbers that are there.
    """
    found = {}
    for name in names:
        number = _number(info.get(name))
        if number is None:
            numbers = ", ".join(str(key) for key, value in info.items() if _number(value) is not None)
            what = f"is of type {type(info[name]).__name__} in" if name in info else "isn't in"
            raise ValueError(
                f"metrics has {name!r}, which {what} the environment's info at the end of an episode; numbers there: "
                f"{numbers or 'none'}"
            )
        found[name] = number
    return found


def checked(given: Any) -> dict[str, float]:
    """What a user's `episode_metrics()` returned, as floats.

    Raises:
      ValueError: it is no mapping of names to numbers.
    """
    method = "the environment's episode_metrics()"
    if not isinstance(given, Mapping):
        raise ValueError(f"{method} returns {type(given).__name__}; it must be a mapping of names to numbers")
    found = {}
    for name, value in given.items():
        number = _number(value)
        if not isinstance(name, str) or number is None:
            raise ValueError(f"{method} returns {name!r}: {value!r}; it must be a mapping of names to numbers")
        found[name] = number
    return found


def require_names(names: Any) -> None:
    """Raises ValueError unless these are names of numbers, none of them twice."""
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"metrics is {names!r}; it must be a tuple of names, such as ('is_success',)")
    if len(set(names)) < len(names):
        raise ValueError(f"metrics is {names!r}; no name may be there twice")


def _number(value: Any) -> float | None:
    """A value as a float, if it is a number or an array of shape []; else None."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # Such as a list of lists of several lengths.
        return None
    return float(array) if array.shape == () and array.dtype.kind in "biuf" else None
