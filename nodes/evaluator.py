"""The evaluator: measures the newest params in its own environments, and writes no learning data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from boonta.agents.base import Agent
from boonta.envs.base import Env, mixed_seed
from boonta.nodes.acting.local import Play, acting_params, evaluated_policy, jit_policy
from boonta.nodes.evaluating import Evaluating, play_out
from boonta.nodes.metrics import standard_error
from boonta.nodes.variables import open_params
from boonta.nodes.watch.evaluation import as_metrics


class Evaluator(Evaluating):
    """Plays episodes at intervals with the agent's evaluation policy, and reports their mean return.

    All episodes of an evaluation use one version of the params. Each has a slot of its own, so that long episodes are
    not underrepresented.

    Args:
      name: name of this node.
      agent: the agent.
      env: makes the environments, which must have one player; `Arena` is for two players.
      variables: handle of the variable server, or `Colocated` with the learner.
      monitor: handle of the monitor.
      seed: seed of the environments and the policy.
      evaluation: the fields of `nodes.watch.evaluation.Evaluation`.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: Any,
        monitor: Any = None,
        *,
        seed: int = 0,
        **evaluation: Any,
    ):
        super().__init__(name, monitor, **evaluation)
        if env.spec.num_players != 1:
            raise ValueError(f"{name}: env is a game of {env.spec.num_players} players; their matches need an Arena")
        self._agent = agent
        self._policy = evaluated_policy(agent, self._evaluation.deterministic)
        self._env = env
        self._variables = variables
        self._seed = seed

    def start(self) -> None:
        self._act = jit_policy(self._policy)
        self._params = open_params(self._variables, acting_params(self._agent))
        self._evaluations = 0
        self._means: dict[str, float] = {}  # Those of the last evaluation's metrics.

    def round(self) -> None:
        episodes = self._evaluation.episodes
        if not self._evaluations:
            env = self._env(episodes, self._seed)
            self.compile_in(env, self._policy, self._act, self._params, self._seed)
        self.wait_for("params", self._params.poll)
        version, params = self._params.snapshot()
        began = self.begin(version)
        seed = mixed_seed(self._seed, self._evaluations, self.past_starts)
        self._evaluations += 1
        play = Play(self._env(episodes, seed), self._policy, self._act, seed, self.stopwatch)
        returns, cut, metrics = play_out(play, params, self._evaluation.cut_after, lambda: self.stopping)
        self.count(eval_episodes=len(returns))
        mean, error = float(np.mean(returns)), standard_error(returns)
        # Where all episodes were cut, the means of the evaluation before must not stay.
        self._means = dict.fromkeys(self._means, math.nan) | dict(metrics)
        found = as_metrics(
            mean=mean, error=error, least=min(returns), cut=float(cut), version=float(version), episodes=self._means
        )
        self.finish(began, found)
