"""Compares the adapter with one `ALEInterface` per slot, stepped frame by frame according to the contract."""

import dataclasses

import ale_py
import numpy as np
import pytest
from ale_py import roms, vector_env

from boonta.envs import atari, base

pytestmark = pytest.mark.once

SCREEN = {"height": 210, "width": 160}  # The original size, so that pictures compare exactly.


class Reference:
    """Plays one slot, one frame at a time, without no-ops at the start."""

    def __init__(self, settings: atari.Atari, seed: int):
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.settings, self.skip = settings, settings.frame_skip
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", seed)
        self.ale.setFloat("repeat_action_probability", settings.repeat_action_probability)
        self.ale.loadROM(roms.get_rom_path(settings.game))
        self.actions = self.ale.getLegalActionSet() if settings.full_action_set else self.ale.getMinimalActionSet()
        self.episodes: list[tuple[float, int]] = []

    def reset(self):
        self.ale.reset_game()
        self.frames, self.score, self.steps = 0, 0.0, 0
        self.new_game = self.lost_life = False
        return base.FIRST, 0.0, 1.0, self.ale.getScreenGrayscale()

    def step(self, action: int):
        if self.new_game:
            return self.reset()
        resumes = self.lost_life
        lives, reward, screens = self.ale.lives(), 0, []
        while len(screens) < self.skip and not self.ale.game_over():
            reward += self.ale.act(self.actions[0 if resumes else action])
            screens.append(self.ale.getScreenGrayscale())
        self.frames, self.score, self.steps = self.frames + self.skip, self.score + reward, self.steps + 1

        over = self.ale.game_over()
        self.new_game = over or self.frames >= self.settings.max_episode_frames
        if self.new_game:
            self.episodes.append((self.score, self.steps))
        if resumes:
            self.lost_life = False
            return self.reset() if self.new_game else (base.FIRST, 0.0, 1.0, np.maximum(*screens[-2:]))
        self.lost_life = self.settings.life_loss and 0 < self.ale.lives() < lives
        # On the game's own end the adapter promises no picture, see `atari._AtariBatch`.
        picture = None if over else np.maximum(*screens[-2:])
        last = self.new_game or self.lost_life
        return base.LAST if last else base.MID, reward, 0.0 if over or self.lost_life else 1.0, picture


def compare(settings: atari.Atari, steps: int, num_envs: int = 2, seed: int = 3, choose=None) -> dict:
    """Steps the adapter and a reference for each slot; returns the number of ends of each kind."""
    env = settings(num_envs, seed)
    slots = [Reference(settings, int(slot_seed)) for slot_seed in base.slot_seeds(num_envs, seed)]
    rng = np.random.default_rng(seed)
    ends = {"terminations": 0, "truncations": 0, "rewards": 0}
    timestep, wanted = env.reset(), [slot.reset() for slot in slots]
    for t in range(steps + 1):
        for i, (step_type, reward, discount, picture) in enumerate(wanted):
            seen = (timestep.step_type[i], timestep.reward[i], timestep.discount[i])
            assert seen == (step_type, reward, discount), f"slot {i}, step {t}"
            if picture is not None:
                np.testing.assert_array_equal(timestep.observation[i], picture, f"slot {i}, step {t}")
            ends["terminations"] += step_type == base.LAST and discount == 0
            ends["truncations"] += step_type == base.LAST and discount == 1
            ends["rewards"] += reward != 0
        action = rng.integers(env.spec.actions.num_values, size=num_envs)
        timestep, wanted = env.step(action), [slot.step(a) for slot, a in zip(slots, action)]
    episodes = env.episodes()
    for i, slot in enumerate(slots):
        assert [(one.episode_return, one.env_steps) for one in episodes if one.slot == i] == slot.episodes
    env.close()
    return ends | {"games": len(episodes)}


