"""What the conformance suite asks of the numbers that episodes have besides their return."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from boonta.envs import base, catch, conformance
from boonta.envs.wrapped import WrappedEnv
from boonta.tests.helpers import guess
from boonta.tests.helpers.jax_guess import Guess

GAME = catch.Catch(rows=5, columns=3)


@dataclasses.dataclass(frozen=True)
class Measured:
    """Catch, with numbers of its episodes by a function of the episode."""

    of: Callable[[base.Episode], Mapping[Any, Any]]
    spec = GAME.spec

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        return Measuring(GAME(num_envs, seed), self.of)


class Measuring(WrappedEnv):
    def __init__(self, env, of):
        super().__init__(env)
        self.of = of

    def episodes(self):
        return [episode._replace(metrics=self.of(episode)) for episode in self.env.episodes()]


def caught(episode: base.Episode) -> dict[str, float]:
    return {"caught": (1.0 + episode.episode_return) / 2.0}


@pytest.mark.parametrize("env", [Measured(caught), guess.measured, Guess()], ids=["own", "gymnasium", "jax"])
def test_passes(env):
    conformance.check(env, steps=60)


@pytest.mark.parametrize(
    ("of", "rule", "seen"),
    [
        (lambda _: {7: 1.0}, "the names of an episode's metrics are strings", "7: 1.0, slot 0, step 4"),
        (lambda _: {"hit": True}, "an episode's metrics are finite floats", "'hit': True, slot 0, step 4"),
        (lambda _: {"hit": np.nan}, "an episode's metrics are finite floats", "'hit': nan, slot 0, step 4"),
        (lambda _: {"hit": np.inf}, "an episode's metrics are finite floats", "'hit': inf, slot 0, step 4"),
        (
            lambda episode: {"hit": 1.0} if episode.slot == 2 else {"hit": 1.0, "on": 1.0},
            "all episodes have the same metrics",
            "['hit'] after ['hit', 'on'], slot 2, step 4",
        ),
    ],
)
def test_catches_broken_rule(of, rule, seen, monkeypatch):
    monkeypatch.setattr(conformance, "_check_pickle", lambda env: None)  # Lambdas can't be pickled.
    with pytest.raises(conformance.ConformanceError) as caught:
        conformance.check(Measured(of), steps=60)
    assert rule in str(caught.value) and seen in str(caught.value)
