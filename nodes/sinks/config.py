"""Settings for those that take no nested ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat.update(flattened(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return flat
