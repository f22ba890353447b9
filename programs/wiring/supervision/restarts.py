"""When a node that died is started again, and when its deaths end the program: decided without processes or clocks."""

from __future__ import annotations

import collections
import dataclasses
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from boonta.nodes.snapshots.files import FULL

SAME_EXCEPTION = 3  # Restarts don't help if a node raises the same exception this many times in a row.


@dataclasses.dataclass(frozen=True)
class Restarts:
    """When a node hangs, how often one that died or hung is started again, and after how long.

    Attributes:
      number: the most times that a node is started again within the window; with 0 its first death ends the program.
      window_s: seconds after which a death is forgotten.
      backoff_s: seconds from the first death within the window until the node starts again; doubled with each further
        one.
      limit_s: seconds in one activity after which a node hangs; six times as many the first time, and without end where
        it waits, compiles, saves or starts. None is the limit of the node's class, 300 unless it has its own.
    """

    number: int = 5
    window_s: float = 600.0
    backoff_s: float = 0.5
    limit_s: float | None = None

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError(f"restarts.number is {self.number}; it must be at least 0")
        if not self.window_s > 0:  # NaN is refused, too.
            raise ValueError(f"restarts.window_s is {self.window_s}; it must be above 0")
        if not self.backoff_s >= 0:
            raise ValueError(f"restarts.backoff_s is {self.backoff_s}; it must be at least 0")
        if self.limit_s is not None and not self.limit_s > 0:
            raise ValueError(f"restarts.limit_s is {self.limit_s}; it must be above 0, or none")


def how_ended(code: int) -> str:
    """How a process died, as a predicate: by its exit code, or the negative number of the signal that killed it."""
    if code > 0:
        return f"exited with code {code}"
    named = -code in set(signal.Signals)  # Most real-time signals have no name.
    return f"was killed by {signal.Signals(-code).name if named else f'signal {-code}'}"


class Death(NamedTuple):
    """The end of a life of a node: an exception, a signal, or the launcher's own, of a node that hung.

    Attributes:
      at: the time, in seconds, by any monotonic clock.
      cause: what happened, as a predicate, such as "was killed by SIGKILL while acting".
      raised: whether the node raised an exception.
      worked: whether this life, or one before it, had come as far as its work.
    """

    at: float
    cause: str
    raised: bool = False
    worked: bool = True


class Decision(NamedTuple):
    """What follows from a node's death.

    Attributes:
      delay_s: seconds until the node starts again.
      failure: why the program ends instead; empty if it goes on.
    """

    delay_s: float
    failure: str = ""


def decide(name: str, policy: Restarts, deaths: Sequence[Death]) -> Decision:
    """Decides what follows from the last of a node's deaths, which are given oldest first.

    An exception from before the node ever worked ends the program at once: nothing would be different the next time,
    and bad input should not take minutes to be reported. So does a full disk, in which only people make room. The same
    exception, whatever numbers are in it, ends it when it is raised a third time in a row.
    """
    last = deaths[-1]
    before = [death for death in deaths[:-1] if death.at > last.at - policy.window_s]
    tail = [*before, last][-SAME_EXCEPTION:]
    same = {_kind(death) for death in tail} if all(death.raised for death in tail) else set()
    if policy.number == 0 or (last.raised and not last.worked) or FULL in last.cause:
        why = ""
    elif len(tail) == SAME_EXCEPTION and len(same) == 1:
        why = f"; it has done so {SAME_EXCEPTION} times in a row"
    elif len(before) >= policy.number:
        why = f"; it has been started again {len(before)} times within {policy.window_s:g} s"
    else:
        return Decision(policy.backoff_s * 2 ** len(before))
    return Decision(0.0, f"{name} {last.cause}{why}{_described(before)}")


def _kind(death: Death) -> str:
    return re.sub(r"\d+", "#", death.cause)


def _described(deaths: Sequence[Death]) -> str:
    """The causes of earlier deaths, each once, with how often it occurred."""
    if not deaths:
        return ""
    causes = collections.Counter(death.cause for death in deaths)
    return ". Before that it " + "; it ".join(
        cause + (f" ({times} times)" if times > 1 else "") for cause, times in causes.items()
    )


class History:
    """A node's deaths, and when its next life starts.

    Args:
      name: the node's name.
      policy: decides what follows from a death.
      now: the time, by the clock of all times below.

    Attributes:
      deaths: its deaths, the oldest first.
      began: when its present life began, or its first one.
      due: when its next life starts; None while it lives.
      worked: whether one of its lives has come as far as its work.
      stopped_s: seconds for which its present life has been stopped by a signal, before its first heartbeat.
    """

    def __init__(self, name: str, policy: Restarts, now: float):
        self.deaths: list[Death] = []
        self.began = now
        self.due: float | None = None
        self.worked = False
        self.stopped_s = 0.0
        self._name = name
        self._policy = policy

    def die(self, now: float, cause: str, raised: bool = False) -> Decision:
        """Notes a death, and decides what follows from it."""
        self.deaths.append(Death(now, cause, raised, self.worked))
        decision = decide(self._name, self._policy, self.deaths)
        if not decision.failure:
            self.due = now + decision.delay_s
        return decision

    def begin(self, now: float) -> None:
        """Notes that the next life has started."""
        self.began, self.due, self.stopped_s = now, None, 0.0


def past(histories: Mapping[str, History]) -> dict[str, dict[str, Any]]:
    """For a view: the nodes that have died, how often, the last cause, and whether they are still down."""
    return {
        name: {"number": len(history.deaths), "cause": history.deaths[-1].cause, "down": history.due is not None}
        for name, history in histories.items()
        if history.deaths
    }


def pending(histories: Mapping[str, History]) -> bool:
    """Whether a node is to start again."""
    return any(history.due is not None for history in histories.values())
