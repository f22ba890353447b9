"""The base of all nodes: `step()` until asked to stop, and a heartbeat that reports what the node is doing."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from boonta.nodes.snapshots import files
from boonta.nodes.watch import pulse
from boonta.nodes.watch.reporter import MonitorHandle, Reporter
from boonta.nodes.watch.stopwatch import Stopwatch

T = TypeVar("T")
END_REPORT_S = 5.0
AWAY_S = 7 * 86_400.0  # Deadline of waits for what actors make: all of them may be away for days.


class Stopped(Exception):
    """The node was asked to stop while it waited."""


class Node:
    """The base of all nodes.

    A subclass builds its parts in `start()`, gives `on_close` there what is to be saved or freed at the end, and works
    in `step()`, or in several `tasks` that `run` calls in a thread each. It counts with `count`, measures with
    `stopwatch`, and blocks only in `wait_for`, so that every wait has a name and a deadline.

    Args:
      name: unique in the program, such as "actor/0".
      monitor: its handle; None runs the node alone.

    Attributes:
      role: the class's role in a program, such as "actor"; also the label of its groups, unless they have another one.
      end_order: the order in which nodes end, lower numbers first: 0 for nodes that no other calls, 1 or 2 for servers
        that call others themselves, 3 for servers that call none.
      methods: the names of those that other nodes may call.
      saves: whether something may be lost if it is killed at the program's end, since it saves or writes then.
      answer_s: seconds that a call of one of them may take.
      away_s: seconds for which callers try to reach it, after which they may go on without it; None for `answer_s`.
      limit_s: seconds in one activity after which the node counts as hung; see `watch.pulse.stuck`.
      ending: the program ends; a node that serves goes on until the others are gone, and can save meanwhile.
      failure: why the program fails, as of the last heartbeat; empty if it doesn't.
      snapshot_request: how many snapshots have been asked for, as of the last heartbeat, and the last one's number.
      build: a description of what the node was built from; if nodes are started apart, the monitor refuses a mixture.
      past_lives: how often the node has died in this program, as far as the launcher or the monitor knows.
      apart: whether a command of its own has started the node, on any host, and no launcher all nodes at once.
      past_starts: where nodes are started apart, how often the monitor was started before in the run's folder; else 0.
      joined: whether the node has joined a running program, which goes on whatever becomes of the node.
      leaving: whether the node was asked to leave a program that goes on; an error is no failure of the program then.
      stuck: what the node doesn't get beyond, as of the last heartbeat; empty if it gets on.
      meanwhile: called between the polls of a wait; the serial schedule, which has one thread, lets others work in it.
      monitor_away_s: seconds without an answer from the monitor after which the node gives up.
      launched_at: when the node was launched, by `time.monotonic`: where it has a process of its own, when that began.
      launcher: called in the node's thread when it runs; returns the event by which the launcher stops the node.
    """

    role = ""
    end_order = 0
    methods: tuple[str, ...] = ()
    saves = True
    answer_s = 30.0
    away_s: float | None = None
    limit_s = 300.0

    def __init__(self, name: str, monitor: MonitorHandle | None = None):
        self.name = name
        self.stopwatch = Stopwatch(name)
        self.monitor = monitor
        self.ending = self.joined = self.leaving = self.apart = False
        self.failure = self.build = self.stuck = ""
        self.past_lives = self.past_starts = 0
        self.monitor_away_s = pulse.MONITOR_DEADLINE_S
        self.launched_at = time.monotonic()
        self.snapshot_request = (0, 0)
        self.program_counts: dict[str, float] = {}  # The whole program's, as of the last heartbeat.
        self.left_out = 0.0  # Sequences that learners found too old, and actors replace, as of the last heartbeat.
        self.evaluation: dict[str, float] = {}  # The program's last evaluation, as of the last heartbeat.
        self.meanwhile: Callable[[], None] = lambda: None
        self.launcher: Callable[[], threading.Event] = threading.Event
        self._reporter = Reporter()
        self._closing = contextlib.ExitStack()
        self._threads = 1
        self._stop = threading.Event()
        self._closed = threading.Event()
        self._beating = threading.Lock()
        self._error: BaseException | None = None
        self._given_up: set[threading.Thread] = set()  # Those that didn't end in time; their errors don't count.
        self._started = False  # Whether `start` has succeeded.

    # What a subclass defines.

    @property
    def tasks(self) -> Sequence[Callable[[], None]]:
        """The functions that `run` calls repeatedly, each in a thread of its own; read after `start`."""
        return (self.step,)

    def start(self) -> None:
        """Builds the node's parts, in its own process; a failure here is reported like a failing step."""

    def step(self) -> None:
        """Does one unit of work."""
        raise AssertionError(f"{type(self).__name__} has no step()")

    def ready(self) -> bool:
        """Whether `step` can proceed without waiting for another node; only `--launch serial` calls it."""
        return True

    def settle(self) -> None:
        """Waits for the work that a step left in the background; only `--launch serial` calls it."""

    # Subclasses call these.

    def on_close(self, action: Callable[[], None]) -> None:
        """Has `close` save or free something. What is given last comes first; nothing is left out if another fails."""
        self._closing.callback(action)

    def count(self, **increments: float) -> None:
        """Adds to this node's counters; the monitor sums them over nodes."""
        self._reporter.count(increments)

    def sample(self, name: str, value: float) -> None:
        """Adds a value, such as an episode's return; the monitor shows the mean of the last hundred."""
        self._reporter.sample(name, value)

    def measure(self, metrics: dict[str, float]) -> None:
        """Sets this node's latest metrics; the monitor shows the mean over nodes, and each node's value."""
        self._reporter.measure(metrics)

    def warn(self, warning: str, of: str = "") -> None:
        """Shows a warning to the user, unless it is empty, or one with the same `of` differs only in numbers."""
        self._reporter.warn(warning, of)

    @property
    def warnings(self) -> list[str]:
        """The node's warnings, the oldest first."""
        return self._reporter.warnings

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def closed(self) -> threading.Event:
        """Is set once `close` has returned; until then there are heartbeats, since closing may take its time."""
        return self._closed

    @property
    def failed(self) -> bool:
        return self._error is not None

    def stop(self) -> None:
        self._stop.set()

    @property
    def own_failure(self) -> str:
        """What the node was doing when it failed, and the cause; empty if it hasn't failed."""
        if self._error is None:
            return ""
        error = traceback.TracebackException(type(self._error), self._error, None)
        error.__notes__ = None  # type: ignore[attr-defined]  # JAX's note is about tracebacks, and this has none.
        cause = "".join(error.format_exception_only()).strip()
        if files.is_full(self._error) and files.FULL not in cause:  # Of a user's own write, only they know the file.
            cause += f": {files.FULL}"
        return f"{self.name} failed while {vars(self._error).get('activity', 'stepping')}: {cause}"

    def fail(self, error: BaseException) -> None:
        """Ends the node with this error, unless it has failed before."""
        self._error = self._error or error
        self._stop.set()

    def sleep(self, seconds: float) -> None:
        """Waits for `seconds`, or until the node is asked to stop."""
        self._stop.wait(seconds)

    def wait_for(
        self, what: str, poll: Callable[[float], T | None], deadline_s: float = 3_600.0, activity: str = "waiting for"
    ) -> T:
        """Waits until `poll` returns a result.

        Args:
          what: the name of what the node waits for; the monitor shows it.
          poll: `(timeout in seconds) -> result, or None if it isn't there yet`.
          deadline_s: seconds after which waiting longer can't help; the monitor notices a dead node much sooner.
          activity: the words before that name; an unusual kind of wait has its own, see `watch.pulse.UNLIMITED`.

        Raises:
          Stopped: the node was asked to stop.
          TimeoutError: the deadline passed.
        """
        with self.stopwatch(f"{activity} {what}"):
            end = time.monotonic() + deadline_s
            while not self.stopping:
                result = poll(0.5)
                if result is not None:
                    return result
                if time.monotonic() > end:
                    raise TimeoutError(f"{self.name} waited {deadline_s:.0f} s for {what}")
                self.meanwhile()
        raise Stopped

    # The life of a node.

    def close(self) -> None:
        """Does what was given to `on_close`, once, also after a failure."""
        self._closing.close()

    def run(self) -> None:
        """Steps until the monitor or Launchpad asks it to stop, or until a failure, which is raised again."""
        threading.Thread(target=pulse.watch, args=(self, self.launcher()), daemon=True).start()
        threading.Thread(target=pulse.beat, args=(self,), daemon=True).start()
        try:
            self._work("starting", self.start)
            self._started = not self.failed
            if not self.stopping:
                self._work_on_all_tasks()
            self._work("closing", self.close)
        finally:
            self._stop.set()
            self._closed.set()
        reporter = threading.Thread(target=self.report_own_end, daemon=True)
        reporter.start()
        reporter.join(timeout=END_REPORT_S)  # A monitor that is gone must not delay the node's end.
        if self._error is not None:
            raise self._error

    def _work_on_all_tasks(self) -> None:
        first, *others = self.tasks
        self._threads = 1 + len(others)
        workers = [threading.Thread(target=self._step_on, args=(task,), daemon=True) for task in others]
        for thread in workers:
            thread.start()
        self._step_on(first)
        for thread in workers:
            thread.join(timeout=END_REPORT_S)
        self._given_up.update(thread for thread in workers if thread.is_alive())

    def _step_on(self, task: Callable[[], None]) -> None:
        while not self.stopping:
            self._work("stepping", task)

    def _work(self, activity: str, task: Callable[[], None]) -> None:
        """Does a task as `activity`, unless the task names its own; a failure is kept and stops the node."""
        try:
            with self.stopwatch(activity):
                task()
        except Stopped:
            pass
        except BaseException as error:
            if threading.current_thread() not in self._given_up:
                self.fail(error)

    def heartbeat(self) -> None:
        """Reports to the monitor, and stops if the monitor asks for it."""
        if self.monitor is None:
            return
        with self._beating:  # Two at once would report samples twice, and an old reply could replace a newer one.
            report = self.report()
            reply = self.monitor.beat(report)
            self._reporter.arrived(report)
            self.program_counts = dict(reply["counts"])
            self.left_out = reply.get("left_out", self.program_counts.get("stale_sequences", 0.0))
            self.evaluation = dict(reply["evaluation"])
            self.ending = bool(reply["ending"])
            self.failure = reply["failure"]
            self.snapshot_request = tuple(reply["snapshot_request"])
            self.past_lives = max(self.past_lives, reply["past_lives"])
            if self.apart:  # On one machine no seed depends on whether a heartbeat comes before it is drawn.
                self.past_starts = reply["past_starts"]
        if reply["stop"]:
            self.stop()

    def report(self) -> dict[str, Any]:
        """The content of a heartbeat: plain numbers, strings, lists and dicts, which is all that calls pass."""
        return self._reporter.report(self, self._threads, self._started)

    def report_own_end(self) -> None:
        """Reports that the node has ended, or can't get there, and why it has failed."""
        if self.monitor is None:
            return
        failure = self.own_failure if not self.leaving else ""
        try:
            self.heartbeat()
            self.monitor.report_end(self.name, failure, self._reporter.life)
        except Exception as error:  # The monitor may be gone already; the exit code still shows a failure.
            print(f"{self.name}: could not report its end to the monitor: {error}", file=sys.stderr)
