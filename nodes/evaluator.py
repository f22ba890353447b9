"""The evaluator: measures the newest params in its own environments, and writes no learning data."""

from __future__ import annotations

from typing import Any

import numpy as np

from boonta.agents.base import Agent
from boonta.envs.base import Env, mixed_seed
from boonta.nodes.acting.local import Play, acting_params, evaluated_policy, jit_policy
from boonta.nodes.evaluating import MAX_STEPS, Evaluating, play_out
from boonta.nodes.metrics import standard_error
from boonta.nodes.variables import open_params


class Evaluator(Evaluating):
    """Plays `episodes` episodes at intervals with the agent's evaluation policy, and reports their mean return.

    All episodes of an evaluation use one version of the params. Each has a slot of its own, so that long episodes are
    not underrepresented.

    Args:
      name: name of this node.
      agent: the agent.
      env: makes the environments, which must have one player; `Arena` is for two players.
      variables: handle of the variable server, or `Colocated` with the learner.
      monitor: handle of the monitor.
      episodes: number of episodes per evaluation.
      deterministic: which policy plays, see `nodes.acting.local.evaluated_policy`.
      max_steps: env steps after which an episode is cut, and counts with what it has earned: some tasks never end.
      seed: seed of the environments and the policy.
      cadence: see `nodes.evaluating.Evaluating`. Where the program is fused (`nodes.anakin`), which counts no seconds,
        it is every_updates unless by is "env_steps".
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: Any,
        monitor: Any = None,
        *,
        episodes: int = 4,
        deterministic: bool | None = None,
        max_steps: int = MAX_STEPS,
        seed: int = 0,
        **cadence: Any,
    ):
        super().__init__(name, monitor, **cadence)
        if env.spec.num_players != 1:
            raise ValueError(f"{name}: env is a game of {env.spec.num_players} players; their matches need an Arena")
        if episodes < 1:
            raise ValueError(f"{name}: episodes is {episodes}; it must be at least 1")
        if max_steps < 1:
            raise ValueError(f"{name}: max_steps is {max_steps}; it must be at least 1")
        self._agent = agent
        self._policy = evaluated_policy(agent, deterministic)
        self._env = env
        self._variables = variables
        self._episodes, self._max_steps = episodes, max_steps
        self._seed = seed

    def start(self) -> None:
        self._act = jit_policy(self._policy)
        self._params = open_params(self._variables, acting_params(self._agent))
        self._evaluations = 0

    def round(self) -> None:
        if not self._evaluations:
            env = self._env(self._episodes, self._seed)
            self.compile_in(env, self._policy, self._act, self._params, self._seed)
        self.wait_for("params", self._params.poll)
        version, params = self._params.snapshot()
        began = self.begin(version)
        seed = mixed_seed(self._seed, self._evaluations)
        self._evaluations += 1
        play = Play(self._env(self._episodes, seed), self._policy, self._act, seed, self.stopwatch)
        returns, cut = play_out(play, params, self._max_steps, lambda: self.stopping)
        self.count(eval_episodes=len(returns))
        error = standard_error(returns)
        metrics = {"eval_return": float(np.mean(returns)), "eval_return_min": min(returns), "eval_cut": float(cut)}
        metrics |= {"eval_version": float(version), **({} if error is None else {"eval_return_se": error})}
        self.finish(began, metrics)
