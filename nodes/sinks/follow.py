"""Sends the rows of a run to a tracker: a process beside the run, which reads `metrics.jsonl` as it grows.

A tracker that hangs or crashes can neither delay nor end the run. The process is outside of the program's private
network (`programs.wiring.machine.network`), which reaches no tracker. The run's folder has the number of rows that
were sent, and the tracker's id of the run, so that a process that starts again goes on from there.

This command sends the rows that a tracker has not got, after the run has ended:

    python -m boonta.nodes.sinks.follow runs/impala-catch wandb
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import re
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pydantic

from boonta.nodes import metrics
from boonta.nodes.sinks.base import Sink, TrackedRun, make, videos_of
from boonta.nodes.snapshots import files, schema
from boonta.nodes.watch.ending import end_now

MODULE = "boonta.nodes.sinks.follow"
FOLDER = "trackers"  # A subfolder of the run's folder.
LAUNCHED = "--launched"  # The flag of a launcher, which reads messages from standard output; input ends with the run.
END_S = 10.0  # Time after the run's end to send the rest.
POLL_S = 0.5
RETRY_S, LONGEST_RETRY_S = 1.0, 60.0  # The first wait after a failure, and the longest.
TRIES = 3  # A row or video is left out after a tracker has refused it this many times.


@dataclasses.dataclass
class Sent:
    """The content of a tracker's file in the run's folder.

    Attributes:
      id: the id of the run there.
      rows: the number of well-formed rows of `metrics.jsonl` that the tracker has taken.
      videos: the names of the videos that it has taken.
    """

    id: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{32}$")]
    rows: Annotated[int, pydantic.Field(ge=0)] = 0
    videos: list[str] = dataclasses.field(default_factory=list)


SENT = pydantic.TypeAdapter(Sent)


class Follower:
    """Sends a run's rows and videos to one tracker: each once, or twice where a kill came before it was noted.

    Args:
      folder: the run's folder.
      name: the tracker's name, as `--log` gives it.
      ended: an event that is set when no further rows come.
      report: called with a message for the user, at the first failure only.
    """

    def __init__(self, folder: pathlib.Path, name: str, ended: threading.Event, report: Callable[[str], None]):
        self.folder, self.name = folder, name
        self._ended = ended
        self._report = report
        self._has_reported = False
        self._sink: Sink | None = None
        own = re.sub(r"[^\w.-]", "-", name)
        self.file, self.lock = folder / FOLDER / f"{own}.json", folder / FOLDER / f"{own}.lock"
        self.output = folder / FOLDER / f"{own}.log"

    def run(self) -> bool:
        """Sends rows until the run has ended; returns whether all are sent."""
        self._sent = self._load()
        sent = all(self._send_videos() if row is None else self._send_row(row) for row in self._unsent())
        try:
            if self._sink is not None:
                self._sink.close()
        except Exception as error:
            self._fail(error)
            return False
        return sent

    def _unsent(self) -> Iterator[dict[str, float] | None]:
        """The rows that the tracker has not taken, without values that are not finite; None where `_lines` has it."""
        number = 0
        for line in _lines(self.folder / metrics.FILE, self._ended):
            if line is None:
                yield None
                continue
            with contextlib.suppress(ValueError):  # A kill cut this line short.
                row = schema.load(schema.ROW, line)
                number += 1
                if number > self._sent.rows:
                    yield {name: value for name, value in row.items() if value is not None}

    def _send_row(self, row: dict[str, float]) -> bool:
        """Sends a row; see `_send`."""
        if not self._send(lambda sink: sink.write(row), f"row {self._sent.rows + 1}"):
            return False
        self._sent.rows += 1
        self._save()
        return True

    def _send_videos(self) -> bool:
        """Sends the videos that the tracker has not taken, if it takes any; see `_send`."""
        for step, path in videos_of(self.folder).items():
            if path.name in self._sent.videos:
                continue

            def show(sink: Sink, path: pathlib.Path = path, step: int = step) -> None:
                if hasattr(sink, "video"):
                    sink.video(path, step)

            if not self._send(show, path.name):
                return False
            self._sent.videos.append(path.name)
            self._save()
        return True

    def _send(self, give: Callable[[Sink], None], what: str) -> bool:
        """Gives something to the sink, however long that takes; returns False if the run has ended before it could."""
        refusals, wait_s = 0, RETRY_S
        while True:
            begun = self._sink is not None
            try:
                if self._sink is None:
                    self._begin()
                    begun = True
                assert self._sink is not None
                give(self._sink)
                return True
            except Exception as error:
                self._fail(error)
                refusals += begun
                if refusals == TRIES:
                    print(f"{what} is left out", file=sys.stderr)
                    return True
                if self._ended.wait(wait_s):
                    return False
                wait_s = min(2 * wait_s, LONGEST_RETRY_S)

    def _begin(self) -> None:
        self._sink = make(self.name)
        try:
            self._sink.begin(described(self.folder, self._sent))
        except Exception:
            self._close_failed()
            raise

    def _fail(self, error: Exception) -> None:
        traceback.print_exception(type(error), error, error.__traceback__)
        if not self._has_reported:
            self._has_reported = True
            cause = f"{type(error).__name__}: {error}".splitlines()[0]
            self._report(f"{self.name}: {cause}; rows stay in {metrics.FILE}, and are sent when it works again")
        self._close_failed()

    def _close_failed(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            with contextlib.suppress(Exception):
                sink.close()

    def _load(self) -> Sent:
        try:
            return schema.load(SENT, schema.read(self.file))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            self._report(f"{self.name}: {self.file} is damaged, so a new run begins there: {error}")
        sent = Sent(uuid.uuid4().hex)
        files.write_whole(self.file, SENT.dump_json(sent))  # The id is on disk before the tracker gets it.
        return sent

    def _save(self) -> None:
        with contextlib.suppress(OSError):  # The disk is full; if the process is killed now, rows are sent twice.
            files.write_whole(self.file, SENT.dump_json(self._sent), synced=False)


def described(folder: pathlib.Path, sent: Sent) -> TrackedRun:
    """The run in a folder, as its sink gets it."""
    config: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):  # Rows are sent even if config.json is damaged.
        config = schema.parse(schema.read(folder / schema.CONFIG))
    group = folder.parent.name if (folder.parent / schema.SWEEP).exists() else str(config.get("program", ""))
    return TrackedRun(folder, sent.id, group, config, sent.rows)


def _lines(file: pathlib.Path, ended: threading.Event) -> Iterator[bytes | None]:
    """The whole lines of a file that grows, until the run has ended; None after the last of those that are there."""
    rest = b""
    with open(file, "rb") as opened:
        while True:
            last = ended.is_set()  # Rows written before the end must still be read.
            if block := opened.read(files.BLOCK):
                *lines, rest = (rest + block).split(b"\n")
                yield from lines
                continue
            yield None
            if last:
                return
            ended.wait(POLL_S)


def send(folder: pathlib.Path, name: str) -> int:
    """Sends the rows of a run that a tracker has not taken; returns the exit code."""

    def report(message: str) -> None:
        print(f"warning: {message}", file=sys.stderr)

    ended = threading.Event()
    ended.set()
    follower = Follower(folder, name, ended, report)
    follower.file.parent.mkdir(exist_ok=True)
    with open(follower.lock, "w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print(f"error: another process sends {folder} to {name}, likely the run itself", file=sys.stderr)
            return 1
        return 0 if follower.run() else 1


def follow(folder: pathlib.Path, name: str) -> int:
    """Follows a run that has just been launched to its end; returns the exit code."""
    messages = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def report(message: str) -> None:
        with contextlib.suppress(OSError):  # The launcher is gone.
            print(" ".join(message.split()), file=messages)

    ended = threading.Event()
    threading.Thread(target=_end_with_run, args=(ended, report, name), daemon=True).start()
    follower = Follower(folder, name, ended, report)
    rows = folder / metrics.FILE
    while not ended.is_set() and not rows.exists():  # A folder without rows may still be refused as another run's.
        ended.wait(POLL_S)
    if not rows.exists():
        return 0
    follower.file.parent.mkdir(exist_ok=True)
    output = os.open(follower.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    with open(follower.lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # The process of an earlier start may still send its last rows.
        if not follower.run():
            report(f"{name}: {_left(folder, name)}")
    return 0


def _end_with_run(ended: threading.Event, report: Callable[[str], None], name: str) -> None:
    """Waits for the run's end, even if its launcher was killed; ends this process if it then takes too long."""
    while os.read(0, 1):
        pass
    ended.set()
    time.sleep(END_S)
    report(f"{name} has not answered for {END_S:.0f} s after the run's end")
    end_now(1)  # The tracker's threads can't be ended.


def _left(folder: pathlib.Path, name: str) -> str:
    return f"not all rows are sent; to send the rest, resume the run, or: python -m {MODULE} {folder} {name}"


def main(arguments: list[str]) -> int:
    """Runs the command line: a run's folder, a tracker's name, and whether a launcher has started this process."""
    if len(arguments) not in (2, 3) or arguments[2:] not in ([], [LAUNCHED]):
        print(f"usage: python -m {MODULE} FOLDER NAME", file=sys.stderr)
        return 2
    folder, name = pathlib.Path(arguments[0]), arguments[1]
    try:
        return (follow if arguments[2:] else send)(folder, name)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    end_now(main(sys.argv[1:]))  # Threads that a tracker left running must not delay the exit.
