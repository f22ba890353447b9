"""Supervises a launched program: shows it, starts dead nodes again, ends the others, and reports how it ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boonta.nodes.monitor import START_S
from boonta.nodes.watch.program_end import SAVING_S
from boonta.nodes.watch.stopping import failure_of
from boonta.programs.wiring.machine.memory import OutOfMemory
from boonta.programs.wiring.run_folder.journal import LOG
from boonta.programs.wiring.supervision import guard, output, together
from boonta.programs.wiring.supervision.grace import Grace, cut_short
from boonta.programs.wiring.supervision.interrupts import Signals
from boonta.programs.wiring.supervision.link import MonitorLink, ProgramMonitor
from boonta.programs.wiring.supervision.restarts import History, Restarts, past, pending
from boonta.programs.wiring.supervision.view import View, conclude
from boonta.programs.wiring.supervision.workers import Thread, Worker

GRACE_S = 14.0  # Time between the stop request and SIGKILL, besides at most SAVING_S in which nodes save.
# The same for threads. It is longer because closing a table that Reverb waits for blocks them all, up to 3 s each time.
THREADS_GRACE_S = 30.0
SILENT_S = 15.0  # Time without an answer after which the monitor counts as hung.
POLL_S = 0.25
MONITOR_S = 5.0  # Time that the monitor has to write its last row, once all others are gone.
NEVER = Restarts(number=0)


def stay(
    workers: Sequence[Worker],
    monitor: ProgramMonitor,
    signals: Signals,
    policies: Mapping[str, Restarts] | None = None,
    changed: Callable[[], None] = lambda: None,
) -> int:
    """Watches the workers until all have ended, except for threads that hang; returns the exit code.

    Args:
      workers: all nodes of the program.
      monitor: the one of them that the others report to, or a client of it.
      signals: caught since before the workers were launched; the first one ends the program.
      policies: how often each is started again, by name; one that isn't here never is.
      changed: called when a worker has been started again.
    """
    with output.unblocked():
        with View() as view:
            supervisor = _Supervisor(workers, monitor, view, signals, policies or {}, changed)
            supervisor.watch()
        return supervisor.report()


class _Supervisor:
    """Polls the workers and the monitor until all have ended."""

    def __init__(
        self,
        workers: Sequence[Worker],
        monitor: ProgramMonitor,
        view: View,
        signals: Signals,
        policies: Mapping[str, Restarts],
        changed: Callable[[], None],
    ):
        self._workers, self._link = workers, MonitorLink(workers, monitor)
        self._monitor = self._link.worker
        self._view, self._changed, self._signals = view, changed, signals
        now = time.monotonic()
        self._histories = {each.name: History(each.name, policies.get(each.name, NEVER), now) for each in workers}
        self._restarts = any(policy.number for policy in policies.values())
        self._memory = OutOfMemory()
        self._failure = self._monitor_failure = ""
        self._ending_since: float | None = None  # The time since which the nodes are to end.
        self._terminated = self._waits = False
        self._grace = Grace(THREADS_GRACE_S if any(isinstance(worker, Thread) for worker in workers) else GRACE_S)

    def watch(self) -> None:
        """Returns when all workers have ended, except for threads that hang."""
        while any(worker.alive() for worker in self._workers) or (
            self._ending_since is None and (pending(self._histories) or self._has_new_deaths())
        ):
            self._refresh()
            guard.report(self._link.has_worked())
            if self._ending_since is None:
                self._tend_all()
            elif self._is_over(self._ending_since):
                return self._kill_the_late()
            elif not self._monitor.alive() and not self._terminated:
                self._terminate_all()  # Nodes that are still starting haven't received the monitor's request.
            time.sleep(POLL_S)

    def _is_over(self, since: float) -> bool:
        """Whether the time is over that nodes have to end, since they were asked to."""
        saving = self._link.saving()
        if saving and not self._waits and time.monotonic() - since > self._grace.limit_s:
            self._waits = True
            LOG.info("the end waits for %s to save, at most %g s", ", ".join(saving), SAVING_S)
        return self._grace.is_over(since, time.monotonic(), bool(saving))

    def report(self) -> int:
        """Prints how the program ended, and returns the exit code: 0 only where a limit was reached."""
        failure = self._monitor_failure or self._link.status.get("failure") or self._failure or self._first_death()
        if not failure and not self._signals.number and not self._link.status.get("done"):
            failure = failure_of(self._link.status) or "all nodes ended before the program's stop rule was reached"
        guard.report(self._link.has_worked(), ending=True, failure=failure)
        return conclude(self._link.status, failure, self._signals.number)

    def _refresh(self) -> None:
        """Asks the monitor for its status, and shows it."""
        if self._link.refresh():
            status = self._link.status
            self._view.show({**status, "restarts": past(self._histories)} if self._restarts else status)

    def _has_new_deaths(self) -> bool:
        """Whether a worker has died from which nothing has followed yet; all may die between two looks."""
        return any(worker.death() and self._histories[worker.name].due is None for worker in self._workers)

    def _tend_all(self) -> None:
        """Starts dead workers again; asks all to end if a signal came, one may not start again, or the monitor does."""
        if self._has_new_deaths():
            self._refresh()  # The worker may just have reported what its exit code doesn't show.
        if self._signals.number:
            self._ask(f"{signal.Signals(self._signals.number).name} to the launcher")
        elif self._link.status.get("reason"):
            self._ending_since = time.monotonic()
        for worker in together.victims_last(self._workers, self._link.reported):
            if self._ending_since is None:
                self._tend(worker)

    def _tend(self, worker: Worker) -> None:
        """Starts a worker again that has died or hangs, or asks all to end if it may not."""
        history = self._histories[worker.name]
        if history.due is not None:
            if time.monotonic() >= history.due:
                self._start_again(worker)
            return
        node = self._link.reported(worker)
        history.worked |= node["started"]
        cause, raised = self._end_of_life(worker, node)
        if cause:
            self._die(worker, cause + together.silent(worker, self._workers, self._link.reported), raised)

    def _die(self, worker: Worker, cause: str, raised: bool = False) -> None:
        """Notes a worker's death; it is to start again later, or all are asked to end."""
        decision = self._histories[worker.name].die(time.monotonic(), cause, raised)
        if decision.failure:
            self._failure = decision.failure
            if worker is self._monitor:  # Without the monitor, nodes can only be terminated.
                self._monitor_failure = decision.failure
            self._ask(decision.failure, worker.name)
            return
        LOG.warning("%s %s; it starts again in %g s", worker.name, cause, decision.delay_s)
        if worker is not self._monitor:
            self._link.report_end(worker.name, cause)
        self._end_those_with(worker)

    def _end_those_with(self, worker: Worker) -> None:
        """Ends the workers that can't go on without one that has died; all of them start again together."""
        for mate in together.mates(worker, self._workers):
            mate.kill()
            if mate is not worker:
                self._histories[mate.name].due = self._histories[worker.name].due
                self._link.report_end(mate.name, f"starts again with {worker.name}")

    def _start_again(self, worker: Worker) -> None:
        worker.kill()  # It may hang, or take its time to exit after an exception, whose traceback is in its log by now.
        if worker.alive():
            return
        try:
            worker.start_again()
        except OSError as error:  # The machine has no memory or process ids left at the moment.
            return self._die(worker, f"could not be started: {error}")
        self._histories[worker.name].begin(time.monotonic())
        if worker is self._monitor:
            self._link.begin()
        self._changed()

    def _end_of_life(self, worker: Worker, node: Mapping[str, Any]) -> tuple[str, bool]:
        """Why a worker's life is over, or must be ended, and whether by an exception; empty if it goes on."""
        how = worker.death()
        if self._restarts and (node["failure"] or (self._link.fresh and node["gone"])):
            why = node["failure"].removeprefix(f"{worker.name} ")
            return why or "ended before the program did", bool(why)
        if how:
            starved = " (out of memory)" if "SIGKILL" in how and self._memory.happened() else ""
            return self._cause(worker, f"{how}{starved}"), False
        if not self._restarts and worker is not self._monitor:
            return "", False  # The monitor decides.
        return self._hung(worker, node), False

    def _hung(self, worker: Worker, node: Mapping[str, Any]) -> str:
        """How a worker hangs, as a predicate; empty if it doesn't."""
        unreported = self._link.met_at is None if worker is self._monitor else not node["process"]
        history = self._histories[worker.name]
        # A node that has reported before is silent; another may take long to start, without the time it is stopped.
        history.stopped_s = history.stopped_s + self._link.passed_s if unreported and worker.is_stopped() else 0.0
        if history.stopped_s > SILENT_S:
            return f"has been stopped for {history.stopped_s:.0f} s, before its first heartbeat"
        if worker is self._monitor:
            hangs = self._link.silent_s > (START_S if self._link.met_at is None else SILENT_S)
            return f"has not answered for {self._link.silent_s:.0f} s: {self._link.no_answer}" if hangs else ""
        if self._link.met_at is None:
            return ""  # Nobody knows.
        age = time.monotonic() - max(self._link.met_at, history.began)
        if not node["process"] and age > START_S:
            return f"has sent no heartbeat for {age:.0f} s, since it was started"
        return node["hung"]

    def _first_death(self) -> str:
        """How the first worker died that did so without reporting its end; empty if there is none."""
        for worker in self._workers:
            how, doing = worker.death(), self._link.doing(worker)
            # A node that has reported its end is done; a later abort by Reverb's threads is harmless.
            # Ctrl-C reaches processes that are still starting, too, and ends them.
            # One that waits to be started again has been reported.
            harmless = doing == "ended" or (self._signals.number and doing == "starting") or self._was_all_done(worker)
            if how and not harmless and self._histories[worker.name].due is None:
                return f"{worker.name} {self._cause(worker, how)}"
        return ""

    def _was_all_done(self, worker: Worker) -> bool:
        """Whether it is the monitor of a program that is done, which the signal to the launcher has reached, too.

        `timeout` signals a whole process group. The monitor is the last one to end, and keeps nothing by then.
        """
        return worker is self._monitor and bool(self._signals.number and self._link.status.get("done"))

    def _cause(self, worker: Worker, how: str) -> str:
        """How a worker died, and while doing what; of one that reported nothing also what its log ends with."""
        doing = self._link.doing(worker)
        words = worker.last_words() if doing == "starting" and "exited" in how else ""
        return f"{how} while {doing}" + (f": {words}" if words else "")

    def _ask(self, reason: str, dead: str = "") -> None:
        """Asks all nodes to end; `dead` is the one whose death is the reason."""
        self._ending_since = time.monotonic()
        if not self._link.end(reason, dead):
            self._terminate_all()

    def _terminate_all(self) -> None:
        self._terminated = True
        for worker in self._workers:
            worker.terminate()

    def _kill_the_late(self) -> None:
        """Kills the nodes that haven't ended, a failure where something is lost; the monitor ends after them."""
        late = [worker for worker in self._workers if worker.alive() and worker is not self._monitor]
        losing, others = cut_short({worker.name: self._link.reported(worker) for worker in late})
        within = f"did not end within {round(self._grace.whole_s, 1):g} s"
        if others:
            LOG.warning("%s %s; nothing is lost by that", others, within)
        self._failure = self._failure or (losing and f"{losing} {within}")
        for worker in late:
            worker.kill()
            self._link.report_end(worker.name)
        until = time.monotonic() + MONITOR_S
        while self._monitor.alive() and time.monotonic() < until:
            self._refresh()
            time.sleep(POLL_S)
        self._monitor.kill()
