"""The environments that an archive's index can be turned back into."""

from __future__ import annotations

import importlib
import pathlib

from boonta.envs.base import Env
from boonta.nodes.archive.index import read_index, require_environment
from boonta.programs.wiring.run import BadInput

MODULES = {  # by the name of the class
    "Atari": "boonta.envs.atari",
    "Catch": "boonta.envs.catch",
    "Gymnasium": "boonta.envs.gymnasium",
    "MinAtar": "boonta.envs.minatar",
    "OpenSpiel": "boonta.envs.open_spiel",
}


def world_of(folder: pathlib.Path) -> Env:
    """The environment that an archive's trajectories are of, with the settings that it had.

    Raises:
      BadInput: it is none of ours, or no longer takes those settings.
      ValueError: the folder is no archive, or the environment has since become another.
    """
    recorded = read_index(folder).environment
    name, settings = recorded["name"], recorded["settings"]
    if name not in MODULES:
        raise BadInput(
            f"{folder} is of {name!r}; known are {', '.join(MODULES)}. Name it in the program's `env =` line"
        )
    try:
        env = getattr(importlib.import_module(MODULES[name]), name)(**settings)
    except TypeError as error:
        raise BadInput(f"{folder} was recorded with settings that {name} no longer takes: {error}") from error
    require_environment(folder, recorded, env)
    return env
