"""Records videos of a run while it goes on: an episode of each new checkpoint, as a GIF in `videos/` in its folder.

It is a process beside the run, as a tracker's is, and needs nothing of the run but its folder. So every way of running
has videos, and none is slower for them but by the cores that they take; `--videos` starts it.

    python -m boonta.programs.reports.videos runs/impala-catch
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import threading
import time

from boonta.agents.base import Agent
from boonta.envs.base import Env
from boonta.nodes.acting.local import CompiledPolicy, jit_policy
from boonta.nodes.metrics import step_of
from boonta.nodes.sinks.base import TENSORBOARD, VIDEOS, TrackedRun, video_at
from boonta.nodes.sinks.files import TensorBoard
from boonta.nodes.watch.ending import end_now
from boonta.programs.reports import film
from boonta.programs.wiring.run import BadInput, checkpoints_of, newest_checkpoint
from boonta.programs.wiring.trained import program_of, restored

POLL_S = 1.0
MOST_STEPS = 600  # Env steps of a video: 40 s of play, and a few megabytes at most.
TRIES = 3  # Tries to record a checkpoint, since it may be taken away while it is read.
NICENESS = 10  # The run's own processes go first.


class Recorder:
    """Records the newest checkpoint of a run, once each.

    Args:
      folder: the run's folder; the run may still be starting.
    """

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._made: tuple[Agent, Env, CompiledPolicy] | None = None
        self._tensorboard: TensorBoard | None = None
        self._newest = 0  # The number of updates of the newest checkpoint that has been looked at.
        self.tries = 0  # How often it may still be tried.

    def look(self) -> None:
        """Records the newest checkpoint, if there is one that has no video yet.

        Raises:
          BadInput, OSError, ValueError: it can't be read, or its program can't be made. As long as `tries` are left,
            the next look tries it again.
        """
        number = newest_checkpoint(checkpoints_of(self._folder, "newest"))
        if number > self._newest:
            self._newest, self.tries = number, TRIES
        if self.tries:
            self.tries -= 1
            self._record()
            self.tries = 0

    def close(self) -> None:
        """Closes TensorBoard's file."""
        if self._tensorboard is not None:
            self._tensorboard.close()

    def _record(self) -> None:
        if self._made is None:
            self._made = self._make()
        agent, env, policy = self._made
        params, counts = restored(agent, self._folder, "newest")
        (_, step), seed = step_of(counts), int(counts.get("updates", 0))
        video = video_at(self._folder, step)
        if video.exists():  # From before the run was resumed.
            return
        video.parent.mkdir(exist_ok=True)
        part = video.with_name(f".part{video.suffix}")
        with contextlib.closing(film.readable(env)(1, seed)) as batch:
            rate, every = film.pace(batch)
            with film.recording(part, rate, streamed=False) as show:
                film.episode(policy, batch, params, MOST_STEPS, seed, show, every)
        part.rename(video)  # Trackers only see whole files.
        if self._tensorboard is not None:
            self._tensorboard.video(video, step)

    def _make(self) -> tuple[Agent, Env, CompiledPolicy]:
        program = program_of(self._folder)
        if TENSORBOARD in program.run.log:
            self._tensorboard = TensorBoard(lambda warning: print(warning, flush=True))
            self._tensorboard.begin(TrackedRun(self._folder))
        return program.agent, program.env, jit_policy(program.agent.eval_policy)


def record_beside(folder: pathlib.Path) -> None:
    """Records until standard input ends, as a launcher's does with the run, and then the last checkpoint.

    A launcher shows each line of the output as a warning. A failure is told once.
    """
    os.nice(NICENESS)
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    recorder, told = Recorder(folder), ""
    while True:
        last = ended.wait(POLL_S)
        if recorder.tries:  # What could not be read may take a moment.
            time.sleep(POLL_S)
        try:
            recorder.look()
        except (BadInput, OSError, ValueError) as error:
            message = f"{VIDEOS}: {type(error).__name__}: {error}".splitlines()[0]
            if type(error).__name__ != told:
                print(message, flush=True)
            told = type(error).__name__
        if last and not recorder.tries:
            break
    recorder.close()


if __name__ == "__main__":
    record_beside(pathlib.Path(sys.argv[1]))
    end_now(0)
