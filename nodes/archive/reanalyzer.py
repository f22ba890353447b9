"""A reanalyzer that replays an archive, so that a program can learn without actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from boonta.agents.base import Agent, Steps
from boonta.envs.base import FIRST, LAST, BatchedEnv, Env, EnvSpec
from boonta.nodes.acting.base import ActingHandle
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.acting.playback import Playback
from boonta.nodes.acting.replayed import Replayed
from boonta.nodes.archive.files import Archive, read
from boonta.nodes.tables.base import Store
from boonta.nodes.watch.reporter import MonitorHandle


class ArchiveReanalyzer(Playback):
    """Replays an archive's trajectories to the agent's policy, and writes them with the policy's new outputs.

    Each round replays every trajectory once, in an order that the seed decides. A slot is therefore a stream like an
    actor's, and is cut into sequences in the same way. See "Online and Offline Reinforcement Learning by Planning with
    a Learned Model" (MuZero Unplugged, https://arxiv.org/abs/2104.06294), section 3.

    Args:
      archive: an archive that was opened with `replayed_shapes`.
      seed: also decides the order of the trajectories.
      others: see `Playback`.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: ActingHandle,
        replay: Store,
        monitor: MonitorHandle | None = None,
        *,
        archive: Archive,
        **settings: Any,
    ):
        super().__init__(name, agent, env, variables, replay, monitor, **settings)
        self._archive = archive

    def make_env(self, num_envs: int, seed: int) -> BatchedEnv:
        return Replayed(self._env.spec, num_envs, make_source(self._archive, num_envs, seed))


def replayed_shapes(agent: Agent, spec: EnvSpec) -> Steps:
    """Returns the shapes of the leaves needed of an archived step: all but extras, version and core."""
    return step_shapes(agent, spec)._replace(extras=(), version=(), core=())


def make_source(archive: Archive, num_envs: int, seed: int) -> Callable[[], Steps]:
    """Makes a function that returns the next trajectory, leaves [T, ...] with T >= 1.

    The first trajectory of each slot starts at a random row. Otherwise, where all episodes have the same length, all
    sequences would begin at the same few rows.
    """
    trajectories = read(archive, seed)
    rng = np.random.default_rng(seed)
    first_ones = num_envs  # How many slots have not yet had their first trajectory.

    def source() -> Steps:
        nonlocal first_ones
        trajectory = next(trajectories)
        if first_ones:
            first_ones -= 1
            start = int(rng.integers(len(trajectory.step_type) - 1))
            trajectory = jax.tree.map(lambda leaf: leaf[start:], trajectory)
        return as_episode(trajectory)

    return source


def as_episode(trajectory: Steps) -> Steps:
    """Makes a trajectory begin with FIRST and end with LAST; one that wasn't recorded to its end is truncated there.

    So nothing bootstraps from the next trajectory. Where the beginning wasn't recorded, earlier frames are missing, as
    at the beginning of an episode, although the policy that acted may have seen them.

    Args:
      trajectory: leaves [T, ...] with T >= 2.
    """
    step_type = trajectory.step_type.copy()
    reward = trajectory.reward.copy()
    step_type[0], step_type[-1] = FIRST, LAST
    reward[0] = 0.0
    return trajectory._replace(step_type=step_type, reward=reward)
