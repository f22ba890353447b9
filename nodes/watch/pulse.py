"""The threads beside a node's work: its heartbeats, and the watch for its launcher's request to stop."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from boonta.nodes.rpc.errors import Failed, Untrusted
from boonta.nodes.watch.stopwatch import Stopwatch

if TYPE_CHECKING:
    from boonta.nodes.base import Node

HEARTBEAT_S = 1.0
# Time without an answer from the monitor after which a node gives up, unless it is told to be more patient. A monitor
# that died may come back until then.
MONITOR_DEADLINE_S = 120.0
SERVE_ON_S = 4.0  # Time that a server goes on once its launcher is gone: a call without an answer lasts longer.
FIRST_TIME = 6  # Factor of an activity's limit for its first time, in which JAX may compile; none does in closing.
PAUSE_S = 5.0  # A longer gap between heartbeats means that this process was stopped, or waited for the monitor.
# The first words of activities that may take any time. All others are single acts, and have a limit.
UNLIMITED = (
    "between",
    "compiling",
    "connecting",
    "filling",
    "initialising",
    "resting",
    "restoring",
    "saving",
    "waiting",
)


def is_limited(activity: str) -> bool:
    """Whether a node hangs if it stays in an activity for too long."""
    return activity != "starting" and activity.partition(" ")[0] not in UNLIMITED


def is_saving(activity: str) -> bool:
    """Whether an activity is a save, for which a program's end waits."""
    return activity.startswith("saving")


def stuck(stopwatch: Stopwatch, limit_s: float) -> str:
    """The activity in which a thread of the node is stuck, as a predicate; empty if none is."""
    for first_time, limit in ((False, limit_s), (True, FIRST_TIME * limit_s)):

        def counts(activity: str, first_time: bool = first_time) -> bool:
            compiles = activity != "closing" and activity not in stopwatch.finished
            return is_limited(activity) and compiles is first_time

        activity, seconds = stopwatch.longest(counts)
        if seconds > limit:
            return f"has been {activity} for {seconds:.0f} s, its limit is {limit:g} s"
    return ""


def beat(node: Node) -> None:
    """Sends heartbeats until the node has closed. A monitor that doesn't answer for long ends the node."""
    answered = began = time.monotonic()
    while not node.closed.is_set():
        before, began = began, time.monotonic()
        # In a process that was stopped for a while, all activities seem long.
        node.stuck = "" if began - before > PAUSE_S else stuck(node.stopwatch, node.limit_s)
        try:
            node.heartbeat()
            answered = time.monotonic()
        except Untrusted as error:  # Trying again doesn't help.
            node.fail(error)
        except Exception as error:  # Any transport error; it counts once it lasts too long.
            if time.monotonic() - answered > node.monitor_away_s and not node.stopping:
                why = "the monitor's own error" if isinstance(error, Failed) else "no answer from the monitor"
                node.fail(TimeoutError(f"{node.name}: {why}: {error}"))
        if node.failed and node.stuck:  # It may never close, which its last report would come after.
            node.report_own_end()
        node.closed.wait(HEARTBEAT_S)


def watch(node: Node, launcher_stop: threading.Event) -> None:
    """Stops the node when the launcher's event is set, as by SIGTERM, which comes when the launcher is gone."""
    while not node.stopping:
        if launcher_stop.wait(0.5):
            node.sleep(SERVE_ON_S if node.end_order else 0.0)
            node.stop()
            return
