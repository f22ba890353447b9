"""Plays a run's agent and draws a GIF or MP4.

./run boonta play runs/impala_atari-Pong
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import pathlib
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import imageio.v2 as imageio_v2
import imageio.v3 as imageio
import jax
import numpy as np
import tyro

from boonta.agents.base import Agent
from boonta.envs.base import BatchedEnv, Env
from boonta.envs.followed import with_open_spiel_states
from boonta.nodes.acting.local import Act, Play, jit_policy
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.metrics import Stopwatch
from boonta.nodes.snapshots.schema import checked
from boonta.programs.reports import frames as drawings
from boonta.programs.wiring.command_line.arguments import load, parse
from boonta.programs.wiring.command_line.faults import command
from boonta.programs.wiring.program import ProgramFunction
from boonta.programs.wiring.run import BadInput, Run, Which, checkpoints_of
from boonta.programs.wiring.run_folder.config_file import Config, checkpointed

# Env steps in a second of the picture, by number of players, where an environment has no time of its own.
# People need more time for the moves of a game.
STEPS_PER_S = {1: 15.0, 2: 1.0}
FRAMES_PER_S = 30.0  # About the most frames in a second; faster environments show every second or third step.
ENDINGS = (".gif", ".mp4")
SMALLEST_SIDE = 168  # Smaller pictures are enlarged to this many pixels, by whole factors.


def play(
    workdir: tyro.conf.Positional[pathlib.Path],
    out: pathlib.Path | None = None,
    which: Which = "newest",
    max_steps: int = 5_000,
    seed: int = 0,
) -> None:
    """Plays one episode with a checkpoint's params, both sides of a game of two, and draws it.

    Args:
      workdir: the run's folder.
      which: the checkpoint, the newest or the one with the best evaluation.
      out: picture file, .gif or .mp4 by its ending; default: play.gif in the run's folder.
      max_steps: env steps after which the picture ends even if the episode does not.
      seed: seed of the environment and the policy.
    """
    target = out or workdir / "play.gif"
    if target.suffix not in ENDINGS:
        raise BadInput(f"--out {target} must end in .gif or .mp4")
    agent, env = agent_and_env(workdir)
    params = params_of(agent, workdir, which)
    alone = env.spec.num_players == 1
    with contextlib.closing(readable(env)(1, seed)) as batch:
        rate, every = pace(batch)
        with recording(target, rate, streamed=alone and target.suffix == ".mp4") as show:
            steps, total = episode(agent, batch, params, max_steps, seed, show, every)
        plotted = plotted_leaf(batch)
    outcome = "not over" if total is None else f"return {total:g}"
    print(f"{outcome} in {steps} env steps: {target}")
    if plotted is not None:
        print(f"drawn are the numbers of the observation{plotted}: the environment has no picture of its own")


def pace(batch: BatchedEnv) -> tuple[float, int]:
    """Frames in a second of an environment's picture, and env steps from one frame to the next."""
    steps_per_s = batch.steps_per_s or STEPS_PER_S[batch.spec.num_players]
    every = max(1, round(steps_per_s / FRAMES_PER_S))
    return steps_per_s / every, every


def agent_and_env(workdir: pathlib.Path, simulations: int | None = None) -> tuple[Agent, Env]:
    """The agent and environment of a run, from the program and arguments that it was started with.

    Args:
      workdir: the run's folder.
      simulations: simulations per search of the evaluation policy; None takes as many as in the run's own evaluations.
    """
    function, run, settings = program_of(workdir)
    if simulations is not None:
        searches = {name: value for name, value in settings.items() if hasattr(value, "eval_simulations")}
        if not searches:
            raise BadInput(f"--simulations is {simulations}, but the agent of {workdir} does not search")
        settings |= {k: dataclasses.replace(value, eval_simulations=simulations) for k, value in searches.items()}
    program = function(run=run, **settings)
    return program.agent, program.env


def program_of(workdir: pathlib.Path, config: Config | None = None) -> tuple[ProgramFunction, Run, dict[str, Any]]:
    """A run's program function, and the run and settings that it was called with.

    Args:
      workdir: the run's folder.
      config: the start that is meant; default: the one that made the newest checkpoint.

    Raises:
      BadInput: the folder holds no run, or one that the program's file can no longer make.
    """
    config = config or checkpointed(workdir)
    function = getattr(load(config.program_file), config.function, None)
    if not inspect.isfunction(function):
        raise BadInput(f"{workdir} is of {config.program_file}, which has no function {config.function!r}")
    try:
        run, settings = parse(function, config.arguments)
        hints = inspect.get_annotations(function, eval_str=True)
        return function, run, settings | as_recorded(settings, config.settings, hints)
    except (KeyError, TypeError, ValueError, SystemExit) as error:  # Tyro exits where it can't parse the arguments.
        raise BadInput(f"{workdir} was made with settings that the program no longer has: {error}") from error


