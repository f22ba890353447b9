"""The arena: plays matches of the newest params, in games of two, against players and earlier versions of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from boonta.agents.base import Agent, Nest
from boonta.envs.base import Env, Player
from boonta.nodes.acting.base import ParamsHandle
from boonta.nodes.evaluating import Evaluating
from boonta.nodes.matches import elo
from boonta.nodes.matches.match import OPENING, MakeSide, play_match, player_side, policy_side, result, shares
from boonta.nodes.watch.evaluation import as_metrics
from boonta.nodes.watch.means import standard_error
from boonta.nodes.watch.reporter import MonitorHandle


class Arena(Evaluating):
    """The evaluator of games of two players: plays matches at intervals.

    The newest version plays each opponent and some earlier versions of the run, half of the games as either player. The
    arena reports the shares of wins, draws and losses, and Elo ratings fitted to all results so far; the rating of the
    first opponent is 0. `eval_return` is the mean outcome against the first opponent. Results and versions are kept in
    memory only: a resumed run is rated from new results, on the same scale.

    Args:
      name: name of this node.
      agent: the agent. Its policy sees the moves of both sides, as it does in self-play.
      env: makes the environments, which must have two players.
      variables: handle of the variable server.
      monitor: handle of the monitor.
      opponents: opponents by name; the first one anchors the Elo scale.
      earlier: number of matches per evaluation against earlier versions, drawn from those kept.
      keep: number of versions kept, spread over the run.
      settings: as for `Evaluating`: the seed of the environments and of both sides, and the fields of
        `nodes.watch.evaluation.Evaluation`; its episodes are the games of a match, and even.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: ParamsHandle,
        monitor: MonitorHandle | None = None,
        *,
        opponents: Mapping[str, Player],
        earlier: int = 2,
        keep: int = 10,
        **settings: Any,
    ):
        super().__init__(name, agent, env, variables, monitor, **settings)
        if env.spec.num_players != 2:
            raise ValueError(f"{name}: env has {env.spec.num_players} player; without a second it needs an Evaluator")
        if not opponents or "earlier" in opponents:
            raise ValueError(f"{name}: opponents is {list(opponents)}; it must name at least one, and none 'earlier'")
        games = self._evaluation.episodes
        if games % 2:
            raise ValueError(f"{name}: episodes is {games}; it must be even, because half are played as either player")
        if earlier < 0 or keep < 2:
            raise ValueError(f"{name}: earlier is {earlier}, keep is {keep}; they must be at least 0 and 2")
        self._opponents = opponents
        self._earlier = earlier
        self._keep = keep

    def start(self) -> None:
        super().start()
        self._rng = np.random.default_rng([self._seed, self.past_starts])
        self._versions: dict[int, Nest] = {}
        # By version and opponent, which is a name or another version.
        self._results: dict[tuple[Any, Any], elo.Result] = {}

    def evaluate(self, version: int, params: Nest) -> dict[str, float]:
        self._versions[version] = params
        outcomes = {}
        for name, player in self._opponents.items():
            opponent = player_side(player, self._stop.is_set, self.stopwatch)
            outcomes[name] = self._match(version, name, opponent)
        past = [other for other in self._versions if other != version]
        rivals = self._rng.permutation(past)[: self._earlier].tolist()
        if rivals:
            matches = [self._match(version, rival, self._side(rival), OPENING) for rival in rivals]
            outcomes["earlier"] = np.concatenate(matches)
        thin(self._versions, self._keep)
        return self._summary(version, outcomes)

    def _side(self, version: int) -> MakeSide:
        return policy_side(self._policy, self._versions[version], self.stopwatch)

    def _match(self, version: int, name: Any, opponent: MakeSide, opening: int = 0) -> np.ndarray:
        """Plays a version against an opponent and records the result; returns the outcomes [B]."""
        outcome = play_match(
            self._env,
            self._evaluation.episodes,
            (self._side(version), opponent),
            seed=int(self._rng.integers(2**31)),
            stopping=self._stop.is_set,
            max_steps=self._evaluation.cut_after(players=2),
            opening=opening,
        ).outcome
        score, games = result(outcome)
        before = self._results.get((version, name), elo.Result(0.0, 0))
        self._results[version, name] = elo.Result(before.score + score, before.games + games)
        self.count(eval_episodes=games)
        return outcome

    def _summary(self, version: int, outcomes: Mapping[str, np.ndarray]) -> dict[str, float]:
        anchor, *_ = self._opponents
        ratings = elo.ratings(self._results, anchor=anchor)
        mean, error = float(np.mean(outcomes[anchor])), standard_error(outcomes[anchor].tolist())
        metrics = as_metrics(mean=mean, error=error, version=float(version))
        metrics["arena/elo"] = ratings[version]
        for name, outcome in outcomes.items():
            metrics.update({share: float(value) for share, value in shares(outcome, name).items()})
        for name in self._opponents:
            metrics[f"arena/{name}/elo"] = ratings[name]
        return metrics


def thin(versions: dict[int, Nest], keep: int) -> None:
    """Drops versions until `keep` are left, each time the one with the closest neighbours, so the rest stay spread."""
    while len(versions) > keep:
        order = sorted(versions)
        i = min(range(1, len(order) - 1), key=lambda i: order[i + 1] - order[i - 1])
        del versions[order[i]]