def test_a_game_to_its_end():
    ends = compare(atari.Atari("breakout", noop_max=0, **SCREEN), steps=450)
    assert ends["terminations"] >= 2 and ends["truncations"] == 0 and ends["rewards"] > 0


@pytest.mark.parametrize("skip", [3, 4])
def test_the_frame_limit_truncates_with_the_right_picture(skip):
    settings = atari.Atari("pong", noop_max=0, frame_skip=skip, max_episode_frames=30 * skip, **SCREEN)
    assert settings.spec.frames_per_step == skip
    ends = compare(settings, steps=100)
    assert ends == {"terminations": 0, "truncations": 6, "rewards": ends["rewards"], "games": 6}


def test_a_lost_life_ends_the_episode_and_not_the_game():
    ends = compare(atari.Atari("breakout", noop_max=0, life_loss=True, **SCREEN), steps=450)
    assert ends["terminations"] >= 4 * ends["games"] > 0


def first_lost_life(settings: atari.Atari, seed: int = 3) -> int:
    """The step in which `compare`'s random actions lose the first life of slot 0."""
    slot, rng = Reference(settings, int(base.slot_seeds(1, seed)[0])), np.random.default_rng(seed)
    slot.reset()
    return next(t for t in range(1, 1000) if slot.step(rng.integers(len(slot.actions), size=1)[0])[0] == base.LAST)


@pytest.mark.parametrize("after", [-1, 0, 1, 2, 60])
def test_the_frame_limit_around_a_lost_life(after):
    settings = atari.Atari("breakout", noop_max=0, life_loss=True, **SCREEN)
    limit = first_lost_life(settings) + after  # 0: both ends at once; 1: in the hidden no-op; 60: with fewer lives
    settings = dataclasses.replace(settings, max_episode_frames=4 * limit)
    assert compare(settings, steps=3 * limit, num_envs=1)["games"] >= 2


def scripted(monkeypatch, settings: atari.Atari, script: list[tuple[int, bool, int]]) -> base.BatchedEnv:
    """Makes the adapter on a fake simulator that returns the next (reward, game over, lives) of a script each step."""

    class Simulator:
        def __init__(self, *args, **kwargs):
            self.script = iter(script)

        def reset(self, seed=None, options=None):
            return np.zeros((1, 1, 84, 84), np.uint8), {"lives": np.array([3])}

        def step(self, action):
            reward, over, lives = next(self.script)
            frame = np.full((1, 1, 84, 84), reward, np.uint8)
            return frame, np.array([reward]), np.array([over]), np.array([False]), {"lives": np.array([lives])}

    monkeypatch.setattr(vector_env, "AtariVectorEnv", Simulator)
    env = settings(1, 0)
    env.reset()
    return env


def rows(env: base.BatchedEnv, steps: int) -> list[tuple[int, float, float, int]]:
    """Step type, reward, discount and a pixel of each step."""
    played = [env.step(np.zeros(1, int)) for _ in range(steps)]
    return [(one.step_type[0], one.reward[0], one.discount[0], one.observation[0, 0, 0]) for one in played]


FIRST, MID, LAST = base.FIRST, base.MID, base.LAST


def test_a_reward_behind_a_lost_life_counts_for_the_game_alone(monkeypatch):
    settings = atari.Atari("pong", life_loss=True)
    env = scripted(monkeypatch, settings, [(1, False, 3), (2, False, 2), (4, False, 2), (8, True, 0)])
    assert rows(env, 4) == [(MID, 1, 1, 1), (LAST, 2, 0, 2), (FIRST, 0, 1, 4), (LAST, 8, 0, 8)]
    assert env.episodes() == [base.Episode(0, 15.0, 4)]


