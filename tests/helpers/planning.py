"""Checks a sweep's runs in this process, where a Python of its own would import everything anew each time."""

from __future__ import annotations

from collections.abc import Sequence

from boonta.programs.experiments import check


def check_here(
    file: str,
    commands: Sequence[Sequence[str]],
    most: int,
    kept: Sequence[Sequence[int]] = (),
    held: Sequence[int] = (),
    elsewhere: bool = False,
) -> check.Answer:
    """Answers as `check.check` does."""
    question = {"file": file, "commands": commands, "most": most, "kept": kept, "held": held, "elsewhere": elsewhere}
    return check._Checker(question).answer()
