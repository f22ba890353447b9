"""Writes the folders of runs that never were: their config, metrics and log."""

from __future__ import annotations

import copy
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from boonta.programs.experiments.results import recorded, results_of

PROVENANCE: dict[str, Any] = {
    "started": "2026-01-02T03:04:05+00:00",
    "environment": "catch",
    "boonta": {"commit": "a" * 40, "dirty": False, "digest": "01234567"},
    "program": {"commit": "a" * 40, "dirty": False, "digest": "89abcdef"},
    "versions": {"python": "3.10.13", "jax": "0.6.2"},
    "machine": {
        "processor": "Abacus",
        "cores": 2,
        "memory_bytes": 8_000_000_000,
        "devices": [],
        "variables": {},
    },
    "seeds": {"anakin": 0},
}

# A line of evaluations.jsonl.
EVALUATED = {
    "updates": 3,
    "which": "newest",
    "episodes": 2,
    "deterministic": True,
    "seed": 0,
    "returns": [1.0, 2.0],
}


def provenance(**changes: Any) -> dict[str, Any]:
    """A provenance with other values, by their names; those of groups have dots replaced by two underscores."""
    made = copy.deepcopy(PROVENANCE)
    for name, value in changes.items():
        *groups, last = name.split("__")
        inner = made
        for group in groups:
            inner = inner[group]
        inner[last] = value
    return made


def rows(returns: Sequence[float], every: float = 100.0, first: float = 100.0) -> list[dict[str, Any]]:
    """Rows of metrics, one for each evaluation: env steps, a tenth as many seconds, and a tenth of these updates."""
    steps = [first + every * i for i in range(len(returns))]
    return [
        {"env_steps": n, "seconds": n / 10, "updates": n / 100, "eval_return": value, "eval_version": n / 100}
        for n, value in zip(steps, returns)
    ]


def write_run(
    folder: pathlib.Path,
    returns: Sequence[float] = (0.0, 0.5, 1.0),
    *,
    seed: int = 0,
    program: str = "impala",
    settings: dict[str, Any] | None = None,
    origin: dict[str, Any] | None = PROVENANCE,
    arguments: Sequence[str] = ("catch", "--launch", "anakin"),
    end: Sequence[str] = ("INFO done: updates reached 3", "DEBUG ended with code 0"),
    metrics: Sequence[dict[str, Any]] | None = None,
) -> pathlib.Path:
    """Writes a run's folder, and returns it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    config: dict[str, Any] = {
        "program": program,
        "seed": seed,
        "settings": {"config": {"rate": 0.1}, "evaluation": {"episodes": 20}} if settings is None else settings,
        "file": f"/somewhere/{program}.py",
        "function": program,
        "arguments": list(arguments),
        "run": {"launch": "anakin", "start_from": ""},
    }
    if origin is not None:
        config["provenance"] = origin
    (folder / "config.json").write_text(json.dumps(config))
    write_lines(folder / "metrics.jsonl", rows(returns) if metrics is None else metrics)
    lines = ["DEBUG started: --launch anakin, process 7", *end]
    (folder / "run.log").write_text("".join(f"2026-01-02T03:04:05+0000 {line}\n" for line in lines))
    return folder


def write_lines(path: pathlib.Path, lines: Sequence[dict[str, Any]], cut: str = "") -> None:
    """Writes JSON lines, and what is left of one that a kill has cut."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + cut)


def read_results(folder, metric="eval_return", which="newest"):
    """The results of a run's folder, and the warnings."""
    return results_of(recorded(folder), metric, which)
