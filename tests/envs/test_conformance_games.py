"""The suite catches environments that break the rules of games with turns, of endless streams and of pictures."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dm_env import specs

from boonta.envs import base, catch, conformance
from boonta.envs.continuing import Continuing
from boonta.envs.open_spiel import OpenSpiel

BOARD = OpenSpiel("tic_tac_toe")
MIDDLE_TAKEN = np.arange(9) != 4  # [A]
ENDLESS = Continuing(catch.Catch(rows=5, columns=3))


@dataclasses.dataclass(frozen=True)
class Broken:
    """Wraps a game and changes its steps, episodes or picture."""

    env: base.Env
    steps: Callable[[base.TimeStep], base.TimeStep] = lambda timestep: timestep
    episodes: Callable[[list], list] = lambda episodes: episodes
    picture: Any = None

    @property
    def spec(self) -> base.EnvSpec:
        return self.env.spec

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        batch = self.env(num_envs, seed)
        reset, step, episodes = batch.reset, batch.step, batch.episodes
        batch.reset = lambda: self.steps(reset())
        batch.step = lambda action: self.steps(step(action))
        batch.episodes = lambda: self.episodes(episodes())
        batch.render = lambda: self.picture
        return batch


def board(**change: Callable[[base.TimeStep], np.ndarray]) -> Callable[[base.TimeStep], base.TimeStep]:
    """Returns a change of fields of the `BoardView`."""

    def changed(step: base.TimeStep) -> base.TimeStep:
        fields = {name: value(step) for name, value in change.items()}
        return step._replace(observation=step.observation._replace(**fields))

    return changed


def with_return(episode_return: float) -> Callable[[list], list]:
    return lambda episodes: [episode._replace(episode_return=episode_return) for episode in episodes]


CASES = {
    "none legal": (
        Broken(BOARD, board(legal=lambda step: step.observation.legal & (step.step_type == base.FIRST)[:, None])),
        "some action is always legal; seen: none, slot 0",
    ),
    "not all legal on LAST": (
        Broken(BOARD, board(legal=lambda step: step.observation.legal & ((step.discount > 0)[:, None] | MIDDLE_TAKEN))),
        "every action is legal on LAST",
    ),
    "player 0 only": (
        Broken(BOARD, board(player=lambda step: step.observation.player * 0)),
        "the players of an episode take turns",
    ),
    "returns of whoever won": (Broken(BOARD, episodes=with_return(1.0)), "episodes() gives each episode as it ends"),
    "a LAST": (Broken(ENDLESS.env), "an endless stream has no LAST; seen: one, slot 0, step 4"),
    "another return": (Broken(ENDLESS, episodes=with_return(0.5)), "a game returns what it earned"),
    "a picture of floats": (Broken(BOARD, picture=np.zeros((3, 8, 8, 3))), "render() gives uint8 [B, H, W, 3]"),
    "a grey picture": (Broken(BOARD, picture=np.zeros((3, 8, 8), np.uint8)), "render() gives uint8 [B, H, W, 3]"),
    "a picture too few": (Broken(BOARD, picture=np.zeros((2, 8, 8, 3), np.uint8)), "seen: uint8 [2, 8, 8, 3]"),
}


@pytest.mark.parametrize("case", CASES)
def test_catches_broken_rule(case, monkeypatch):
    monkeypatch.setattr(conformance, "_check_pickle", lambda env: None)  # Lambdas can't be pickled.
    env, message = CASES[case]
    endless = env.env in (ENDLESS, ENDLESS.env)
    with pytest.raises(conformance.ConformanceError) as caught:
        conformance.check(env, steps=60, endless=endless)
    assert message in str(caught.value)


@pytest.mark.parametrize("env", [BOARD, ENDLESS], ids=str)
def test_the_wrapper_itself_breaks_nothing(env, monkeypatch):
    monkeypatch.setattr(conformance, "_check_pickle", lambda env: None)
    conformance.check(Broken(env, picture=np.zeros((3, 8, 8, 3), np.uint8)), steps=60, endless=env is ENDLESS)


@dataclasses.dataclass(frozen=True)
class WithSpec:
    spec: base.EnvSpec

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        raise AssertionError("the spec is looked at first")


@pytest.mark.parametrize("spec", [catch.Catch().spec._replace(num_players=2), BOARD.spec._replace(num_players=3)])
def test_catches_players_who_cannot_be(spec):
    with pytest.raises(conformance.ConformanceError, match="one player, or two who see a BoardView; seen: . players"):
        conformance.check(WithSpec(spec))


@pytest.mark.parametrize(
    ("leaf", "spec", "rule"),
    [
        (
            "legal",
            specs.Array((5,), bool),
            r"legal of a BoardView is bool \[\d+\], .*; seen: .*\(5,\)",
        ),
        (
            "legal",
            specs.Array(BOARD.spec.observations.legal.shape, np.float32),
            "is bool .*float32",
        ),
        ("player", specs.Array((1,), np.int32), r"player of a BoardView is an int32 scalar; seen: .*\(1,\)"),
    ],
)
def test_catches_a_mask_or_a_player_that_cannot_be(leaf, spec, rule):
    wrong = BOARD.spec._replace(observations=BOARD.spec.observations._replace(**{leaf: spec}))
    with pytest.raises(conformance.ConformanceError, match=rule):
        conformance.check(WithSpec(wrong))


def test_a_mask_is_of_single_choices():
    wrong = BOARD.spec._replace(actions=specs.BoundedArray((2,), np.int32, 0, 1))
    with pytest.raises(conformance.ConformanceError, match="actions of a BoardView are a DiscreteArray"):
        conformance.check(WithSpec(wrong))
