"""Checks that an environment keeps the contract of `envs.base`; use it for your own environments, too.

    conformance.check(MyEnv(size=3))  # Or MyJaxEnv(size=3).

All environments here pass it. It follows the API test of "Pgx" (https://arxiv.org/abs/2303.17503).

Glossary of shapes: B batch (environment slots stepped together), T time.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import warnings
from typing import NamedTuple

import numpy as np
import tree
from dm_env import specs

from boonta.envs import base
from boonta.envs.actions import beyond_bounds, other_actions, random_actions
from boonta.envs.jax.base import JaxEnv
from boonta.envs.jax.purity import check_pure
from boonta.envs.spec_check import ConformanceError, check_spec, misfit, name_of

CLIPPED_STEPS = 20  # Steps played with actions beyond their bounds, and again with the bounds.


class _Play(NamedTuple):
    """A recording of an environment, with one entry for each reset or step."""

    steps: list[base.TimeStep]
    episodes: list[list[base.Episode]]


def check(
    env: base.Env | JaxEnv,
    num_envs: int = 3,
    steps: int = 200,
    seed: int = 0,
    lives: bool = False,
    endless: bool = False,
    apart: bool = True,
) -> None:
    """Plays random actions, legal ones where the observation gives them, and asserts every rule of the contract.

    The environment is played several times and the recordings are compared: a first play, an identical one, one with
    other actions in the first slot, one with other actions in all slots but the first, one with other actions on LAST,
    and, if they are real numbers, one with actions beyond their bounds.

    Args:
      env: the factory to check, or an environment in JAX, which must be pure, too.
      num_envs: number of slots; with a single slot the check can't compare slots for independence.
      steps: steps of each play; the environment is reset after a quarter of them, and two steps later. Some
        episodes should end within them: otherwise the rules on ends can't be checked, which a warning reports.
      seed: seed of the environment and of the actions.
      lives: whether games may go on after LAST, as in `Atari(life_loss=True)`. The steps then don't determine what
        `episodes()` must return; the check only limits the number of episodes.
      apart: whether no slot depends on another, which isn't so where a vectorised environment draws the starts of all
        episodes from one generator.
      endless: whether no step may be LAST, as in `envs.continuing`; a game's return is then what its slot earned.

    Raises:
      ConformanceError: a rule is broken.
      ValueError: an environment in JAX isn't pure.
    """
    if isinstance(env, JaxEnv):
        check_pure(env)
    check_spec(env)
    _check_pickle(env)
    _check_batch(env, num_envs, seed)

    actions = random_actions(env.spec.actions, (steps, num_envs), np.random.default_rng(seed))  # [T, B, ...]
    others = other_actions(env.spec.actions, actions)
    play = _play(env, seed, actions)
    for t, timestep in enumerate(play.steps):
        _check_ends(None if t in _resets(steps) else play.steps[t - 1], timestep, env.spec.num_players, t)
    _check_metrics(play)
    if endless:
        _check_games(play)
    else:
        _check_episodes(play, lives, env.spec.num_players)

    def check_same(changed: np.ndarray, slots: np.ndarray, rule: str) -> None:
        """Plays with the other actions where changed [T, B], and compares the recordings in slots [B]."""
        changed = changed.reshape(changed.shape + (1,) * (actions.ndim - changed.ndim))
        _compare(play, _play(env, seed, np.where(changed, others, actions)), slots, rule)

    every, first = np.ones(num_envs, bool), np.arange(num_envs) == 0
    last = np.stack([timestep.step_type == base.LAST for timestep in play.steps[:-1]])  # [T, B]
    check_same(np.zeros_like(last), every, "the same seed and actions give the same steps")
    if apart:
        alone = "no slot depends on the actions of another"
        check_same(np.broadcast_to(first, last.shape), ~first, alone)
        check_same(np.broadcast_to(~first, last.shape), first, alone)
    if np.issubdtype(env.spec.actions.dtype, np.floating):
        within, beyond = beyond_bounds(env.spec.actions, actions[:CLIPPED_STEPS])
        clipped = "a real action beyond its bounds is the same as the bound"
        _compare(_play(env, seed, within), _play(env, seed, beyond), every, clipped)
    if last.any():
        check_same(last, every, "the action on LAST is ignored")
    elif not endless:
        warnings.warn(f"no episode ended in {steps} steps: the rules on ends went unchecked", stacklevel=2)


def _resets(steps: int) -> set[int]:
    """Indices of the entries that come from `reset()`: the first, and two so close that one cuts episodes short."""
    return {0, steps // 4, steps // 4 + 2}


def _play(env: base.Env, seed: int, actions: np.ndarray) -> _Play:
    """Plays the actions [T, B, ...]; checks the values of every step, and that no step overwrites earlier arrays."""
    steps, num_envs = actions.shape[:2]
    batch = env(num_envs, seed)
    play = _Play([], [])
    given: list[base.TimeStep] = []
    try:
        for t in range(steps + 1):
            given.append(batch.reset() if t in _resets(steps) else batch.step(_legal(actions[t - 1], given[-1])))
            _check_values(env.spec, given[-1], num_envs, t)
            play.steps.append(tree.map_structure(np.array, given[-1]))
            play.episodes.append(list(batch.episodes()))
    finally:
        batch.close()
    _compare(_Play(given, []), play, np.ones(num_envs, bool), "no step writes into arrays that were given before")
    return play


def _compare(play: _Play, other: _Play, slots: np.ndarray, rule: str) -> None:
    """Asserts that two plays are equal in the slots where `slots` [B] is True."""
    for t, (one, two) in enumerate(zip(play.steps, other.steps)):
        for (path, a), b in zip(tree.flatten_with_path(one), tree.flatten(two)):
            differs = slots & np.any(np.reshape(a != b, (len(slots), -1)), axis=1)  # [B]
            if differs.any():
                raise ConformanceError(rule, f"{name_of(path)} differs", int(np.argmax(differs)), t)


def _check_pickle(env: base.Env) -> None:
    """Asserts that the factory can be sent to another process."""
    rule = "the factory can be pickled, and its spec stays the same"
    try:
        spec = pickle.loads(pickle.dumps(env)).spec
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConformanceError(rule, f"{type(error).__name__}: {error}") from error
    if spec != env.spec:
        raise ConformanceError(rule, f"{spec} instead of {env.spec}")


def _check_batch(env: base.Env, num_envs: int, seed: int) -> None:
    """Asserts that the factory makes the batch asked for, and that `step` refuses actions for one slot too many."""
    with contextlib.closing(env(num_envs, seed)) as batch:
        if batch.num_envs != num_envs:
            raise ConformanceError("the batch has as many slots as asked for", f"{batch.num_envs}, not {num_envs}")
        if batch.spec != env.spec:
            raise ConformanceError("the batch has the factory's spec", repr(batch.spec))
        batch.reset()
        picture = batch.render()
        if picture is not None and (picture.dtype != np.uint8 or picture.shape != (num_envs, *picture.shape[1:3], 3)):
            raise ConformanceError("render() gives uint8 [B, H, W, 3]", f"{picture.dtype} {list(picture.shape)}")
        rule = "step() refuses an action of the wrong shape with a ValueError"
        try:
            batch.step(random_actions(env.spec.actions, (num_envs + 1,), np.random.default_rng(seed)))
        except ValueError:
            return
        except Exception as error:
            raise ConformanceError(rule, repr(error)) from error
        raise ConformanceError(rule, f"{num_envs + 1} actions passed for {num_envs} slots")


def _check_values(spec: base.EnvSpec, timestep: base.TimeStep, num_envs: int, t: int) -> None:
    """Asserts the structure, shape, dtype and range of every array of a step."""
    wanted = spec.timestep
    try:
        tree.assert_same_structure(wanted, timestep)
    except (TypeError, ValueError) as error:
        raise ConformanceError("a step has the structure of the spec", misfit(wanted, timestep), step=t) from error
    for (path, leaf), value in zip(tree.flatten_with_path(wanted), tree.flatten(timestep)):
        name, shape = name_of(path), (num_envs, *leaf.shape)
        if not isinstance(value, np.ndarray):
            raise ConformanceError(f"{name} is a numpy array", type(value).__name__, step=t)
        if value.shape != shape:
            raise ConformanceError(f"{name} has shape {shape}", f"shape {value.shape}", step=t)
        if value.dtype != leaf.dtype:
            raise ConformanceError(f"{name} has dtype {leaf.dtype}", f"dtype {value.dtype}", step=t)
        bad, rule = np.isnan(value), f"{name} is never nan"
        if isinstance(leaf, specs.BoundedArray):
            bad, rule = ~((value >= leaf.minimum) & (value <= leaf.maximum)), f"{name} is within its spec's bounds"
        if bad.any():
            slot, *place = at = tuple(np.argwhere(bad)[0])
            if isinstance(leaf, specs.BoundedArray):
                low, high = (np.broadcast_to(bound, leaf.shape)[tuple(place)] for bound in (leaf.minimum, leaf.maximum))
                rule += f", from {low} to {high}"
            raise ConformanceError(rule, str(value[at]), int(slot), t)


def _check_ends(previous: base.TimeStep | None, timestep: base.TimeStep, num_players: int, t: int) -> None:
    """Asserts the order of step types and of players; `previous` is None after `reset()`."""
    first = timestep.step_type == base.FIRST
    wanted = np.ones_like(first) if previous is None else previous.step_type == base.LAST
    rules = [
        ("the step after LAST and after reset() is FIRST", wanted & ~first),
        ("FIRST comes after LAST and after reset() only", first & ~wanted),
        ("the reward on FIRST is 0", first & (timestep.reward != 0)),
        ("the discount on FIRST is 1", first & (timestep.discount != 1)),
    ]
    if isinstance(timestep.observation, base.BoardView):
        _, legal, player = timestep.observation
        turn = player if previous is None else num_players - 1 - previous.observation.player
        rules += [
            ("every action is legal on LAST", (timestep.step_type == base.LAST) & ~legal.all(axis=-1)),
            ("the players of an episode take turns", ~first & (player != turn)),
        ]
    for rule, broken in rules:
        if broken.any():
            slot = int(np.argmax(broken))
            seen = [int(timestep.step_type[slot]), float(timestep.reward[slot]), float(timestep.discount[slot])]
            raise ConformanceError(rule, f"step type, reward, discount {seen}", slot, t)


def _check_episodes(play: _Play, lives: bool, num_players: int) -> None:
    """Asserts that `episodes()` returns each episode once, as it ends, with the return and length of its steps."""
    tracker = base.EpisodeTracker(len(play.steps[0].step_type))
    wanted = []
    for timestep in play.steps:
        first, last = timestep.step_type == base.FIRST, timestep.step_type == base.LAST
        tracker.update(base.reward_of_player_0(timestep, num_players), first, last)
        wanted.append(tracker.take())
    if lives:
        games, ends = (sum(map(len, episodes)) for episodes in (play.episodes, wanted))
        if games > ends:
            raise ConformanceError("episodes() gives no more games than there are LAST steps", f"{games} over {ends}")
        return
    for t, (given, want) in enumerate(zip(play.episodes, wanted)):
        same = len(given) == len(want) and all(
            (a.slot, a.env_steps) == (b.slot, b.env_steps) and np.isclose(a.episode_return, b.episode_return, rtol=1e-4)
            for a, b in zip(sorted(given, key=lambda episode: episode[:3]), want)
        )
        if not same:
            raise ConformanceError("episodes() gives each episode as it ends", f"{given} instead of {want}", step=t)


def _check_metrics(play: _Play) -> None:
    """Asserts that all episodes have numbers of the same names, and that these numbers are finite."""
    names: list[str] | None = None
    for t, episodes in enumerate(play.episodes):
        for episode in episodes:
            given = dict(episode.metrics)
            for name, value in given.items():
                seen = f"{name!r}: {value!r}"
                if not isinstance(name, str):
                    raise ConformanceError("the names of an episode's metrics are strings", seen, episode.slot, t)
                if not isinstance(value, float) or not math.isfinite(value):
                    raise ConformanceError("an episode's metrics are finite floats", seen, episode.slot, t)
            names = sorted(given) if names is None else names
            if sorted(given) != names:
                differ = f"{sorted(given)} after {names}"
                raise ConformanceError("all episodes have the same metrics", differ, episode.slot, t)


def _check_games(play: _Play) -> None:
    """Asserts that no step is LAST, and that the return of each game is what its slot earned in it."""
    earned = np.zeros(len(play.steps[0].reward))  # [B]
    for t, timestep in enumerate(play.steps):
        if base.LAST in timestep.step_type:
            raise ConformanceError("an endless stream has no LAST", "one", list(timestep.step_type).index(base.LAST), t)
        earned = np.where(timestep.step_type == base.FIRST, 0.0, earned + timestep.reward)
        for game in play.episodes[t]:
            if not np.isclose(game.episode_return, earned[game.slot], rtol=1e-4):
                raise ConformanceError(
                    "a game returns what it earned", f"{game}, not {earned[game.slot]}", game.slot, t
                )
            earned[game.slot] = 0.0


def _legal(actions: np.ndarray, timestep: base.TimeStep) -> np.ndarray:
    """Returns the actions [B, ...] themselves, or, for a `BoardView`, the legal actions that they index."""
    if not isinstance(timestep.observation, base.BoardView):
        return actions
    choices = [np.flatnonzero(legal) for legal in timestep.observation.legal]
    if not all(map(len, choices)):
        raise ConformanceError("some action is always legal", "none", list(map(len, choices)).index(0))
    return np.array([choice[a % len(choice)] for choice, a in zip(choices, actions)], actions.dtype)
