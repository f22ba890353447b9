"""The evaluator: measures the newest params in its own environments, and writes no learning data."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from boonta.agents.base import Agent
from boonta.envs.base import Env
from boonta.nodes.acting.local import Play, acting_params, jit_policy
from boonta.nodes.base import Stopped
from boonta.nodes.periodic import Periodic
from boonta.nodes.variables import open_params


class Evaluator(Periodic):
    """Plays `episodes` episodes with `agent.eval_policy` every `every_s` seconds, and reports their mean return.

    All episodes of an evaluation use one version of the params. Each has a slot of its own, so that long episodes are
    not underrepresented.

    Args:
      name: name of this node.
      agent: its `eval_policy` plays.
      env: makes the environments, which must have one player; `Arena` is for two players.
      variables: handle of the variable server, or `Colocated` with the learner.
      monitor: handle of the monitor.
      episodes: number of episodes per evaluation.
      every_s: seconds from the start of one evaluation to the next, or more, because of `max_share`.
      max_share: the greatest share of its time that the node plays, above 0 and at most 1. Long episodes and deep
        searches would else take the cores that actors and learner need.
      every_updates: updates between evaluations where the program is fused (`nodes.anakin`), which counts no seconds.
      max_steps: env steps after which an episode is cut, and counts with what it has earned: some tasks never end.
      seed: seed of the environments and the policy.
    """

    role = "evaluator"

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: Any,
        monitor: Any = None,
        *,
        episodes: int = 4,
        every_s: float = 60.0,
        max_share: float = 0.25,
        every_updates: int = 1_000,
        max_steps: int = 30_000,
        seed: int = 0,
    ):
        super().__init__(name, monitor, every_s=every_s)
        if env.spec.num_players != 1:
            raise ValueError(f"{name}: env is a game of {env.spec.num_players} players; their matches need an Arena")
        if episodes < 1:
            raise ValueError(f"{name}: episodes is {episodes}; it must be at least 1")
        if every_updates < 0:
            raise ValueError(f"{name}: every_updates is {every_updates}; it must be at least 0")
        if max_steps < 1:
            raise ValueError(f"{name}: max_steps is {max_steps}; it must be at least 1")
        require_share(name, max_share)
        self._agent = agent
        self._env = env
        self._variables = variables
        self._episodes, self._max_steps = episodes, max_steps
        self._max_share = max_share
        self._seed = seed

    def start(self) -> None:
        self._act = jit_policy(self._agent.eval_policy)
        self._params = open_params(self._variables, acting_params(self._agent))
        self._evaluations = 0

    def round(self) -> None:
        self.wait_for("params", self._params.poll)
        version, params = self._params.snapshot()
        started = time.monotonic()
        returns = self._evaluate(params)
        if self._evaluations:  # The first one compiles, which doesn't come again.
            self.rest_after(time.monotonic() - started, self._max_share)
        self._evaluations += 1
        self.count(eval_episodes=len(returns))
        self.measure(
            {"eval_return": float(np.mean(returns)), "eval_return_min": min(returns), "eval_version": float(version)}
        )

    def _evaluate(self, params: Any) -> list[float]:
        """Returns the return of each slot's first episode."""
        seed = self._seed + self._evaluations
        env = self._env(self._episodes, seed)
        play = Play(env, self._agent.eval_policy, self._act, seed, self.stopwatch)
        returns: dict[int, float] = {}
        earned = np.zeros(self._episodes)
        for _ in range(self._max_steps):
            if self.stopping:
                raise Stopped
            play.step(params)
            earned += play.timestep.reward
            for episode in env.episodes():
                returns.setdefault(episode.slot, episode.episode_return)
            if len(returns) == self._episodes:
                break
        env.close()
        return [float(returns.get(slot, earned[slot])) for slot in range(self._episodes)]


def require_share(name: str, max_share: float) -> None:
    """Raises ValueError unless a node may spend this share of its time on evaluations."""
    if not 0.0 < max_share <= 1.0:
        raise ValueError(f"{name}: max_share is {max_share}; it must be above 0 and at most 1")
