"""What users name as `package.module:name`: environments, sinks and loggers of their own; and values in words."""

from __future__ import annotations

import difflib
import importlib
import importlib.machinery
import inspect
import os
import pathlib
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]


def named(name: str) -> Any:
    """Imports what a name stands for; modules in the working directory are found, too.

    Args:
      name: MODULE:NAME.

    Raises:
      ImportError: the module can't be imported, or has nothing of that name.
    """
    module, _, attribute = name.partition(":")
    if module.endswith(".py") or os.sep in module:
        path = pathlib.PurePath(module).with_suffix("")
        inside = not path.is_absolute() and ".." not in path.parts
        form = f"{'.'.join(path.parts) if inside else path.name}:{attribute}"
        raise ImportError(
            f"{module!r} is a file, and what is wanted is a module on the import path, such as {form!r}; it is "
            f"looked for in the folder of the command, too, {os.getcwd()}"
        )
    if os.getcwd() not in sys.path:  # A script has its own folder there, not the one that it was called from.
        sys.path.append(os.getcwd())
    try:
        found = _imported(module)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == module
        where = f"; it is looked for in the folder of the command, too, {os.getcwd()}" if missing else ""
        raise ImportError(f"module {module!r} can't be imported: {error}{where}") from error
    if not hasattr(found, attribute):
        near = " or ".join(map(repr, difflib.get_close_matches(attribute, vars(found))))
        raise ImportError(f"module {module!r} has no {attribute!r}" + (f": did you mean {near}?" if near else ""))
    return getattr(found, attribute)


def _imported(module: str) -> ModuleType:
    """Imports a module; where a user's folder has it, without Boonta's folders, which may have one of that name.

    They are on the path where a program of Boonta's is the script, or a command is given in the repository.
    """
    path = list(sys.path)
    others = [folder for folder in path if not is_boontas(folder)]
    if importlib.machinery.PathFinder.find_spec(module.partition(".")[0], others) is not None:
        sys.path[:] = others
    try:
        return importlib.import_module(module)
    finally:
        sys.path[:] = path


def is_boontas(folder: str) -> bool:
    """Whether a folder of Python's path is the repository, or its folder of programs."""
    return pathlib.Path(folder).resolve() in (ROOT, ROOT / "programs")


def steady(value: Any) -> str:
    """The `repr` of a value without the addresses of functions and objects in it, which differ from start to start."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def signature_of(made_by: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a callable; None where it is compiled code that doesn't say."""
    try:
        return inspect.signature(made_by)
    except ValueError:
        return None


def in_gymnasium(name: str) -> bool:
    """Whether Gymnasium is here, and has an environment of this very name, such as "CartPole-v1"."""
    try:
        from gymnasium.envs.registration import registry
    except ImportError:
        return False
    return name in registry
