"""The environment of an archive. The archive may come from others, so nothing that it names runs code of theirs."""

from __future__ import annotations

import importlib
import pathlib
import re
import typing

import gymnasium

from boonta.envs.base import Env
from boonta.envs.gymnasium import REGISTERING
from boonta.nodes.archive.index import IN_JAX, Environment, read_index, require_environment
from boonta.nodes.snapshots.schema import checked
from boonta.programs.wiring.environments import FAMILIES
from boonta.programs.wiring.run import BadInput

GIVEN = "Name it in the program's `env =` line"  # So a user gives an environment that can't be made from an archive.
KNOWN = {f"{IN_JAX if family.jax else ''}{family.name}": family for family in FAMILIES.values()}
# A Gymnasium id; its environment may be registered later. Names of classes and functions don't contain "-/:".
ID = re.compile(r"[\w.]*[-/:][-\w./:]*")


def env_of_archive(folder: pathlib.Path) -> Env:
    """The environment in which an archive was recorded, with its settings of then.

    Raises:
      BadInput: it is none of ours, is made by code of the user's, lacks its package, or no longer takes those settings.
      ValueError: the folder is no archive, or the environment has changed since.
    """
    recorded = read_index(folder).environment
    if recorded.name not in KNOWN:
        raise BadInput(f"{folder} is of {recorded.name!r}; known are {', '.join(KNOWN)}. {GIVEN}")
    family = KNOWN[recorded.name]
    if family is FAMILIES["gymnasium"]:
        _require_id(folder, recorded)
    try:
        made = getattr(importlib.import_module(family.module), family.name)
        hints = typing.get_type_hints(made)
        env = made(**{field: checked(hints[field], value) for field, value in recorded.settings.items()})
        _ = env.spec  # Some find only here what they lack.
    except ImportError as error:
        raise BadInput(f"{folder} is of {recorded.name!r}: {error}") from error
    except (KeyError, ValueError, TypeError) as error:
        raise BadInput(f"{folder} was recorded with settings that {recorded.name} no longer takes: {error}") from error
    require_environment(folder, recorded, env)
    return env


def _require_id(folder: pathlib.Path, recorded: Environment) -> None:
    """Raises BadInput unless an archive's Gymnasium environment has an id that is looked up without code of others.

    Of an environment that a callable makes, an archive has the callable's name alone. Of an id such as "module:name",
    Gymnasium imports the module first.
    """
    name = recorded.settings.get("env")
    if not isinstance(name, str) or not (name in gymnasium.registry or ID.fullmatch(name)):
        raise BadInput(f"{folder} was recorded in what {name!r} makes, which is code of yours. {GIVEN}")
    module, colon, _ = name.partition(":")
    if (colon and module not in REGISTERING) or name.startswith("GymV"):  # The latter make what an argument names.
        raise BadInput(
            f"{folder} was recorded in {name!r}, and of the modules that archives name {', '.join(REGISTERING)} alone "
            f"are imported, since an archive may come from others. {GIVEN}"
        )
