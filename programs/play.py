"""Plays a run's agent and draws a GIF or MP4: `./run python -m programs.play --workdir runs/impala_atari-Pong`."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
from typing import Any

import imageio.v3 as imageio
import jax
import numpy as np
import tyro

from agents.base import Agent
from envs.base import Env
from nodes.checkpoint import Checkpointer
from nodes.play import Play, jit_policy
from nodes.stopwatch import Stopwatch
from programs.launch import BadInput, parse

STEPS_PER_S = 15
WRITER_OPTIONS: dict[str, dict[str, Any]] = {
    ".gif": {"duration": 1000 / STEPS_PER_S, "loop": 0},
    ".mp4": {"fps": STEPS_PER_S},
}
SMALLEST_SIDE = 168  # pixels; smaller pictures are enlarged to it by whole factors


def play(workdir: pathlib.Path, out: pathlib.Path | None = None, max_steps: int = 5_000, seed: int = 0) -> None:
    """Plays one episode with the newest checkpoint's params and writes what the agent saw.

    Args:
      workdir: the run's folder.
      out: picture file, .gif or .mp4 by its ending; default: play.gif in the run's folder.
      max_steps: env steps after which the picture ends even if the episode does not.
      seed: of the environment and the policy.
    """
    target = out or workdir / "play.gif"
    if target.suffix not in WRITER_OPTIONS:
        raise BadInput(f"--out {target} must end in .gif or .mp4")
    agent, env = agent_and_env(workdir)
    frames, total = episode(agent, env, newest_params(agent, workdir), max_steps, seed)
    imageio.imwrite(target, [picture(frame) for frame in frames], **WRITER_OPTIONS[target.suffix])
    print(f"return {total:g} in {len(frames)} env steps: {target}")


def agent_and_env(workdir: pathlib.Path) -> tuple[Agent, Env]:
    """The agent and environment of a run's evaluator, from the program and arguments the run was started with."""
    try:
        config = json.loads((workdir / "config.json").read_text())
    except OSError as error:
        raise BadInput(f"--workdir {workdir} holds no run: {error.strerror}") from error
    found = importlib.util.spec_from_file_location("program_of_run", config["file"])
    if found is None or found.loader is None or not pathlib.Path(config["file"]).exists():
        raise BadInput(f"the run's program file {config['file']} is gone")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # as an import would: dataclasses look their module up
    found.loader.exec_module(module)
    program_function = getattr(module, config["function"])
    run, settings = parse(program_function, config["arguments"])
    program = program_function(run, **settings)
    evaluator = program.groups["evaluator"][0]
    return evaluator._args[1], evaluator._args[2]


def newest_params(agent: Agent, workdir: pathlib.Path) -> Any:
    """The acting params of the run's newest checkpoint."""
    folder = workdir / "checkpoints"
    checkpointer = Checkpointer(folder) if folder.exists() else None  # which would make it
    if checkpointer is None or checkpointer.latest() is None:
        raise BadInput(f"--workdir {workdir} has no checkpoint yet")
    restored, _ = checkpointer.restore(jax.jit(agent.update.init)(jax.random.PRNGKey(0)))
    return agent.update.params(restored)


def episode(agent: Agent, env: Env, params: Any, max_steps: int, seed: int) -> tuple[list[np.ndarray], float]:
    """Plays one episode; what the agent saw, and the raw return."""
    player = Play(env(1, seed), agent.eval_policy, jit_policy(agent.eval_policy), seed, Stopwatch())
    frames: list[np.ndarray] = []
    total = 0.0
    while len(frames) < max_steps:
        timestep, _, _ = player.step(params)
        frames.append(np.asarray(timestep.observation)[0])
        total += float(timestep.reward[0])
        if player.env.episodes():  # the step that was just taken ended the game
            final, _, _ = player.step(params)
            frames.append(np.asarray(final.observation)[0])
            return frames, total + float(final.reward[0])
    return frames, total


def picture(frame: np.ndarray) -> np.ndarray:
    """An observation as uint8 RGB [H, W, 3] large enough to see; flat observations become a row of pixels."""
    frame = np.atleast_2d(frame)
    if frame.dtype != np.uint8:
        low, high = float(frame.min()), float(frame.max())
        frame = (255 * (frame - low) / max(high - low, 1e-9)).astype(np.uint8)
    if frame.ndim == 2:
        frame = np.repeat(frame[:, :, None], 3, axis=2)
    factor = max(1, -(-SMALLEST_SIDE // min(frame.shape[:2])))
    return np.repeat(np.repeat(frame[:, :, :3], factor, axis=0), factor, axis=1)


def main() -> None:
    """The command line of `play`."""
    try:
        tyro.cli(play)
    except (BadInput, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
