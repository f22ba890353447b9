"""Sends the rows of a run to a tracker: a process beside the run, which reads `metrics.jsonl` as it grows.

Nothing that a tracker does, hanging and crashing included, can delay the run or end it. The process is outside of the
network that a program has of its own (`programs.wiring.network`), from which no tracker can be reached. How many rows
are sent is kept in the run's folder, with the id of the run there, so that whatever starts again goes on.

A run that has ended, or its rest that could not be sent, is sent by

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
from boonta.nodes.sinks.base import Sink, TrackedRun, make
from boonta.nodes.snapshots import files, schema
from boonta.nodes.watch.ending import end_now

MODULE = "boonta.nodes.sinks.follow"
FOLDER = "trackers"  # In the run's folder.
LAUNCHED = "--launched"  # A launcher has started the process: standard input ends with the run, output is its messages.
END_S = 10.0  # Time after the run's end for what is left.
POLL_S = 0.5
RETRY_S, LONGEST_RETRY_S = 1.0, 60.0  # The first wait after a failure, and the longest.
TRIES = 3  # Of a row that a tracker refuses though it has begun the run.


@dataclasses.dataclass
class Sent:
    """The content of a tracker's file in the run's folder.

    Attributes:
      id: the id of the run there.
      rows: how many well-formed rows of `metrics.jsonl` it has taken.
    """

    id: Annotated[str, pydantic.Field(pattern="^[0-9a-f]{32}$")]
    rows: Annotated[int, pydantic.Field(ge=0)] = 0


SENT = pydantic.TypeAdapter(Sent)


class Follower:
    """Sends a run's rows to one tracker, each once unless the process is killed in between.

    Args:
      folder: the run's folder.
      name: the tracker's, as `--log` has it.
      ended: is set when no further rows come.
      tell: called with a message for the user, at the first failure only.
    """

    def __init__(self, folder: pathlib.Path, name: str, ended: threading.Event, tell: Callable[[str], None]):
        self.folder, self.name = folder, name
        self._ended = ended
        self._tell = tell
        self._told = False
        self._sink: Sink | None = None
        own = re.sub(r"[^\w.-]", "-", name)
        self.file, self.lock = folder / FOLDER / f"{own}.json", folder / FOLDER / f"{own}.lock"
        self.output = folder / FOLDER / f"{own}.log"

    def run(self) -> bool:
        """Sends rows until the run has ended; returns whether all are sent."""
        self._sent = self._load()
        sent = all(self._send(row) for row in self._unsent())
        try:
            if self._sink is not None:
                self._sink.close()
        except Exception as error:
            self._fail(error)
            return False
        return sent

    def _unsent(self) -> Iterator[dict[str, float]]:
        """The rows that the tracker has not taken, without the values that aren't finite."""
        number = 0
        for line in _lines(self.folder / metrics.FILE, self._ended):
            with contextlib.suppress(ValueError):  # A kill has cut it.
                row = schema.load(schema.ROW, line)
                number += 1
                if number > self._sent.rows:
                    yield {name: value for name, value in row.items() if value is not None}

    def _send(self, row: dict[str, float]) -> bool:
        """Sends a row, however long that takes; returns False if the run has ended and it could not be sent."""
        refusals, wait_s = 0, RETRY_S
        while True:
            begun = self._sink is not None
            try:
                if self._sink is None:
                    self._begin()
                    begun = True
                assert self._sink is not None
                self._sink.write(row)
                break
            except Exception as error:
                self._fail(error)
                refusals += begun
                if refusals == TRIES:
                    print(f"row {self._sent.rows + 1} is left out", file=sys.stderr)
                    break
                if self._ended.wait(wait_s):
                    return False
                wait_s = min(2 * wait_s, LONGEST_RETRY_S)
        self._sent.rows += 1
        self._save()
        return True

    def _begin(self) -> None:
        self._sink = make(self.name)
        try:
            self._sink.begin(described(self.folder, self._sent))
        except Exception:
            self._close_failed()
            raise

    def _fail(self, error: Exception) -> None:
        traceback.print_exception(type(error), error, error.__traceback__)
        if not self._told:
            self._told = True
            cause = f"{type(error).__name__}: {error}".splitlines()[0]
            self._tell(f"{self.name}: {cause}; rows stay in {metrics.FILE}, and are sent when it works again")
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
            self._tell(f"{self.name}: {self.file} is damaged, so a new run begins there: {error}")
        sent = Sent(uuid.uuid4().hex)
        files.write_whole(self.file, SENT.dump_json(sent))  # Before the tracker hears of the id.
        return sent

    def _save(self) -> None:
        with contextlib.suppress(OSError):  # A full disk may have room later; a kill before that sends rows twice.
            files.write_whole(self.file, SENT.dump_json(self._sent), synced=False)


def described(folder: pathlib.Path, sent: Sent) -> TrackedRun:
    """What a sink is told of the run in a folder."""
    config: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):  # Damaged: the rows are worth more.
        config = schema.parse(schema.read(folder / "config.json"))
    group = folder.parent.name if (folder.parent / "sweep.json").exists() else str(config.get("program", ""))
    return TrackedRun(folder, sent.id, group, config, sent.rows)


def _lines(file: pathlib.Path, ended: threading.Event) -> Iterator[bytes]:
    """The whole lines of a file that grows, until the run has ended."""
    rest = b""
    with open(file, "rb") as opened:
        while True:
            last = ended.is_set()  # Before it reads: what was written until then counts.
            if block := opened.read(files.BLOCK):
                *lines, rest = (rest + block).split(b"\n")
                yield from lines
            elif last:
                return
            else:
                ended.wait(POLL_S)


def send(folder: pathlib.Path, name: str) -> int:
    """Sends what a tracker has not taken of a run's rows so far; returns the exit code."""

    def tell(message: str) -> None:
        print(f"warning: {message}", file=sys.stderr)

    ended = threading.Event()
    ended.set()
    follower = Follower(folder, name, ended, tell)
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

    def tell(message: str) -> None:
        with contextlib.suppress(OSError):  # The launcher is gone.
            print(" ".join(message.split()), file=messages)

    ended = threading.Event()
    threading.Thread(target=_end_with_run, args=(ended, tell, name), daemon=True).start()
    follower = Follower(folder, name, ended, tell)
    rows = folder / metrics.FILE
    while not ended.is_set() and not rows.exists():  # Until then the folder may turn out to be another run's.
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
            tell(f"{name}: {_left(folder, name)}")
    return 0


def _end_with_run(ended: threading.Event, tell: Callable[[str], None], name: str) -> None:
    """Notices the end of the run, however its launcher has ended, and ends this process if it takes too long."""
    while os.read(0, 1):
        pass
    ended.set()
    time.sleep(END_S)
    tell(f"{name} has not answered for {END_S:.0f} s after the run's end")
    end_now(1)  # The tracker's threads can't be ended.


def _left(folder: pathlib.Path, name: str) -> str:
    return f"not all rows are sent; the rest is when the run goes on, or by python -m {MODULE} {folder} {name}"


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
    end_now(main(sys.argv[1:]))  # What a tracker has left behind must not hold it up.
