"""Settings that change nothing of a run but how one looks at it, or its speed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from boonta.nodes.archive.index import keeps_steps
from boonta.nodes.watch.evaluation import Evaluation

MEASURES = ("deterministic", "max_steps")  # The fields of an evaluation by which a return is measured.


def unlearned(settings: Mapping[str, Any]) -> set[str]:
    """The names, by their flags, of those among settings that change nothing that is learned.

    These are how often a run is evaluated, though not what an evaluation's return is, by which the best checkpoint is
    chosen; and what changes no step of an environment, see `envs.base.SAME_STEPS`.
    """
    return {name for setting, value in settings.items() for name in _unlearned(setting, value)}


def _unlearned(name: str, value: Any) -> Iterator[str]:
    for field in dataclasses.fields(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else ():
        inner = f"{name}.{field.name}"
        if isinstance(value, Evaluation):
            yield from () if field.name in MEASURES else (inner,)
        elif keeps_steps(field):
            yield inner
        else:
            yield from _unlearned(inner, getattr(value, field.name))