def test_a_game_that_ends_behind_a_lost_life_is_not_shown(monkeypatch):
    settings = atari.Atari("pong", life_loss=True)
    env = scripted(monkeypatch, settings, [(1, False, 2), (4, True, 0), (1, False, 3), (2, True, 0)])
    assert rows(env, 4) == [(LAST, 1, 0, 1), (FIRST, 0, 1, 0), (MID, 1, 1, 1), (LAST, 2, 0, 2)]
    assert env.episodes() == [base.Episode(0, 5.0, 2), base.Episode(0, 3.0, 2)]


def test_a_life_that_is_lost_behind_a_lost_life_is_not_shown(monkeypatch):
    env = scripted(monkeypatch, atari.Atari("pong", life_loss=True), [(1, False, 2), (2, False, 1), (4, False, 1)])
    assert rows(env, 3) == [(LAST, 1, 0, 1), (FIRST, 0, 1, 2), (MID, 4, 1, 4)]


def test_a_game_that_ends_at_the_frame_limit_is_terminated_and_its_emulator_goes_on(monkeypatch):
    settings = atari.Atari("pong", max_episode_frames=8)
    env = scripted(monkeypatch, settings, [(1, False, 3), (2, True, 0), (4, False, 3), (8, False, 3)])
    assert rows(env, 4) == [(MID, 1, 1, 1), (LAST, 2, 0, 2), (FIRST, 0, 1, 4), (MID, 8, 1, 8)]
    assert env.episodes() == [base.Episode(0, 3.0, 2)]


def test_a_reset_forgets_the_running_game(monkeypatch):
    script = [(1, False, 3), (2, True, 0), (4, False, 3)]
    env = scripted(monkeypatch, atari.Atari("pong", max_episode_frames=8), script)
    played = [(env.reset(), *rows(env, 1))[1] for _ in range(3)]
    assert played == [(MID, 1, 1, 1), (LAST, 2, 0, 2), (MID, 4, 1, 4)] and env.episodes() == [base.Episode(0, 2.0, 1)]


def test_a_game_may_stand_at_no_lives_before_it_ends(monkeypatch):
    env = scripted(monkeypatch, atari.Atari("pong", life_loss=True), [(1, False, 0), (2, True, 0)])
    assert rows(env, 2) == [(MID, 1, 1, 1), (LAST, 2, 0, 2)]


def test_what_follows_a_truncation_in_the_emulator_does_not_count(monkeypatch):
    settings = atari.Atari("pong", max_episode_frames=5, life_loss=True)
    script = [(1, False, 3), (2, False, 3), (4, True, 0), (1, False, 2), (8, False, 2), (1, False, 3)]
    env = scripted(monkeypatch, settings, script)
    assert rows(env, 4) == [(MID, 1, 1, 1), (LAST, 2, 1, 2), (FIRST, 0, 1, 0), (LAST, 1, 0, 1)]
    assert env.episodes() == [base.Episode(0, 3.0, 2)]
    assert rows(env, 2) == [(FIRST, 0, 1, 0), (MID, 1, 1, 1)]
    assert env.episodes() == [base.Episode(0, 9.0, 2)]


def test_sticky_actions():
    compare(atari.Atari("pong", noop_max=0, repeat_action_probability=0.25, **SCREEN), steps=60)


def test_full_action_set():
    settings = atari.Atari("breakout", noop_max=0, full_action_set=True, **SCREEN)
    assert settings.spec.actions.num_values == 18
    assert atari.Atari("breakout").spec.actions.num_values == 4
    compare(settings, steps=60)


def area_weights(pixels: int, cells: int) -> np.ndarray:
    """[cells, pixels]: how much of each cell each pixel covers."""
    edges = np.arange(cells + 1) * pixels / cells
    low, high = edges[:-1, None], edges[1:, None]
    pixel = np.arange(pixels)
    return np.clip(np.minimum(high, pixel + 1) - np.maximum(low, pixel), 0, None) * cells / pixels


