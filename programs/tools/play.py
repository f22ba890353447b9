"""Plays a run's agent and draws a GIF or MP4.

./run boonta play runs/impala_atari-Pong
"""

from __future__ import annotations

import contextlib
import functools
import pathlib

import tyro

from boonta.nodes.acting.local import jit_policy
from boonta.programs.reports import film
from boonta.programs.wiring.command_line.faults import command, require_at_least, writing
from boonta.programs.wiring.run import BadInput, Which
from boonta.programs.wiring.trained import agent_and_env, params_of

ENDINGS = (".gif", ".mp4")


def play(
    workdir: tyro.conf.Positional[pathlib.Path],
    out: pathlib.Path | None = None,
    which: Which = "newest",
    member: int | None = None,
    max_steps: int = 5_000,
    seed: int = 0,
) -> None:
    """Plays one episode with a checkpoint's params, both sides of a game of two, and draws it.

    Args:
      workdir: the run's folder.
      which: the checkpoint: newest, best (by evaluations), or one by its number of updates.
      member: a member of a population, by its number; default: the one that was the best.
      out: picture file, .gif or .mp4 by its ending; default: play.gif in the run's folder.
      max_steps: env steps after which the picture ends even if the episode does not.
      seed: seed of the environment and the policy.
    """
    require_at_least(1, max_steps=max_steps)
    target = out or workdir / "play.gif"
    if target.suffix not in ENDINGS:
        raise BadInput(f"--out {target} must end in .gif or .mp4")
    agent, env = agent_and_env(workdir, which, member)
    params = params_of(agent, workdir, which, member)
    _require_writable(target)
    alone = env.spec.num_players == 1
    with contextlib.closing(film.readable(env)(1, seed)) as batch:
        rate, every = film.pace(batch)
        with film.recording(target, rate, streamed=alone and target.suffix == ".mp4") as show:
            steps, total = film.episode(jit_policy(agent.eval_policy), batch, params, max_steps, seed, show, every)
        plotted = film.plotted_leaves(batch)
    outcome = "not over" if total is None else f"return {total:g}"
    print(f"{outcome} in {steps} env steps: {target}")
    if plotted is not None:
        print(f"drawn are the numbers of the observation{plotted}: the environment has no picture of its own")


def _require_writable(target: pathlib.Path) -> None:
    """Refuses a file that can't be written, before an episode is played; imageio and ffmpeg name no such file."""
    with writing(target):
        is_new = not target.exists()
        target.open("ab").close()
        if is_new:
            target.unlink()


main = functools.partial(command, play, ValueError, OSError)
