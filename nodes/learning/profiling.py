"""A trace of some updates by JAX's profiler: what devices and the host's threads do, for TensorBoard or Perfetto."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import jax

from boonta.nodes.base import Node
from boonta.nodes.watch.stopwatch import Stopwatch

FOLDER = "profile"
UPDATE = "update"  # The event around each dispatch of updates, of which TensorBoard makes a step.
WARM = 10  # Updates of a life before the trace begins: the first ones wait for data, and for caches to fill.
# Time after which a trace ends early. It takes about as long to write, in which jaxlib 0.6 lets no other thread of the
# process run: after 15 s without a heartbeat that would count as dead.
MOST_S = 5.0


@dataclasses.dataclass(frozen=True)
class Profile:
    """The trace that a node is to make.

    Attributes:
      updates: how many updates it has; more where one dispatch has more, fewer where they take over `MOST_S`.
      folder: where to write it, as `plugins/profile/<time>/` with a file for TensorBoard and one for Perfetto.
    """

    updates: int
    folder: str


def described(updates: int, folder: str) -> str:
    """What is traced, for the user."""
    return f"{updates:,} updates of the learner are traced, after the first {WARM} of each of its lives, into {folder}"


class Tracer:
    """Traces some of a node's updates, once in its life. A trace that can't be made or written is a warning.

    The profiler is the process's: of a program that is one process, all nodes' threads are in the trace, with the
    activities that their stopwatches measure.

    Args:
      node: the node that makes the updates; when it closes, a trace that goes on is written.
      profile: what to trace; None traces nothing.
      settle: waits until the devices have computed what was dispatched.
    """

    def __init__(self, node: Node, profile: Profile | None, settle: Callable[[], Any]):
        self._node, self._settle = node, settle
        self._profile = profile  # None once nothing is left to do.
        self._first: int | None = None  # The updates made before the trace begins.
        self._made = 0
        self._traces = False
        self._ending = threading.Lock()  # Both the node's thread and the timer's may end the trace.
        node.on_close(self._close)

    def dispatch(self, made: int) -> contextlib.AbstractContextManager[Any]:
        """The context of the next dispatch; before it, the trace begins or ends if it is time.

        Args:
          made: updates that have been dispatched, those of earlier lives included.
        """
        if self._profile is None:
            return contextlib.nullcontext()
        self._first = made + WARM if self._first is None else self._first
        self._made = made
        if not self._traces and made >= self._first:
            self._first = made
            self._try(self._profile, "starting the trace", self._begin)
        elif self._traces and made >= self._first + self._profile.updates:
            self._settle()
            self._end()
        if not self._traces:
            return contextlib.nullcontext()
        return jax.profiler.StepTraceAnnotation(UPDATE, step_num=made)

    def _begin(self, folder: pathlib.Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)  # Otherwise only the end would show that it can't be made.
        options = jax.profiler.ProfileOptions()
        options.host_tracer_level = 2
        options.python_tracer_level = 0  # Each call of a function would be an event: thousands in an update.
        jax.profiler.start_trace(folder, profiler_options=options)
        self._traces = True
        Stopwatch.mark = jax.profiler.TraceAnnotation
        timer = threading.Timer(MOST_S, self._end, [True])
        timer.daemon = True
        timer.start()

    def _end(self, early: bool = False) -> None:
        """Writes the trace, unless it is written already; it is the only one of this life."""
        with self._ending:
            profile, self._profile = self._profile, None
            if profile is None or self._first is None:
                return
            self._traces, Stopwatch.mark = False, None
            if early:
                made = max(1, self._made - self._first)
                self._node.warn(f"the trace ends after {MOST_S:g} s, with about {made} of {profile.updates} updates")
            self._try(profile, "saving the trace", lambda folder: jax.profiler.stop_trace())

    def _close(self) -> None:
        if self._profile is not None and not self._traces:
            self._node.warn(f"there is no trace, since this life made no update after its first {WARM}")
        else:
            self._end()  # Which waits if the timer's thread writes it just now.

    def _try(self, profile: Profile, activity: str, action: Callable[[pathlib.Path], Any]) -> None:
        try:
            with self._node.stopwatch(activity):
                action(pathlib.Path(profile.folder))
        except (OSError, RuntimeError) as error:  # JAX's errors are RuntimeErrors.
            self._node.warn(f"there is no trace in {profile.folder}: {error}")
            self._profile = None
