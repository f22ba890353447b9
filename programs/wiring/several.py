"""The numbers of which a program may have several: replay servers, variable servers and learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from boonta.programs.wiring.run import Run

# The ways to run with more than one of each, by the run's setting; every learner has a process of its own.
SEVERAL = {
    "replay_servers": ("local_mp", "local_mt"),
    "variable_servers": ("local_mp", "local_mt"),
    "learners": ("local_mp",),
}


def dealt(served: Mapping[str, Sequence[Any]], i: int) -> dict[str, Any]:
    """The handles, by role, that node i of a group calls: where several nodes serve, callers are dealt to them."""
    return {role: handles[i % len(handles)] for role, handles in served.items()}


def check_numbers(run: Run) -> None:
    """Refuses numbers that a run's way to run can't have.

    Raises:
      ValueError: names the setting, and what can work.
    """
    for field, several in SEVERAL.items():
        number = getattr(run, field)
        if number < 1:
            raise ValueError(f"{field} is {number}; it must be at least 1")
        if number > 1 and run.launch not in several:
            has_hosts = field == "learners" and run.is_unit
            raise ValueError(
                f"{field} is {number}; with --launch {run.launch} it must be 1: leave it out"
                + (", or give --hosts.number" if has_hosts else "")
            )


def require_number(run: Run, field: str, own: int) -> None:
    """Refuses the number of a program's servers or learners where the run asks for another, or can't have it.

    Args:
      run: the run.
      field, own: its setting of that number, and the number in the program itself.

    Raises:
      ValueError: names the setting, and what can work.
    """
    asked = getattr(run, field)
    if asked not in (1, own):
        has = f"names {own}" if own else "has none"
        raise ValueError(f"{field} is {asked}, and the program itself {has}: leave it out, or change the program")
    if own > 1 and run.launch not in SEVERAL[field]:
        raise ValueError(f"the program has {own} {field.replace('_', ' ')}; with --launch {run.launch} it can have one")
