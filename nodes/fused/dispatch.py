"""A fused program's dispatches: how many rounds each has, and what the host has yet to collect of it."""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any, NamedTuple

import jax

from boonta.agents.base import Nest
from boonta.nodes.base import Node
from boonta.nodes.fused import fusion
from boonta.nodes.fused.learners import EvaluationResult
from boonta.nodes.learning.loops import pieces
from boonta.nodes.watch.calls import polled
from boonta.nodes.watch.stopping import StopRule

DISPATCH_S = 0.5  # The length of a dispatch, which nothing can interrupt.
DISPATCH_DEADLINE_S = 600.0
EVALUATION_DEADLINE_S = 4 * 3_600.0  # Episodes may go on for tens of thousands of steps, each with a search.


class Pending(NamedTuple):
    """A dispatch whose results the host has not collected yet.

    Attributes:
      rounds: number of rounds dispatched.
      outcomes: outcomes of the rounds, to be added up.
      reports: the reports of all hosts, from the agreement.
      evaluation: the evaluation after the rounds; None if none was due.
      learner: a copy of the learner state that was evaluated; None if none was.
      updates: number of updates so far, including these rounds.
      env_steps: number of env steps so far, including these.
    """

    rounds: int
    outcomes: list[fusion.RoundResult]
    reports: Any
    evaluation: EvaluationResult | None
    learner: Nest
    updates: int
    env_steps: int

    @property
    def results(self) -> tuple[Any, Any, Any]:
        """What the host collects: outcomes, reports and evaluation."""
        return self.outcomes, self.reports, self.evaluation

    @property
    def waits_for(self) -> str:
        """The name of what the host waits for until it has the results."""
        return "the device" if self.evaluation is None else "an evaluation, whose episodes --evaluation.max-steps cuts"

    @property
    def deadline_s(self) -> float:
        """Seconds after which the device counts as hung."""
        return DISPATCH_DEADLINE_S if self.evaluation is None else EVALUATION_DEADLINE_S


class Pipeline:
    """The dispatches of a node that the host has yet to collect: the device computes one while it takes the one before.

    Args:
      node: the node that dispatches; it waits for the device under the names that `Pending` gives.
      take: called with each dispatch, and with its outcomes, reports and evaluation on the host, the oldest first.

    Attributes:
      pace: rounds a second, as measured here; 0 while that isn't known.
    """

    def __init__(self, node: Node, take: Callable[[Pending, list[fusion.RoundResult], Any, Any], None]):
        self.pace = 0.0
        self._node, self._take = node, take
        self._waiting: collections.deque[Pending] = collections.deque()
        self._collector = futures.ThreadPoolExecutor(1, "collector")
        self._collected_at = time.monotonic()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, pending: Pending) -> None:
        """Adds the newest dispatch."""
        self._waiting.append(pending)

    def collect(self) -> None:
        """Collects all dispatches but the newest, and that one as well if it evaluates.

        An evaluation may take a minute: a dispatch behind it would wait as long, and nothing could end that wait.
        """
        while len(self) > 1 or (self and self._waiting[0].evaluation is not None):
            results = self._wait(self._waiting[0])
            pending = self._waiting.popleft()
            self._take(pending, *results)
            now = time.monotonic()
            if pending.rounds:
                self.pace = pending.rounds / max(now - self._collected_at, 1e-9)
            self._collected_at = now

    def settle(self) -> None:
        """Waits until the device has computed what was dispatched, and leaves it to be collected."""
        for pending in self._waiting:
            self._wait(pending)

    def drain(self) -> None:
        """Collects all dispatches, also after the node was asked to end.

        Raises:
          TimeoutError: the device hangs.
        """
        while self:
            pending = self._waiting.popleft()
            results = self._poll(pending)(pending.deadline_s)
            if results is None:
                raise TimeoutError(f"{self._node.name} waited {pending.deadline_s:.0f} s for {pending.waits_for}")
            self._take(pending, *results)

    def _wait(self, pending: Pending) -> tuple[list[fusion.RoundResult], Any, Any]:
        return self._node.wait_for(pending.waits_for, self._poll(pending), pending.deadline_s)

    def _poll(self, pending: Pending) -> Callable[[float], Any]:
        """Begins to copy a dispatch's results to the host; returns what polls for them, see `Node.wait_for`."""
        return functools.partial(polled, self._collector.submit(jax.device_get, pending.results))


class Lengths:
    """Chooses how many rounds a dispatch has, as a function of nothing that differs between hosts.

    Args:
      program: the fused program.
      eval_every: updates between evaluations, from the first interval's end on; 0 makes none.
      limits: the program's stop rule.
    """

    def __init__(self, program: fusion.Fusion, eval_every: int, limits: StopRule):
        self._program, self._eval_every, self._limits = program, eval_every, limits
        self._last = 1

    def rounds(self, updates: int, env_steps: int, pace: float) -> int:
        """Rounds for about `DISPATCH_S`, but not beyond the next evaluation or a limit; 0 where one is reached.

        Args:
          updates, env_steps: those so far.
          pace: rounds a second; 0 while that isn't known.
        """
        program, rule = self._program, self._limits
        rounds = max(1, min(int(DISPATCH_S * pace), 4 * self._last))
        if self._eval_every:
            rounds = min(rounds, pieces(self._due(updates) - updates, program.updates))
        rounds = min(rounds, pieces(rule.most_updates - updates, program.updates))
        if rule.env_steps is not None:
            rounds = min(rounds, pieces(rule.env_steps - env_steps, program.env_steps))
        self._last = rounds or self._last
        return rounds

    def evaluates(self, before: int, updates: int, env_steps: int) -> bool:
        """Whether rounds end with an evaluation: one is due, or a limit is reached, so that no others follow.

        Args:
          before: updates before these rounds.
          updates, env_steps: those so far, these rounds' included.
        """
        limits = (self._limits.most_updates, updates), (self._limits.env_steps, env_steps)
        ends = any(limit is not None and count >= limit for limit, count in limits)
        return bool(self._eval_every) and (ends or self._due(before) <= updates)

    def _due(self, updates: int) -> int:
        """The number of updates at which the next evaluation is due.

        Of the first interval also an eighth, a quarter and a half end with one: it may have millions of env steps, and
        nobody should wait for all of them to see how a run does. More would cost more than the training between.
        """
        interval = self._eval_every
        early = [interval // parts for parts in (8, 4, 2) if interval // parts > updates]
        return early[0] if early else (updates // interval + 1) * interval
