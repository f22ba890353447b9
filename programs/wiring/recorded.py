"""Settings as a run's config.json has them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any


def plain(value: Any) -> Any:
    """A value in JSON's types: a dataclass by its fields, anything else that JSON lacks as a text."""
    return json.loads(json.dumps(value, default=_encode))


def _encode(value: Any) -> Any:
    """A value for JSON: a dataclass's fields, or the `repr` of anything else."""
    is_value = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.asdict(value) if is_value else repr(value)