def as_recorded(settings: Mapping[str, Any], recorded: dict[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run, from its config.json; the program's defaults may have changed since.

    Args:
      settings: the program's settings now.
      recorded: those in config.json.
      hints: the settings' types.

    Raises:
      KeyError: the program has no such setting.
      TypeError, ValueError: a setting has another type.
    """
    values = {}
    for name, value in recorded.items():
        now = settings[name]
        if dataclasses.is_dataclass(now) and not isinstance(now, type):
            if not isinstance(value, dict):
                raise TypeError(f"{name} is {value!r}; it must have fields")
            values[name] = dataclasses.replace(now, **as_recorded(vars(now), value, typing.get_type_hints(type(now))))
        else:  # A user's own environment, which is callable, is made from its name alone.
            values[name] = now if callable(now) else checked(hints[name], value)
    return values


def params_of(agent: Agent, workdir: pathlib.Path, which: Which = "newest") -> Any:
    """The acting params of a run's newest sound checkpoint, or of the one with the best evaluation."""
    return restored(agent, workdir, which)[0]


def restored(agent: Agent, workdir: pathlib.Path, which: Which) -> tuple[Any, dict[str, float]]:
    """The acting params of a run's checkpoint, and the program's counters then.

    Raises:
      BadInput: there is none.
      ValueError: none is sound, or it doesn't fit the agent.
    """
    checkpointer = Checkpointer(checkpoints_of(workdir, which))
    try:
        state, counts = checkpointer.restore(jax.jit(agent.update.init)(jax.random.PRNGKey(0)))
    except FileNotFoundError:
        why = ", since no evaluation was made: leave --which out" if which == "best" else ""
        raise BadInput(f"{workdir} has no {which} checkpoint yet{why}") from None
    return agent.update.params(state), counts


def readable(env: Env) -> Env:
    """The environment, with OpenSpiel's game beside it if it is a board game in JAX, which has no text of its own."""
    with contextlib.suppress(ValueError):
        return with_open_spiel_states(env)
    return env


Show = Callable[[np.ndarray, str], None]  # Takes a picture, or the numbers of an observation [D], and a caption.


def episode(
    agent: Agent,
    batch: BatchedEnv,
    params: Any,
    max_steps: int,
    seed: int,
    show: Show,
    every: int = 1,
    act: Act | None = None,
) -> tuple[int, float | None]:
    """Plays one episode in an environment of one slot.

    Args:
      agent: its evaluation policy plays.
      batch: the environment.
      params: the policy's params.
      max_steps: env steps after which the episode is cut.
      seed: seed of the policy.
      show: receives the pictures of the first step, of each that comes `every` steps after another, and of the last,
        with the number of the step and the action taken in it.
      every: see `show`.
      act: the evaluation policy from `jit_policy`, if it is compiled already.

    Returns:
      The number of env steps, and player 0's raw return, or None if the episode isn't over.
    """
    actions: list[str] = []
    play = Play(batch, agent.eval_policy, act or jit_policy(agent.eval_policy), seed, Stopwatch())
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
        imageio.imwrite(target, drawn(kept), duration=1000 / rate, loop=0)
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
    """The environment's own picture of this time step, its text as a picture, or else the observation's first leaf."""
    text = play.env.text(0)
    if text is not None:
        return drawings.position(text)
    own = play.env.render()
    return (jax.tree.leaves(play.timestep.observation)[0] if own is None else own)[0]


def plotted_leaf(env: BatchedEnv) -> str | None:
    """The path of the observation's leaf whose numbers are plotted, such as "['speed']"; None if pictures are drawn."""
    path, leaf = jax.tree_util.tree_flatten_with_path(env.spec.observations)[0][0]
    drawn = env.text(0) is not None or env.render() is not None or len(leaf.shape) > 1
    return None if drawn else jax.tree_util.keystr(path)


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


def main() -> None:
    """The command line of `play`."""
    command(play, ValueError, OSError)


if __name__ == "__main__":
    main()
