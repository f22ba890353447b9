"""Data sets in the form of RLDS: any episodes in Python, and those on disk, as TensorFlow Datasets writes them.

See "RLDS: an Ecosystem to Generate, Share and Use Datasets in Reinforcement Learning"
(https://arxiv.org/abs/2111.02767).
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from boonta.programs.tools.datasets.episodes import Episode
from boonta.programs.wiring.run import BadInput

FIELDS = ("observation", "action", "reward", "is_first", "is_last", "is_terminal")


def is_on_disk(folder: pathlib.Path) -> bool:
    """Whether TensorFlow Datasets has written a data set there."""
    return (folder / "features.json").is_file() and (folder / "dataset_info.json").is_file()


def read(folder: pathlib.Path) -> Iterator[Episode]:
    """Opens a data set on disk; returns the episodes of all its splits.

    Raises:
      BadInput: TensorFlow Datasets or TensorFlow is missing, or the data set isn't one of episodes.
    """
    try:
        import tensorflow  # noqa: F401  # The other one is imported without it, too, but can't read its own files then.
        import tensorflow_datasets
    except ImportError as error:
        raise BadInput(
            f"{folder} needs TensorFlow Datasets: pip install 'boonta-rl[rlds]' in an environment of its own ({error})"
        ) from error
    builder = tensorflow_datasets.builder_from_directory(str(folder))
    if "steps" not in builder.info.features:
        raise BadInput(f"{folder} isn't of episodes with steps; it has {', '.join(builder.info.features)}")
    splits = (tensorflow_datasets.as_numpy(builder.as_dataset(split=split)) for split in builder.info.splits)
    return to_episodes(itertools.chain.from_iterable(splits))


def to_episodes(recorded: Iterable[Mapping[str, Any]]) -> Iterator[Episode]:
    """Converts episodes whose steps each hold an observation, the action chosen at it, and that action's reward.

    The action and the reward of an episode's last step mean nothing. Its `is_terminal` distinguishes a termination
    from a truncation; RLDS's discounts are not read, as they may be an agent's.

    Args:
      recorded: episodes, each with "steps": an iterable of steps with `FIELDS`.

    Raises:
      ValueError: a step lacks a field.
    """
    for number, episode in enumerate(recorded):
        steps = list(episode["steps"])
        for step in steps:
            if missing := [name for name in FIELDS if name not in step]:
                raise ValueError(f"episode {number}: a step has no {missing[0]!r}; it has {', '.join(step)}")
        if steps:
            yield _episode(steps)


def _episode(steps: Sequence[Mapping[str, Any]]) -> Episode:
    observation, action, reward, first, last, terminal = (
        jax.tree.map(lambda *rows: np.stack(rows), *(step[name] for step in steps)) for name in FIELDS
    )
    return Episode(
        observation=observation,
        action=action[:-1],
        reward=reward[:-1],
        terminated=terminal[1:],
        truncated=last[1:],
        begun=bool(first[0]),
    )