def test_frames_are_resized_by_area():
    screens = atari.Atari("ms_pacman", noop_max=0, **SCREEN)(1, 0).reset().observation
    frames = atari.Atari("ms_pacman", noop_max=0)(1, 0).reset().observation
    assert frames.shape == (1, 84, 84) and frames.dtype == np.uint8 and frames.std() > 10
    wanted = area_weights(210, 84) @ screens[0] @ area_weights(160, 84).T
    np.testing.assert_allclose(frames[0], wanted, atol=0.51)


def test_games_start_after_noop_max_frames_at_most():
    settings = atari.Atari("freeway", noop_max=3, **SCREEN)  # Cars move in every frame.
    screens = settings(12, 0).reset().observation
    ale = Reference(settings, 0).ale
    ale.reset_game()
    wanted = [ale.getScreenGrayscale()] + [(ale.act(0), ale.getScreenGrayscale())[1] for _ in range(3)]
    starts = {next(k for k in range(4) if np.array_equal(wanted[k], screen)) for screen in screens}
    assert starts == {0, 1, 2, 3}


@pytest.mark.parametrize("fire_reset", [False, True])
def test_fire_reset_serves_the_ball(fire_reset):
    env = atari.Atari("Breakout", fire_reset=fire_reset, life_loss=True)(1, 0)
    env.reset()
    ended = [env.step(np.zeros(1, int)).step_type[0] == base.LAST for _ in range(60)]
    assert any(ended) == fire_reset


def test_one_step_is_as_good_with_two_threads():
    streams = []
    for num_threads in (1, 2):
        env = atari.Atari("pong", num_threads=num_threads)(3, 0)
        env.reset()
        streams.append([env.step(np.full(3, t % 6)).observation for t in range(20)])
    np.testing.assert_array_equal(*streams)


def test_a_second_reset_goes_on_with_the_seed():
    env = atari.Atari("freeway")(6, 0)
    first, second = env.reset().observation, env.reset().observation
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("game", "rom"),
    [("Pong", "pong"), ("MsPacman", "ms_pacman"), ("ms_pacman", "ms_pacman"), ("TicTacToe3D", "tic_tac_toe_3d")],
)
def test_games_go_by_any_spelling(game, rom):
    assert atari.Atari(game).spec == atari.Atari(rom).spec


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"game": "Pongg"}, "game is 'Pongg', which ALE does not know; did you mean 'pong'"),
        ({"game": "ALE/Breakout-v5"}, "did you mean 'breakout'"),
        ({"game": "xyz"}, "allowed: adventure, air_raid,"),
        ({"repeat_action_probability": 1.5}, "repeat_action_probability is 1.5; allowed: 0 to 1"),
        ({"repeat_action_probability": float("nan")}, "repeat_action_probability is nan; allowed: 0 to 1"),
        ({"noop_max": -1}, "noop_max is -1; it must be at least 0"),
        ({"frame_skip": 0}, "frame_skip is 0; it must be at least 1"),
        ({"max_episode_frames": 0}, "max_episode_frames is 0; it must be at least 1"),
        ({"num_threads": 0}, "num_threads is 0; it must be at least 1"),
        ({"width": 0}, "width is 0; it must be from 1 to 1024"),
        ({"height": 10**9}, "height is 1000000000; it must be from 1 to 1024"),
    ],
)
def test_refuses_settings_that_cannot_work(settings, message):
    with pytest.raises(ValueError, match=message):
        atari.Atari(**{"game": "pong"} | settings)


def test_refuses_no_slots():
    with pytest.raises(ValueError, match="num_envs is 0; it must be at least 1"):
        atari.Atari("pong")(0, 0)


def test_refuses_an_action_that_the_game_does_not_have():
    env = atari.Atari("pong")(1, 0)
    env.reset()
    with pytest.raises(ValueError, match="action of slot 0 is 6; allowed: 0 to 5"):
        env.step(np.array([6]))


def test_says_which_rom_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="game is 'pong', which ALE knows, but there is no pong.bin in"):
        _ = atari.Atari("Pong").spec
