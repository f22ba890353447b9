"""A description of what a program was built from; hosts that build it separately compare theirs."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import inspect
import json
import pathlib
import platform
from typing import Any

from boonta.programs.wiring.program import ProgramFunction
from boonta.programs.wiring.run import Run

SOURCES = ("agents", "deploy", "envs", "nodes", "programs")
ROOT = pathlib.Path(__file__).resolve().parents[2]


def built_from(function: ProgramFunction, run: Run, settings: dict[str, Any]) -> str:
    """A description that is equal on two hosts if and only if their program, settings, source and versions are.

    Args:
      function: the program function.
      run: the run; only its seed and stop rule count, since folders may have other names on other hosts.
      settings: the function's other arguments.
    """
    given = json.dumps([run.seed, run.stop, settings], default=dataclasses.asdict)
    program = pathlib.Path(inspect.getfile(function)).read_bytes()
    return (
        f"program {function.__name__} {_digest(program)}, settings {_digest(given.encode())}, "
        f"source {_digest(*(path.read_bytes() for path in _sources()))}, jax {importlib.metadata.version('jax')}, "
        f"Python {platform.python_version()}"
    )


def from_root(file: pathlib.Path) -> pathlib.Path:
    """The file's path relative to the repository, which may be elsewhere on another host; absolute if it is outside."""
    file = file.resolve()
    return file.relative_to(ROOT) if file.is_relative_to(ROOT) else file


def _sources() -> list[pathlib.Path]:
    return sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))


def _digest(*contents: bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:8]
