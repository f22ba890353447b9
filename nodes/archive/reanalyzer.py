"""A reanalyzer whose past is an archive: what learns from it needs no actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from boonta.agents.base import Agent, Steps
from boonta.envs.base import FIRST, LAST, BatchedEnv, Env, EnvSpec
from boonta.envs.replayed import Replayed
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.acting.playback import Playback
from boonta.nodes.archive.files import Archive, read


class ArchiveReanalyzer(Playback):
    """Plays an archive's trajectories back to the agent's policy, and writes them with what it finds in them today.

    They come one after another, in an order that the seed decides, each once a round. So a slot is the stream that an
    actor's would be, and is cut into sequences in the same way. See "Online and Offline Reinforcement Learning by
    Planning with a Learned Model" (MuZero Unplugged, https://arxiv.org/abs/2104.06294), section 3.

    Args:
      archive: opened with `replayed_shapes`.
      seed: of its order, too.
      others: see `Playback`.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: Any,
        replay: Any,
        monitor: Any = None,
        *,
        archive: Archive,
        **settings: Any,
    ):
        super().__init__(name, agent, env, variables, replay, monitor, **settings)
        self._archive = archive

    def world(self, num_envs: int, seed: int) -> BatchedEnv:
        return Replayed(self._env.spec, num_envs, make_source(self._archive, num_envs, seed))


def replayed_shapes(agent: Agent, spec: EnvSpec) -> Steps:
    """Shapes of what is needed of an archived step; what another policy remembered of it is not."""
    return step_shapes(agent, spec)._replace(extras=(), version=())


def make_source(archive: Archive, num_envs: int, seed: int) -> Callable[[], Steps]:
    """What gives the next trajectory, leaves [T, ...], T at least 1.

    The first of each slot starts at a row of its own: where all episodes are of one length sequences would else begin
    with the same few rows for ever.
    """
    trajectories = read(archive, seed)
    rng = np.random.default_rng(seed)
    unmixed = num_envs

    def source() -> Steps:
        nonlocal unmixed
        trajectory = next(trajectories)
        if unmixed:
            unmixed -= 1
            start = int(rng.integers(len(trajectory.step_type) - 1))
            trajectory = jax.tree.map(lambda leaf: leaf[start:], trajectory)
        return as_episode(trajectory)

    return source


def as_episode(trajectory: Steps) -> Steps:
    """A trajectory that begins with FIRST and ends with LAST: what wasn't recorded to its end is truncated there.

    So nothing is learned across the seam to the next. Where the beginning wasn't recorded, the frames before it, which
    a policy may have seen, are missing, as at the beginning of an episode.

    Args:
      trajectory: leaves [T, ...], T at least 2.
    """
    step_type = trajectory.step_type.copy()
    reward = trajectory.reward.copy()
    step_type[0], step_type[-1] = FIRST, LAST
    reward[0] = 0.0
    return trajectory._replace(step_type=step_type, reward=reward)
