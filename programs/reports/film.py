"""An episode as a film: a policy plays, and the frames become a GIF or MP4."""

from __future__ import annotations

import contextlib
import pathlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import imageio.v2 as imageio_v2
import imageio.v3 as imageio
import jax
import numpy as np

from boonta.agents.views import view_of
from boonta.envs.base import BatchedEnv, Env
from boonta.envs.followed import with_open_spiel_states
from boonta.nodes.acting.local import CompiledPolicy, Play
from boonta.nodes.watch.stopwatch import Stopwatch
from boonta.programs.reports import frames as drawings

# Env steps in a second of the picture, by number of players, where an environment has no time of its own.
# People need more time for the moves of a game.
STEPS_PER_S = {1: 15.0, 2: 1.0}
FRAMES_PER_S = 30.0  # About the most frames in a second; faster environments show every second or third step.
SMALLEST_SIDE = 168  # Smaller pictures are enlarged to this many pixels, by whole factors.


def pace(batch: BatchedEnv) -> tuple[float, int]:
    """Frames in a second of an environment's picture, and env steps from one frame to the next."""
    steps_per_s = batch.steps_per_s or STEPS_PER_S[batch.spec.num_players]
    every = max(1, round(steps_per_s / FRAMES_PER_S))
    return steps_per_s / every, every


def readable(env: Env) -> Env:
    """The environment, with OpenSpiel's game beside it if it is a board game in JAX, which has no text of its own."""
    with contextlib.suppress(ValueError):
        return with_open_spiel_states(env)
    return env


Show = Callable[[np.ndarray, str], None]  # Takes a picture, or the numbers of an observation [D], and a caption.


def episode(
    policy: CompiledPolicy, batch: BatchedEnv, params: Any, max_steps: int, seed: int, show: Show, every: int = 1
) -> tuple[int, float | None]:
    """Plays one episode in an environment of one slot.

    Args:
      policy: the policy that plays.
      batch: the environment.
      params: the policy's params.
      max_steps: env steps after which the episode is cut.
      seed: seed of the policy.
      show: receives the pictures of the first step, of each that comes `every` steps after another, and of the last,
        with the number of the step and the action taken in it.
      every: see `show`.

    Returns:
      The number of env steps, and player 0's raw return, or None if the episode isn't over.
    """
    actions: list[str] = []
    play = Play(batch, policy, seed, Stopwatch())
    play.chosen = lambda action: actions.append(name_of(batch, action[0]))
    for steps in range(max_steps):
        frame = None if steps % every else frame_of(play)
        play.step(params)
        if frame is not None:
            show(frame, f"{steps}: {actions[-1]}")
        for finished in batch.episodes():
            show(frame_of(play), "end")
            return steps + 1, finished.episode_return
    show(frame_of(play), "")
    return max_steps, None


def name_of(batch: BatchedEnv, action: np.ndarray) -> str:
    """The name of the action that slot 0 is about to take, or its numbers."""
    return np.array2string(action, precision=2) if action.ndim else batch.action_name(0, int(action))


@contextlib.contextmanager
def recording(target: pathlib.Path, rate: float, streamed: bool) -> Iterator[Show]:
    """A function that takes the frames of a picture file.

    Args:
      target: the file.
      rate: frames in a second.
      streamed: whether pictures, which then have one size, are written as they come and without captions, so that a
        long film needs little memory. All others, and plots of numbers, are written together at the end.
    """
    kept: list[tuple[np.ndarray, str]] = []
    if target.suffix == ".gif":
        yield lambda frame, caption: kept.append((frame, caption))
        # A GIF has whole hundredths of a second: those of the frames differ, so that the film is as long as the play.
        lengths_ms = 10 * np.diff(np.round(100 * np.arange(len(kept) + 1) / rate))
        one_or_each = lengths_ms.tolist() if len(kept) > 1 else float(lengths_ms.sum())  # Pillow takes no list of one.
        imageio.imwrite(target, drawn(kept), duration=one_or_each, loop=0)
        return
    with warnings.catch_warnings(), imageio_v2.get_writer(target, fps=rate) as film:
        # JAX warns of the fork that starts ffmpeg; that process only executes ffmpeg, and takes none of JAX's locks.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)

        def show(frame: np.ndarray, caption: str) -> None:
            if streamed and frame.ndim > 1:
                film.append_data(picture(frame))  # type: ignore[attr-defined]
            else:
                kept.append((frame, caption))

        yield show
        for frame in drawn(kept):
            film.append_data(frame)  # type: ignore[attr-defined]


def drawn(kept: Sequence[tuple[np.ndarray, str]]) -> list[np.ndarray]:
    """Pictures of one size with their captions; numbers are plotted over the whole episode."""
    if not kept:
        return []
    frames, captions = zip(*kept)
    pictures = drawings.vectors(frames) if frames[0].ndim == 1 else [picture(frame) for frame in frames]
    return [drawings.captioned(*each) for each in zip(drawings.alike(pictures), captions)]


def frame_of(play: Play) -> np.ndarray:
    """The environment's own picture of this time step, or its text as a picture, or what the network sees.

    Of that it is the first leaf that is a picture; without one, the numbers of all leaves.
    """
    text = play.env.text(0)
    if text is not None:
        return drawings.position(text)
    own = play.env.render()
    if own is not None:
        return own[0]
    leaves = [np.asarray(leaf[0]) for leaf in jax.tree.leaves(view_of(play.timestep.observation))]
    pictures = [leaf for leaf in leaves if leaf.ndim > 1]
    return pictures[0] if pictures else np.concatenate([leaf.ravel() for leaf in leaves])


def plotted_leaves(env: BatchedEnv) -> str | None:
    """The paths of the leaves whose numbers are plotted, such as "['place'], ['speed']"; None if pictures are drawn."""
    named = jax.tree_util.tree_leaves_with_path(view_of(env.spec.observations))
    drawn = env.text(0) is not None or env.render() is not None or any(len(leaf.shape) > 1 for _, leaf in named)
    return None if drawn else ", ".join(jax.tree_util.keystr(path) for path, _ in named)


def picture(frame: np.ndarray) -> np.ndarray:
    """Converts a frame to uint8 RGB [H, W, 3], large enough to see; a flat one becomes a row of pixels."""
    frame = np.atleast_2d(frame)
    if frame.ndim == 3 and frame.shape[2] != 3:
        frame = frame.max(axis=2)
    if frame.dtype != np.uint8:
        low, high = float(frame.min()), float(frame.max())
        frame = (255 * (frame - low) / max(high - low, 1e-9)).astype(np.uint8)
    if frame.ndim == 2:
        frame = np.repeat(frame[:, :, None], 3, axis=2)
    factor = max(1, -(-SMALLEST_SIDE // min(frame.shape[:2])))
    return np.repeat(np.repeat(frame, factor, axis=0), factor, axis=1)
