"""Names of run folders, by what distinguishes a run from others, and of what each start of a run leaves in them."""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from boonta.nodes.snapshots.schema import flattened
from boonta.programs.wiring.run_folder.recorded import by_flag
from boonta.programs.wiring.run_folder.unlearned import unlearned

LONGEST = 200  # Limit of a name's letters; that of file systems is 255.
DIGEST = 8  # Letters of the digest that replaces the end of a longer name.


def folder_name(words: Sequence[str], seed: int, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """The name of a run's default folder; runs with other settings or seeds have other names.

    Args:
      words: its first parts, the names of the program and of the environment.
      seed: the run's seed; 0 is not named.
      settings: the settings of the program that aren't among its words; those that change nothing that is learned are
        not named, see `unlearned`.
      usual: the defaults of those that have some.
    """
    before, after = flattened(by_flag(usual)), flattened(by_flag(settings))
    same = unlearned(settings)
    named = {name: value for name, value in after.items() if name not in same and before.get(name) != value}
    changed = {name.replace("_", "-"): value for name, value in named.items()}
    short = short_names(list(changed))
    parts = [*map(slug, words), *(shown(short[name], value) for name, value in changed.items())]
    return joined([*parts, f"seed{seed}" if seed else ""])


def now() -> str:
    """The time, for the names of what starts leave: these are in the starts' order, whatever the time zone of each.

    It is in UTC and has microseconds, so that two starts of a run, which come one after another, have two names.
    """
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S-%fZ")


def joined(parts: Sequence[str]) -> str:
    """A name of several parts, those that aren't empty; the end of one that is too long becomes a digest."""
    name = "-".join(filter(None, parts))
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST - DIGEST - 1].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:DIGEST]}"


def slug(text: str) -> str:
    """A text as a part of a folder's name."""
    return re.sub(r"[^\w.+-]+", "-", text).strip("-.")


def shown(flag: str, value: Any) -> str:
    """A flag and its value as a part of a folder's name, such as learning-rate0.001."""
    if isinstance(value, bool):
        return flag if value else f"no-{flag}"
    text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
    return slug(f"{flag}{text}" if not isinstance(value, str) else f"{flag}-{text}")


def short_names(flags: Sequence[str]) -> dict[str, str]:
    """The last part of each flag's name; the whole name where several flags share their last part."""
    last = {flag: flag.rpartition(".")[2] for flag in flags}
    return {flag: name if list(last.values()).count(name) == 1 else flag for flag, name in last.items()}
