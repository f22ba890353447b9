"""Atari 2600 games on the Arcade Learning Environment, stepped by C++ threads.

See "The Arcade Learning Environment" (https://arxiv.org/abs/1207.4708) and `ale_py.vector_env.AtariVectorEnv`
(https://ale.farama.org/vector-environment/).

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib

import ale_py
import numpy as np
from ale_py import roms, vector_env
from dm_env import specs

from boonta.envs import base
from boonta.envs.actions import check_action

_NOOP = 0  # The index of the no-op in every game's action set.
_NO_FRAME_LIMIT = 2**30  # More frames than any episode has; fits a C int.


@dataclasses.dataclass(frozen=True)
class Atari:
    """One Atari game that shows one grey frame per step; the agent stacks frames and its loss clips rewards.

    A frame is the pixelwise maximum of the last two repeats of the action, because sprites flicker on odd and even
    frames, resized by area. It deviates from Mnih et al. in two ways: the conversion to grey comes before the maximum,
    not after it, and FIRST shows a single raw frame.

    Sources of the defaults:
      Mnih 2015: "Human-level control through deep reinforcement learning" (https://doi.org/10.1038/nature14236),
        Methods and Extended Data Table 1.
      Machado 2018: "Revisiting the Arcade Learning Environment" (https://arxiv.org/abs/1709.06009).
      Espeholt 2018: "IMPALA" (https://arxiv.org/abs/1802.01561), Appendix G and Table G.1.
      Hessel 2018: "Rainbow" (https://arxiv.org/abs/1710.02298), Appendix.

    Attributes:
      game: ALE's name of the game; case and underscores don't matter: 'Pong', 'pong', 'MsPacman', 'ms_pacman'.
      height: Height of the frame in pixels; 84 in Mnih 2015 and Espeholt 2018. The original screen has 210.
      width: Width of the frame in pixels; 84 in Mnih 2015 and Espeholt 2018. The original screen has 160.
      frame_skip: Number of frames that an action is repeated for; 4 in Mnih 2015 and Espeholt 2018.
      full_action_set: Whether to use all 18 actions instead of those that the game responds to. Off in Espeholt 2018's
        single-game agents; on in their multi-task agent and in Machado 2018.
      repeat_action_probability: Probability that a frame repeats the previous action (sticky actions). 0 in Espeholt
        2018; Machado 2018 recommends 0.25. Scores under the two can't be compared.
      noop_max: An episode starts after 0 to this many frames of no-op; 30 in Mnih 2015.
      fire_reset: Whether the first of these frames presses FIRE, where the action set has it, as OpenAI Baselines
        does. Off, because none of the papers above does it.
      life_loss: Whether a lost life is LAST with discount 0. The game goes on: the FIRST after it shows the same game
        some frames later, and `episodes()` counts whole games. On in Mnih 2015 and Espeholt 2018; Machado 2018
        recommends to leave it off.
      max_episode_frames: A game is truncated (discount 1 on LAST) after this many frames, not counting no-ops. 108,000
        frames, half an hour, in Hessel 2018; 18,000 in Machado 2018.
      num_threads: Number of C++ threads that step the slots; ALE uses at most one per core. None leaves it to the way
        to run: Sebulba divides the machine's cores among its acting threads, all others take one. No result depends on
        it.
    """

    game: str
    height: int = 84
    width: int = 84
    frame_skip: int = 4
    full_action_set: bool = False
    repeat_action_probability: float = 0.0
    noop_max: int = 30
    fire_reset: bool = False
    life_loss: bool = False
    max_episode_frames: int = 108_000
    num_threads: int | None = dataclasses.field(default=None, metadata=base.SAME_STEPS)

    def __post_init__(self) -> None:
        _rom_id(self.game)
        for field in ("height", "width"):
            base.require_side(field, getattr(self, field))
        for field in ("frame_skip", "max_episode_frames", "num_threads"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field} is {value}; it must be at least 1")
        if self.noop_max < 0:
            raise ValueError(f"noop_max is {self.noop_max}; it must be at least 0")
        if not 0.0 <= self.repeat_action_probability <= 1.0:
            raise ValueError(f"repeat_action_probability is {self.repeat_action_probability}; allowed: 0 to 1")

    @property
    def spec(self) -> base.EnvSpec:
        num_actions = len(_actions(_rom_path(_rom_id(self.game)), self.full_action_set))
        return base.EnvSpec(
            observations=specs.BoundedArray((self.height, self.width), np.uint8, 0, 255, "frame"),
            actions=specs.DiscreteArray(num_actions, np.int32, "action"),
            frames_per_step=self.frame_skip,
        )

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        return _AtariBatch(self, num_envs, seed)


class _AtariBatch(base.BatchedEnv):
    """Turns the vector environment's next-step auto-reset into the streams that the contract asks for.

    The emulators report only the game's own end, and show the next game in the step after it, as the contract asks.
    This class adds the two other ends, the frame limit and the lost life. The emulator's own settings don't serve:
      - At its frame limit it doesn't update the picture, so LAST would show a blend with the step before, and a
        truncated episode would bootstrap from that blend.
      - Its `episodic_life` starts a new game after a lost life, and its `life_loss_info` has no step that ignores the
        action.
    See `preprocessed_env.cpp` of ALE 0.12.1. LAST shows such a blend on the game's own end, too, but nothing
    bootstraps from it, because its discount is 0.
    """

    def __init__(self, settings: Atari, num_envs: int, seed: int):
        self.num_envs = num_envs
        self.spec = settings.spec
        self._names = _actions(_rom_path(_rom_id(settings.game)), settings.full_action_set)
        self._life_loss = settings.life_loss
        self._step_limit = -(-settings.max_episode_frames // settings.frame_skip)  # The limit in env steps, rounded up.
        self._seeds: np.ndarray | None = base.slot_seeds(num_envs, seed)
        self._tracker = base.EpisodeTracker(num_envs)
        self._simulator = vector_env.AtariVectorEnv(
            _rom_id(settings.game),
            num_envs,
            num_threads=settings.num_threads or 1,
            max_num_frames_per_episode=_NO_FRAME_LIMIT,
            repeat_action_probability=settings.repeat_action_probability,
            full_action_space=settings.full_action_set,
            img_height=settings.height,
            img_width=settings.width,
            stack_num=1,
            frameskip=settings.frame_skip,
            noop_max=settings.noop_max + 1,  # ALE excludes the upper bound.
            reward_clipping=False,
            use_fire_reset=settings.fire_reset,
        )

    def reset(self) -> base.TimeStep:
        frame, info = self._simulator.reset(seed=self._seeds)
        self._seeds = None  # Later resets go on with the emulators' own generators.
        none = np.zeros(self.num_envs, bool)
        self._lives = info["lives"]
        self._game_steps = np.zeros(self.num_envs, np.int64)  # The env steps of the running game, [B].
        # Why the slot's last step was LAST, if it was; all [B].
        self._was_over, self._was_cut, self._was_life_lost = none, none, none
        zeros = np.zeros(self.num_envs, np.float32)
        self._tracker.update(zeros, first=~none, ended=none)
        return base.TimeStep(np.full(self.num_envs, base.FIRST, np.int32), zeros, zeros + 1, self._squeeze(frame))

    def action_name(self, slot: int, action: int) -> str:
        return self._names[action]

    def step(self, action: np.ndarray) -> base.TimeStep:
        # An action out of range makes the emulators hang.
        action = check_action(action, self.spec.actions, self.num_envs)
        first = self._was_over | self._was_cut | self._was_life_lost
        frame, reward, over, _, info = self._simulator.step(np.where(first, _NOOP, action).astype(np.int32))
        lives = info["lives"]

        new_game = self._was_over | self._was_cut
        self._game_steps = np.where(new_game, 0, self._game_steps + 1)
        cut = (self._game_steps >= self._step_limit) & ~over
        ended = (over | cut) & ~new_game
        self._tracker.update(reward, first=new_game, ended=ended)

        # A truncated game still runs in its emulator, and the no-op after a lost life may have ended the game. Both
        # are reset here, so that FIRST is always the first step of a new game. This extra call is rare.
        restart = self._was_cut | (self._was_life_lost & ended)
        if restart.any():
            frame, info = self._simulator.reset(options={"reset_mask": restart})
            lives = info["lives"]
            self._game_steps[restart] = 0

        # Some games show 0 lives for a few frames before they end; their own end is the one that counts.
        life_lost = (lives < self._lives) & (lives > 0) & self._life_loss & ~over & ~first
        self._lives = lives
        self._was_over, self._was_cut, self._was_life_lost = over & ~first, cut & ~first, life_lost
        last = self._was_over | self._was_cut | life_lost
        return base.TimeStep(
            step_type=base.step_types(first, last),
            reward=np.where(first, 0, reward).astype(np.float32),
            discount=np.where(self._was_over | life_lost, 0, 1).astype(np.float32),
            observation=self._squeeze(frame),
        )

    def episodes(self) -> list[base.Episode]:
        return self._tracker.take()

    def close(self) -> None:
        del self._simulator  # The destructor joins the threads.

    def _squeeze(self, frame: np.ndarray) -> np.ndarray:
        """Drops the stack axis, [B, 1, H, W] -> [B, H, W]; no copy is needed, for each step has its own buffer."""
        return frame[:, 0]


def _rom_id(game: str) -> str:
    """Returns ALE's name of a game, whatever its case and underscores."""
    known = {rom.replace("_", ""): rom for rom in sorted(roms.get_all_rom_ids())}
    key = game.replace("_", "").lower()
    if key not in known:
        hint = base.suggest(key, known, shown=known.__getitem__)
        raise ValueError(f"game is {game!r}, which ALE does not know; {hint}")
    return known[key]


def _rom_path(rom: str) -> pathlib.Path:
    """Returns the path of the game's file, whose checksum ALE has verified."""
    try:
        path = roms.get_rom_path(rom)
    except (FileNotFoundError, NotADirectoryError) as error:
        folder = os.environ.get("ALE_ROMS_DIR") or "the package ale_py"
        raise FileNotFoundError(f"game is {rom!r}, which ALE knows, but there is no {rom}.bin in {folder}") from error
    assert path is not None  # ALE returns None only for unknown names, which _rom_id refuses.
    return path


@functools.cache
def _actions(rom: pathlib.Path, full_action_set: bool) -> tuple[str, ...]:
    """Returns the names of the game's actions, read from a temporary emulator."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    emulator = ale_py.ALEInterface()
    emulator.loadROM(rom)
    found = emulator.getLegalActionSet() if full_action_set else emulator.getMinimalActionSet()
    return tuple(action.name.lower() for action in found)
