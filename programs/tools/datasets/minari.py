"""Data sets of Minari, on this machine.

See https://minari.farama.org/content/dataset_standards/.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import pathlib
from collections.abc import Iterator

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from boonta.envs import spaces
from boonta.envs.base import Env, suggest
from boonta.envs.gymnasium import REGISTERING, Gymnasium
from boonta.programs.tools.datasets.episodes import Episode, require_same
from boonta.programs.wiring.run import BadInput

INSIDE = "data"  # The folder with the files, inside the one that has a data set's name.
METADATA = "metadata.json"
WATCHING = ("RecordEpisodeStatistics", "RecordVideo")  # Wrappers that change nothing that an agent sees or does.


class MinariDataset:
    """A data set that Minari can open.

    Args:
      name: its id, such as "atari/breakout/expert-v0", or its folder.

    Raises:
      BadInput: Minari is missing; there is no such data set, and the message has near names; it is damaged, or of a
        version that the installed Minari can't read; or agents don't support its spaces.
    """

    def __init__(self, name: str):
        try:
            import minari
        except ImportError as error:
            raise BadInput(f"data set {name!r} needs Minari: pip install 'boonta-rl[minari]' ({error})") from error
        self._name = f"data set {name!r}"
        folder = find(name)
        with self._reading():
            metadata = json.loads((folder / METADATA).read_text())
            if not {"observation_space", "action_space"} <= metadata.keys():
                # Minari would make the environment, by whatever function the file names.
                raise ValueError(f"its {METADATA} has no spaces")
            self._dataset = minari.MinariDataset(folder)
        self._spaces = self._dataset.observation_space, self._dataset.action_space
        try:
            self._spec = spaces.env_spec(*self._spaces)
        except ValueError as error:
            raise BadInput(f"{self._name}: {error}") from error

    def env(self) -> Env:
        """The environment in which it was recorded.

        Raises:
          BadInput: it doesn't name one; or that can't be made, or was changed by wrappers, and so has to be given.
        """
        recorded = self._dataset.env_spec
        if recorded is None:
            raise BadInput(f"{self._name} doesn't name its environment; give it with --env")
        names = [wrapper.name for wrapper in recorded.additional_wrappers]
        if wrappers := [name for name in names if name not in WATCHING]:
            raise BadInput(
                f"{self._name} was recorded in {recorded.id} with the wrappers {', '.join(wrappers)}; give an env with "
                f"them as --env package.module:name, or, where they don't matter, --env gymnasium/{recorded.id}"
            )
        try:
            env = _as_recorded(recorded)
            _ = env.spec
        except (ImportError, ValueError) as error:
            message = f"{self._name} was recorded in {recorded.id!r}: {error} Or give another with --env"
            raise BadInput(message) from error
        return env

    def require(self, env: Env) -> None:
        """Raises ValueError if an environment's observations or actions aren't those of the data set."""
        require_same(self._name, self._spec, env.spec)

    def episodes(self) -> Iterator[Episode]:
        """Yields the episodes, in their order.

        Raises:
          BadInput: one can't be read, or has an action mask that allows no action.
        """
        observations, actions = self._spaces
        recorded = iter(self._dataset)
        while True:
            with self._reading():
                episode = next(recorded, None)
            if episode is None:
                return
            ended = np.zeros(len(episode.rewards) + 1, bool)
            try:
                ended[1:] = episode.terminations | episode.truncations
                observation = spaces.observed(observations, actions, episode.observations, ended)
            except ValueError as error:
                raise BadInput(f"{self._name}, episode {episode.id}: {error}") from error
            yield Episode(
                observation=observation,
                action=spaces.from_spaces(actions, episode.actions),
                reward=episode.rewards,
                terminated=episode.terminations,
                truncated=episode.truncations,
            )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Names the data set in whatever Minari raises, which may be of any kind where files are damaged."""
        try:
            yield
        except Exception as error:
            raise BadInput(f"{self._name} can't be read: {type(error).__name__}: {error}") from error


def find(name: str) -> pathlib.Path:
    """The folder with the files of a data set.

    Args:
      name: the data set's id, or its folder.

    Raises:
      BadInput: there is none; the message has near names.
    """
    from minari.storage import get_dataset_path

    root = get_dataset_path()
    for folder in (pathlib.Path(name), root / name):
        for place in (folder / INSIDE, folder):
            if (place / METADATA).is_file():
                return place
    known = sorted(str(file.parents[1].relative_to(root)) for file in root.glob(f"**/{INSIDE}/{METADATA}"))
    hint = suggest(name, known) if known else f"there is none in {root}."
    raise BadInput(f"data set {name!r} is not on this machine: {hint} `minari download` fetches one")


def _as_recorded(recorded: EnvSpec) -> Gymnasium:
    """The environment with those arguments of `gymnasium.make` that aren't the ones of its registration.

    Raises:
      ImportError: its package is missing.
      ValueError: its name has a module of its own.
    """
    package = str(recorded.entry_point).partition(":")[0].partition(".")[0]
    name = recorded.id
    if ":" in name:
        raise ValueError("its name has a module, which is not imported.")
    if package in REGISTERING:
        importlib.import_module(package)
        name = f"{package}:{recorded.id}"  # Gymnasium imports the package first, in other processes, too.
    usual = gymnasium.registry.get(recorded.id, recorded)
    given = {key: value for key, value in recorded.kwargs.items() if key != "render_mode"}
    kwargs = {key: value for key, value in given.items() if key not in usual.kwargs or usual.kwargs[key] != value}
    if recorded.max_episode_steps != usual.max_episode_steps:
        kwargs["max_episode_steps"] = recorded.max_episode_steps or -1  # Gymnasium takes -1 for no limit.
    return Gymnasium(name, kwargs)
