"""Anakin: one node that acts, learns and evaluates in compiled programs; the host only dispatches and logs.

See "Podracer architectures" (https://arxiv.org/abs/2104.06272), "Online Learning with Anakin".
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from boonta.agents.base import Agent
from boonta.agents.metrics import expanded
from boonta.envs.jax.base import JaxEnv
from boonta.nodes.actor import NUM_ENVS
from boonta.nodes.base import Node
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.fused import fusion, stage
from boonta.nodes.fused.compiled import Compiled, shapes_of
from boonta.nodes.fused.dispatch import Lengths, Pending, Pipeline
from boonta.nodes.fused.episodes import Recent
from boonta.nodes.fused.evaluations import Evaluations
from boonta.nodes.fused.learners import EvaluationResult, FusedLearner, Setup, check_setup, one_learner
from boonta.nodes.fused.nans import described
from boonta.nodes.fused.saver import StateSaver
from boonta.nodes.hosts.agreement import Agreement, Decision
from boonta.nodes.learning.profiling import Profile, Tracer
from boonta.nodes.snapshots.store import KEEP, MEMBERS, Retention
from boonta.nodes.tables.contract import learned_from
from boonta.nodes.watch.evaluation import Evaluation
from boonta.nodes.watch.reporter import MonitorHandle
from boonta.nodes.watch.reuse import reused
from boonta.nodes.watch.stopping import StopRule
from boonta.nodes.watch.stopwatch import start_seconds


class Anakin(Node):
    """Runs an agent fused with a JAX environment: rollouts, updates and evaluation are programs of the device.

    The environment slots and every batch are split over the mesh, params are replicated, and XLA adds the collectives.
    While the device computes a dispatch, the host collects the previous one, saves and logs. A mesh may span hosts,
    each of which has such a node: they dispatch the same rounds, by what their reports agree on, and the first one
    keeps the counters and the best checkpoint.

    A snapshot holds the whole state: learner, environments, table, keys and counters. A run that goes on from one of
    its own has the same bits as one that was never interrupted. It takes as much room as the state does on the devices:
    megabytes with a queue, gigabytes with a replay table of images. The devices rest while the host copies it.

    Args:
      name: name of this node.
      agent: an agent with one queue, or with replay tables, which the program keeps on the device.
      env: the environment of a slot.
      monitor: handle of the monitor.
      folder: folder of the checkpoints; the newest one found there is resumed. If it was written by another way to run
        the program, or with environments or a table of other shapes, these start afresh.
      start_from: another such folder, or a checkpoint's own; its newest one is used if `folder` has none, with fresh
        environments.
      seed: seed of the params, the environments, and all randomness.
      num_envs: B, environment slots, over all hosts; None is the table's batch size.
      num_replayed: most sequences that are replayed at once, where reanalyzers would fill a table.
      devices: how many of this process's devices to use; None takes all.
      evaluation: how it is evaluated, by updates or by env steps, which are rounded to whole updates. There are
        evaluations after an eighth, a quarter and a half of the first interval, too, and at the limit of either.
      stop: the program's stop rule; its limits of updates and env steps are kept exactly, or to the round.
      save_every_s: seconds between checkpoints.
      retention: which checkpoints stay.
      fuse: `setup -> fused learner`; None fuses one learner.
      agreement: decides with the nodes of other hosts when to save and to end; None where there are none.
      profile: the trace of some updates that is to be made; None for none.

    Raises:
      ValueError: the environment is not pure, the agent is for another environment, there are too few devices, or the
        batch does not divide over them.
    """

    role = "anakin"

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: JaxEnv,
        monitor: MonitorHandle | None = None,
        *,
        folder: str,
        start_from: str | None = None,
        seed: int = 0,
        num_envs: int | None = None,
        num_replayed: int = NUM_ENVS,
        devices: int | None = None,
        evaluation: Evaluation = Evaluation(),  # noqa: B008
        stop: StopRule | None = None,
        save_every_s: float = 300.0,
        retention: Retention = KEEP,
        fuse: Callable[[Setup], FusedLearner] = one_learner,
        agreement: Agreement | None = None,
        profile: Profile | None = None,
    ):
        super().__init__(name, monitor)
        num_envs = learned_from(agent.tables)[0].batch_size if num_envs is None else num_envs
        setup = Setup(name, agent, env, num_envs, devices, seed, evaluation, num_replayed)
        self._agent, self._env, self._evaluation = agent, env, evaluation
        self._limits, self._folder, self._start_from = stop or StopRule(), pathlib.Path(folder), start_from
        self._save_every_s, self._retention, self._profile = save_every_s, retention, profile
        self._agreement = agreement or Agreement()
        check_setup(setup, self._limits)
        self._fused, self._num_envs = fuse(setup), num_envs
        self._unsound: dict[str, str] = {}  # By learner, what its environments have shown as NaN.
        program = self._fused.program
        self._eval_every = evaluation.in_updates(program.env_steps / program.updates / self._fused.learners)

    def start(self) -> None:
        fused = self._fused
        self.count(updates=0)  # The counter tells an idle learner from a program without a learner.
        with self.stopwatch("initialising"):
            learner = jax.jit(fused.begin, out_shardings=fused.place_learner)()
        with self.stopwatch("restoring the checkpoint"):
            checkpointer = Checkpointer(self._state_folder, self._retention, self._start_from, self.warn)
            learner, self._base = checkpointer.resume(learner)
            self._saver = StateSaver(checkpointer, self.warn)
            resumed = self._agreement.resumed(self._base)
            if self.monitor is not None and resumed is not None:
                self.heartbeat()
                self.monitor.resume(self.name, resumed)
            shapes = shapes_of(fused, learner)
            rest = self._saver.rest(shapes)
        self._updates = int(self._base.get("updates", 0))
        with self.stopwatch("compiling"):
            self._device = Compiled(fused, shapes, bool(self._eval_every), begins=rest is None)
            seconds = self._device.seconds
            self.measure({"compile_s": sum(seconds.values()), **{f"compile_s/{k}": v for k, v in seconds.items()}})
        self._env_steps = int(self._base.get("env_steps", 0))
        self._episodes = Recent(fresh=not self._updates)
        if rest is None:
            with self.stopwatch("filling the table"):
                self._state, episodes = self._device.init(learner, self._updates, fused.run_key)
                self._env_steps += fused.program.first_steps
                episodes = self._sound(jax.device_get(episodes), self._updates, self._env_steps)
                self._account(fused.program.first_steps, fused.program.first_renewed, episodes)
        else:
            self._state = rest._replace(learner=learner)
        self._pipeline = Pipeline(self, self._take)
        self._played: stage.Episodes | None = None  # Those since the last evaluation.
        self._lengths = Lengths(fused.program, self._eval_every, self._limits)
        self._decision = Decision()
        self._evaluations = Evaluations(fused, self._folder, self._evaluation, self.warn, self._agreement.first)
        self._saved_at = time.monotonic()
        self._tracer = Tracer(self, self._profile, self._pipeline.settle)
        self.on_close(self._end_evaluations)
        self.on_close(self._save_the_end)

    def step(self) -> None:
        """Dispatches the next rounds, then collects the previous ones, which the device has computed meanwhile."""
        rounds = self._lengths.rounds(self._updates, self._env_steps, self._decision.pace)
        with self._tracer.dispatch(self._updates):
            self._pipeline.put(self._dispatch(rounds))
        self._pipeline.collect()
        if self._decision.save:
            self._save_beside()
            self._decision = self._decision._replace(save=False)
        if self._decision.end:
            self.stop()
        elif not rounds:
            self.sleep(0.1)  # The stop rule's limit is reached; the monitor will end the program.

    def _end_evaluations(self) -> None:
        """Saves the best checkpoint, which is small, and may find room on the disk where the last found none."""
        with self.stopwatch("saving the best checkpoint"), contextlib.closing(self._evaluations):
            self._evaluations.write()

    def _save_the_end(self) -> None:
        """Saves the last checkpoint, unless a failure may have damaged the state: earlier ones are worth more."""
        if self.failed or not self._agreement.saves_at_end():
            return
        self._collect_all()
        with self.stopwatch("saving a checkpoint"):
            self._saver.save(self._updates, self._state, self._counters())
            if self._fused.best is not None and self._evaluations.rows:
                record, best = self._evaluations.best_member(self._state.learner, self._last_update, self._updates)
                if self._agreement.first:
                    checkpointer = Checkpointer(self._folder, self._retention, warn=self.warn)
                    checkpointer.save_alone(self._updates, best, self._counters(), record.as_files())

    @property
    def _state_folder(self) -> pathlib.Path:
        """The folder for the learner state; a population's is apart from the best member's."""
        return self._folder if self._fused.best is None else self._folder.parent / MEMBERS

    def _dispatch(self, rounds: int) -> Pending:
        """Dispatches rounds, or none where a limit is reached: then hosts only exchange their reports."""
        with self.stopwatch("dispatching"):
            due = time.monotonic() - self._saved_at > self._save_every_s
            if due:
                self._saved_at = time.monotonic()  # All hosts save two dispatches later; until then no save is due.
            reports = self._device.share(self._agreement.report(due, self._device.by_device, self._pipeline.pace))
            outcomes: list[fusion.RoundResult] = []
            evaluation, evaluated, before = None, None, self._updates
            if rounds:
                self._state, outcomes = self._device.rounds(self._state, rounds)
                self._updates += rounds * self._fused.program.updates
                self._env_steps += rounds * self._fused.program.env_steps
            if rounds and self._lengths.evaluates(before, self._updates, self._env_steps):
                evaluation = self._device.evaluate(self._state.learner, self._updates, self._fused.eval_key)
                evaluated = self._device.copy(self._state.learner)
            return Pending(rounds, outcomes, reports, evaluation, evaluated, self._updates, self._env_steps)

    def _collect_all(self) -> None:
        """Collects what was dispatched, so that a save's counters and metrics are those of the newest update."""
        with self.stopwatch("saving: waiting for the device"):  # Also at the end, which waits for what is called so.
            self._pipeline.drain()

    def _take(
        self, pending: Pending, outcomes: list[fusion.RoundResult], reports: Any, evaluation: EvaluationResult | None
    ) -> None:
        """Takes a dispatch's results, on the host."""
        if outcomes:
            self._log(pending, outcomes, evaluation)
        decision = self._agreement.merge(reports, pending.updates)
        # A step may collect several dispatches; a save that one of them asks for is still to be made.
        self._decision = decision._replace(save=decision.save or self._decision.save)

    def _log(self, pending: Pending, outcomes: list[fusion.RoundResult], evaluation: EvaluationResult | None) -> None:
        if not hasattr(self, "_last_update"):
            self.measure(start_seconds(self.stopwatch) | reused())
        self._last_update = update = expanded(outcomes[-1].metrics)
        evaluated = {} if evaluation is None else evaluation.metrics
        rounds, program = pending.rounds, self._fused.program
        episodes = functools.reduce(stage.total, [outcome.episodes for outcome in outcomes])
        episodes = self._sound(episodes, pending.updates, pending.env_steps)  # Else its NaNs would seem the learner's.
        measured = self._fused.summarise({**update, **evaluated}, pending.updates)
        self._played = episodes if self._played is None else jax.tree.map(np.add, self._played, episodes)
        self.count(updates=rounds * program.updates)
        self._account(rounds * program.env_steps, rounds * program.renewed, episodes)
        if evaluation is not None:
            if self._agreement.first:
                self.count(eval_episodes=self._evaluation.episodes * self._fused.learners)
            measured |= self._evaluations.add(
                evaluation, pending, update, self._played, counts=self._counters(), start=self._episodes.start
            )
            self._played = None
        self.measure(measured)  # At once: a heartbeat in between would give an evaluation the version of the last.
        if evaluation is not None:
            self.heartbeat()  # The next evaluation may come before a regular one, and take this one's place.

    def _sound(self, episodes: stage.Episodes, updates: int, env_steps: int) -> stage.Episodes:
        """Ends the run once the environments of all learners have shown NaN; one member's are no loss of the others.

        Returns:
          The episodes without the counts of NaN.
        """
        if episodes.nans is None:
            return episodes
        names = self._fused.names
        found = described(episodes.nans, names, env_steps // (self._num_envs * len(names)), updates)
        self._unsound |= found
        if len(self._unsound) == len(names):
            more = f"; it is so in all {len(names)} members" if len(names) > 1 else ""
            raise FloatingPointError(self._unsound[names[0]] + more)
        for name, message in found.items():
            self.warn(message, name)
        return episodes._replace(nans=None)

    def _account(self, env_steps: int, renewed: int, episodes: stage.Episodes) -> None:
        """Counts steps, episodes and renewed sequences."""
        episodes = jax.tree.map(lambda sums: float(np.sum(sums)), episodes)
        frames = env_steps * self._env.spec.frames_per_step
        if self._agreement.first:  # These are of all hosts together.
            steps = renewed * learned_from(self._agent.tables)[0].sequence_length
            renewals = {"reanalyzed_steps": steps, "reanalyzed_sequences": renewed} if renewed else {}
            self.count(env_steps=env_steps, frames=frames, episodes=float(episodes.number), **renewals)
        self.measure(self._episodes.add(episodes))

    def _save_beside(self) -> None:
        """Copies the state, and saves the copy while the device goes on."""
        self._collect_all()
        with self.stopwatch("saving a checkpoint"):
            self._evaluations.write()  # Otherwise it would have to wait for the copy to be saved.
            self._saver.begin(self._updates, self._state, self._counters())
        self._saved_at = time.monotonic()

    def _counters(self) -> dict[str, float]:
        """The program's counters at the newest update: those resumed, and what this node has counted since."""
        counts = dict(self._base)
        for name, value in self.report()["counts"].items():
            counts[name] = counts.get(name, 0.0) + value
        return {**counts, "seconds": self.program_counts.get("seconds", counts.get("seconds", 0.0))}
