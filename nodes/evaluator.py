"""The evaluator: measures the newest params in its own environments, and writes no learning data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from boonta.agents.base import Agent, Nest
from boonta.envs.base import Env, mixed_seed
from boonta.nodes.acting.base import ParamsHandle
from boonta.nodes.acting.local import Play
from boonta.nodes.evaluating import Evaluating, play_out
from boonta.nodes.watch.evaluation import as_metrics
from boonta.nodes.watch.means import mean, standard_error
from boonta.nodes.watch.reporter import MonitorHandle


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
      settings: as for `Evaluating`: the seed, and the fields of `nodes.watch.evaluation.Evaluation`.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: ParamsHandle,
        monitor: MonitorHandle | None = None,
        **settings: Any,
    ):
        super().__init__(name, agent, env, variables, monitor, **settings)
        if env.spec.num_players != 1:
            raise ValueError(f"{name}: env is a game of {env.spec.num_players} players; their matches need an Arena")

    def start(self) -> None:
        super().start()
        self._means: dict[str, float] = {}  # Those of the last evaluation's metrics.

    def evaluate(self, version: int, params: Nest) -> dict[str, float]:
        seed = mixed_seed(self._seed, self._made, self.past_starts)
        play = Play(self._env(self._evaluation.episodes, seed), self._policy, seed, self.stopwatch)
        returns, cut, metrics = play_out(play, params, self._evaluation.cut_after(players=1), lambda: self.stopping)
        self.count(eval_episodes=len(returns))
        # Where all episodes were cut, the means of the evaluation before must not stay.
        self._means = dict.fromkeys(self._means, math.nan) | dict(metrics)
        return as_metrics(
            mean=mean(returns),
            error=standard_error(returns),
            least=float(np.min(returns)),  # NaN where one is, unlike `min`.
            cut=float(cut),
            version=float(version),
            episodes=self._means,
        )
