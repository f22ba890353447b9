"""Elo ratings: the strengths of players on one scale, from the results of matches.

A player rated d above another is expected to score 1 / (1 + 10^(-d/400)) points per game; a draw is half a point.
See "The Rating of Chessplayers, Past and Present" (Arpad Elo, 1978), and "Rank Analysis of Incomplete Block Designs"
(https://doi.org/10.2307/2334029) for the same model, known as the Bradley-Terry model.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

POINTS = 400.0 / math.log(10.0)  # Rating points per unit of log odds.
NORMAL_95 = 1.96  # 95% of a normal distribution lie within this many standard deviations of its mean.


class Result(NamedTuple):
    """The result of one player's games against another.

    Attributes:
      score: wins plus half of the draws.
      games: number of games.
    """

    score: float
    games: float


def difference(share: float) -> float:
    """Returns the rating difference at which this share of the points is expected; infinite at 0 and 1."""
    if share <= 0.0 or share >= 1.0:
        return math.copysign(math.inf, share - 0.5)
    return POINTS * math.log(share / (1.0 - share))


def interval(result: Result) -> tuple[float, float]:
    """Returns the 95% interval of a rating difference after one match: Wilson's, which also covers clean sweeps.

    A draw counts as half a win although it has less variance, so with draws the interval is wider than necessary.

    See "Probable Inference, the Law of Succession, and Statistical Inference" (https://doi.org/10.2307/2276774).
    """
    n, share, z2 = result.games, result.score / result.games, NORMAL_95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL_95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    # At a clean sweep the bound is exactly 0 or 1; this avoids rounding errors.
    low = 0.0 if result.score == 0 else centre - half
    high = 1.0 if result.score == n else centre + half
    return difference(low), difference(high)


def ratings(
    results: Mapping[tuple[Hashable, Hashable], Result], anchor: Hashable, prior_draws: float = 1.0
) -> dict[Hashable, float]:
    """Fits ratings to results by maximum likelihood.

    Args:
      results: results by pair of players, from the first one's view; a chain of pairs must link every player to the
        anchor.
      anchor: the player whose rating is 0.
      prior_draws: draws added to the games of every pair; without them the rating of a player that always wins would
        be infinite.

    Returns:
      The rating of every player.
    """
    from scipy import optimize, special  # Every launcher imports this module, and these take a quarter of a second.

    players = list(dict.fromkeys([anchor, *(player for pair in results for player in pair)]))
    index = {player: i for i, player in enumerate(players)}
    one, two = np.array([[index[a], index[b]] for a, b in results]).T
    score, games = np.array(list(results.values()), np.float64).T
    score, games = score + prior_draws / 2, games + prior_draws

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        """Negative log likelihood and its gradient, at the log odds of all but the anchor."""
        strength = np.concatenate([[0.0], free])
        odds = strength[one] - strength[two]
        surplus = games * special.expit(odds) - score  # Expected minus actual points.
        gradient = np.bincount(one, surplus, len(players)) - np.bincount(two, surplus, len(players))
        return float(np.sum(games * np.logaddexp(0.0, odds) - score * odds)), gradient[1:]

    tight = {"gtol": 1e-6, "ftol": 1e-14}
    fitted = optimize.minimize(loss, np.zeros(len(players) - 1), jac=True, method="L-BFGS-B", options=tight)
    return dict(zip(players, (POINTS * np.concatenate([[0.0], fitted.x])).tolist()))
