"""Imports a program's file, which must not run its program meanwhile."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType

from boonta.programs.wiring.run import BadInput

_under_way: list[pathlib.Path] = []  # The files that this process imports just now.


def load(file: pathlib.Path) -> ModuleType:
    """Imports a program's file; like a script, it may import the modules beside it.

    Raises:
      BadInput: the file doesn't exist, is no Python file, imports what is missing, or runs its program.
    """
    file = file.absolute()
    spec = importlib.util.spec_from_file_location(f"program_{file.stem}", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise BadInput(f"program file {file} doesn't exist, or is no Python file")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # An import would do so, and dataclasses look their module up.
    _under_way.append(file)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise BadInput(f"program file {file} can't be imported: {error}") from error
    finally:
        _under_way.pop()
    return module


def require_run() -> None:
    """Raises `BadInput` while a program's file is only imported, as tools, sweeps and deployments do."""
    if _under_way:
        raise BadInput(
            f"program file {_under_way[-1]} calls main(...) when it is imported: put the call under "
            "`if __name__ == '__main__':`"
        )
