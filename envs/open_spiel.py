"""Board games of OpenSpiel by name, both players in one stream.

See "OpenSpiel: A Framework for Reinforcement Learning in Games" (https://arxiv.org/abs/1908.09453).

Glossary of shapes: B batch (environment slots stepped together), A actions, N numbers of a flat view.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

import numpy as np
import pyspiel
from dm_env import specs

from boonta.envs import base, drawing
from boonta.envs.actions import check_action, check_legal

_PROBES, _PROBE_MOVES = 10, 200  # Random games, and moves of each, played by `_moves_again`.
_BOTTOM_UP = {"connect_four"}  # Games whose planes begin with the lowest row.


@dataclasses.dataclass(frozen=True)
class OpenSpiel:
    """A perfect-information game for one player, or a zero-sum one for two who take turns; chance is allowed.

    Chance nodes are not steps: the outcomes that a slot's seeded generator draws belong to the move before them.

    The view is OpenSpiel's observation tensor for the player to move. Many games show both players the same tensor, so
    a game of two has one more plane (or number, if flat) that holds the player, 0 or 1.

    Agents treat the value of the next step as the other player's, so players must strictly alternate. Where the rules
    let a player move twice in a row, as in "pig" or "dots_and_boxes", `passes` inserts a step in which the other player
    passes. This makes the streams of these few games longer, but no agent needs to know of it.

    Attributes:
      game: a name for `pyspiel.load_game`, such as "tic_tac_toe" or "breakthrough(rows=6,columns=6)".
      view: "planes" [H, W, C], or "flat" [N], which every game has.
      passes: adds a last action, "pass", which is the only legal one for a player who must wait, and a plane (or
        number) of the view that is 1 in these steps.
    """

    game: str
    view: Literal["planes", "flat"] = "planes"
    passes: bool = False

    def __post_init__(self) -> None:
        shape, players = _load(self.game).observation_tensor_shape(), _load(self.game).num_players()
        if self.view not in ("planes", "flat"):
            raise ValueError(f"view is {self.view!r}; allowed: 'planes', 'flat'")
        if self.view == "planes" and len(shape) not in (2, 3):
            raise ValueError(f"view is 'planes', but {self.game} has observations of shape {shape}; allowed: 'flat'")
        if self.passes and players == 1:
            raise ValueError(f"passes is True, but {self.game} has one player, who never waits")
        if not self.passes and players == 2 and _moves_again(self.game):
            raise ValueError(f"game is {self.game!r}, where a player may move twice in a row; set passes=True")

    @property
    def spec(self) -> base.EnvSpec:
        game = _load(self.game)
        players, num_actions = game.num_players(), game.num_distinct_actions() + self.passes
        shape = _to_planes(game, np.zeros((1, game.observation_tensor_size()))).shape[1:]
        *sides, channels = shape if self.view == "planes" else (game.observation_tensor_size(),)
        channels += (players == 2) + self.passes
        return base.EnvSpec(
            observations=base.BoardView.spec(specs.Array((*sides, channels), np.float32, "view"), num_actions, players),
            actions=specs.DiscreteArray(num_actions, np.int32, "action"),
            num_players=players,
        )

    def __call__(self, num_envs: int, seed: int) -> OpenSpielBatch:
        return OpenSpielBatch(self, num_envs, seed)


class OpenSpielBatch(base.BatchedEnv):
    """A batch that holds one OpenSpiel state per slot.

    Attributes:
      game: the OpenSpiel game.
      states: the state of each slot. Players may read and copy them, but not change them. Where the player to move in
        the stream must pass, the player to move in the state is the other one.
    """

    def __init__(self, settings: OpenSpiel, num_envs: int, seed: int):
        self.num_envs = num_envs
        self.spec = settings.spec
        self.game = _load(settings.game)
        self._settings = settings
        self._rngs = [np.random.default_rng(slot_seed) for slot_seed in base.slot_seeds(num_envs, seed)]
        self.states = [self.game.new_initial_state() for _ in range(num_envs)]
        self._player = np.zeros(num_envs, np.int32)  # [B]
        self._last = np.ones(num_envs, bool)  # [B]
        self._shown: base.TimeStep | None = None  # The last step.
        self._tracker = base.EpisodeTracker(num_envs)

    def reset(self) -> base.TimeStep:
        self._last[:] = True
        self._shown = None
        return self.step(np.zeros(self.num_envs, np.int32))

    def step(self, action: np.ndarray) -> base.TimeStep:
        action = check_action(action, self.spec.actions, self.num_envs)
        check_legal(action, self._shown)
        first = self._last
        reward = np.zeros(self.num_envs, np.float32)
        for slot in range(self.num_envs):
            if first[slot]:
                self._start(slot)
            else:
                reward[slot] = self._move(slot, int(action[slot]))
        return self._timestep(reward, first)

    def episodes(self) -> list[base.Episode]:
        return self._tracker.take()

    def render(self) -> np.ndarray | None:
        """Draws the planes that player 0 sees; a cell has the mean colour of its planes."""
        if len(self.game.observation_tensor_shape()) not in (2, 3):
            return None
        planes = _to_planes(self.game, np.array([state.observation_tensor(0) for state in self.states]))
        if self.game.get_type().short_name in _BOTTOM_UP:
            planes = planes[:, ::-1]
        return drawing.mixed(planes)

    def text(self, slot: int) -> str:
        return str(self.states[slot])

    def action_name(self, slot: int, action: int) -> str:
        if action == self.game.num_distinct_actions():
            return "pass"
        return self.states[slot].action_to_string(self.states[slot].current_player(), action)

    def _start(self, slot: int) -> None:
        self.states[slot] = state = self.game.new_initial_state()
        _draw(state, self._rngs[slot])
        self._player[slot] = state.current_player()

    def _move(self, slot: int, action: int) -> float:
        """Applies the action of the slot's player and the chance outcomes after it; returns that player's reward."""
        state, player = self.states[slot], self._player[slot]
        self._player[slot] = (player + 1) % self.spec.num_players
        if action == self.game.num_distinct_actions():  # This is a pass.
            return 0.0
        before = state.player_return(player)
        state.apply_action(action)
        _draw(state, self._rngs[slot])
        return state.player_return(player) - before

    def _timestep(self, reward: np.ndarray, first: np.ndarray) -> base.TimeStep:
        """Returns the current step of every slot, given the reward [B] of the action that led here."""
        last = np.array([state.is_terminal() for state in self.states])
        waits = ~last & (self._player != [state.current_player() for state in self.states])
        if waits.any() and not self._settings.passes:
            slot = int(np.argmax(waits))
            raise ValueError(f"a player of slot {slot} moves twice in a row in {self.game}; set passes=True")
        self._last, legal = last, np.zeros((self.num_envs, self.spec.actions.num_values), bool)  # [B], [B, A]
        for slot, state in enumerate(self.states):
            legal[slot, -1 if waits[slot] else slice(None) if last[slot] else state.legal_actions()] = True
        self._shown = base.TimeStep(
            step_type=base.step_types(first, last),
            reward=reward,
            discount=np.where(last, 0, 1).astype(np.float32),
            observation=base.BoardView(self._view(waits), legal, self._player.copy()),
        )
        self._tracker.update(base.reward_of_player_0(self._shown, self.spec.num_players), first=first, ended=last)
        return self._shown

    def _view(self, waits: np.ndarray) -> np.ndarray:
        """Returns what the player to move of each slot sees, float32 [B, ...]."""
        tensors = [state.observation_tensor(player) for state, player in zip(self.states, self._player)]
        view = np.array(tensors, np.float32)
        if self._settings.view == "planes":
            view = _to_planes(self.game, view)
        facts = [self._player] * (self.spec.num_players == 2) + [waits] * self._settings.passes
        for fact in facts:
            shown = np.broadcast_to(fact.reshape(-1, *(1,) * (view.ndim - 1)), (*view.shape[:-1], 1))
            view = np.concatenate([view, shown], axis=-1, dtype=np.float32)
        return view


@functools.cache
def _load(name: str) -> pyspiel.Game:
    """Loads a game.

    Raises:
      ValueError: the name is unknown, or the game is of an unsupported kind.
    """
    known, short = pyspiel.registered_names(), name.split("(")[0]
    if short not in known:
        raise ValueError(f"game is {name!r}, which OpenSpiel does not know; {base.suggest(short, known)}")
    try:
        game = pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise ValueError(f"game is {name!r}, which OpenSpiel refuses: {error}") from error
    kind = game.get_type()
    for refused, why in (
        (kind.dynamics != kind.Dynamics.SEQUENTIAL, "its players move at the same time"),
        (kind.information != kind.Information.PERFECT_INFORMATION, "it hides things from its players"),
        (kind.chance_mode == kind.ChanceMode.SAMPLED_STOCHASTIC, "it draws its chances where they can't be seeded"),
        (game.num_players() > 2, f"it has {game.num_players()} players"),
        (game.num_players() == 2 and kind.utility != kind.Utility.ZERO_SUM, "it is not zero-sum"),
        (not kind.provides_observation_tensor, "it has no observation tensor"),
    ):
        if refused:
            raise ValueError(
                f"game is {name!r}: {why}; allowed: games with observation tensors and nothing hidden, of one player"
                " or zero-sum of two who take turns"
            )
    return game


@functools.cache
def _moves_again(name: str) -> bool:
    """Whether a player moves twice in a row in some random games; `step()` still checks games that pass this test."""
    rng = np.random.default_rng(0)
    for _ in range(_PROBES):
        state, mover = _load(name).new_initial_state(), None
        _draw(state, rng)
        for _ in range(_PROBE_MOVES):
            if state.is_terminal():
                break
            if state.current_player() == mover:
                return True
            mover = state.current_player()
            state.apply_action(int(rng.choice(state.legal_actions())))
            _draw(state, rng)
    return False


def _draw(state: pyspiel.State, rng: np.random.Generator) -> None:
    """Draws chance outcomes until a player is to move or the game is over."""
    while state.is_chance_node():
        outcomes, chances = zip(*state.chance_outcomes())
        state.apply_action(int(rng.choice(outcomes, p=np.array(chances) / sum(chances))))


def _to_planes(game: pyspiel.Game, tensors: np.ndarray) -> np.ndarray:
    """Reshapes flat tensors [B, N] to planes [B, H, W, C]; a tensor with two axes becomes a single plane."""
    shape = game.observation_tensor_shape()
    planes = tensors.reshape(-1, *shape)
    if len(shape) == 2:
        return planes[..., None]
    channels_first = len(shape) == 3 and game.observation_tensor_layout() == pyspiel.TensorLayout.CHW
    return np.moveaxis(planes, 1, -1) if channels_first else planes
