"""The learner: draws batches, steps the update over its mesh, publishes params, saves checkpoints."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from boonta.agents.base import Agent, Batch
from boonta.agents.metrics import expanded
from boonta.agents.tables import sequence_counts
from boonta.envs.base import EnvSpec
from boonta.nodes.acting.base import VariablesHandle
from boonta.nodes.base import AWAY_S, Node
from boonta.nodes.hosts.agreement import Agreement
from boonta.nodes.hosts.arrays import own
from boonta.nodes.hosts.placement import batch_sharding, make_mesh
from boonta.nodes.learning.loops import updates_in_dispatch
from boonta.nodes.learning.profiling import Profile, Tracer
from boonta.nodes.learning.publishing import open_publishing
from boonta.nodes.learning.saving import Saver, Saving
from boonta.nodes.learning.step import StepResult, allowed_lag, compile_step, priority_metrics, require_finite
from boonta.nodes.snapshots.store import KEEP, Retention
from boonta.nodes.tables.base import Drawn, Store
from boonta.nodes.tables.contract import learned_from
from boonta.nodes.tables.freshness import in_turns, require_every_published
from boonta.nodes.variables import DeviceVariables
from boonta.nodes.watch.reporter import MonitorHandle
from boonta.nodes.watch.reuse import reused
from boonta.nodes.watch.stopwatch import CONNECTING, start_seconds

PUBLISH_REPLAY_EVERY = 10  # Updates; what a replay table holds is older than that anyway.
CHECK_S = 5.0  # Longest wait, before a save, for the newest update's loss.


class Learner(Node):
    """Steps the agent's update. Params are replicated over the mesh, batches split along B; one device or many.

    XLA inserts the all-reduce of the gradients, since the loss is a mean over a sharded batch. A mesh may span hosts,
    each of which has a learner that brings its part of every batch. Where such learners have one monitor, only the
    first has a handle of the variable server, and counts; see `nodes.hosts.learners`.

    Args:
      name: name of this node.
      agent: its update learns from its tables.
      spec: the environments' spec, for which the agent was made.
      replay: what keeps the tables.
      variables: handle of the variable server, or `DeviceVariables`; None if another learner publishes the same.
      monitor: handle of the monitor.
      folder: folder of the checkpoints; the newest one found there is resumed. The one with the best evaluation is in
        `best/` there, see `nodes.snapshots.best`.
      beside: the name of the folder beside it in which the replay server saves its tables, under the same numbers and
        at the same times; empty if there is none.
      start_from: another such folder, or a checkpoint's own; its newest one is used if `folder` has none.
      seed: seed of the params and of the update's randomness.
      devices: how many of this process's devices to learn on; None takes all.
      save_every_s: seconds between checkpoints.
      retention: which checkpoints stay.
      updates_per_step: updates dispatched at once, each on a batch drawn before the first of them changes priorities;
        None is as many as the agent's update names.
      publish_every: updates between publications of params; None is 1 if a queue is among the tables, since its data
        must be fresh, else 10. The first params and the last are always published.
      agreement: decides with the learners of other hosts when to save and to end; None where there are none.
      profile: the trace of some updates that is to be made; None for none.

    Raises:
      ValueError: updates_per_step or publish_every is below 1; or a table's data must be fresh, and they aren't 1.
    """

    role = "learner"

    def __init__(
        self,
        name: str,
        agent: Agent,
        spec: EnvSpec,
        replay: Store,
        variables: VariablesHandle | DeviceVariables | None,
        monitor: MonitorHandle | None = None,
        *,
        folder: str,
        beside: str = "",
        start_from: str | None = None,
        seed: int = 0,
        devices: int | None = None,
        save_every_s: float = 300.0,
        retention: Retention = KEEP,
        updates_per_step: int | None = None,
        publish_every: int | None = None,
        agreement: Agreement | None = None,
        profile: Profile | None = None,
    ):
        super().__init__(name, monitor)
        updates_per_step = updates_in_dispatch(agent.update, updates_per_step)
        if publish_every is None:
            publish_every = 1 if any(table.kind == "queue" for table in agent.tables) else PUBLISH_REPLAY_EVERY
        if updates_per_step < 1 or publish_every < 1:
            raise ValueError(
                f"{name}: updates_per_step is {updates_per_step}, publish_every {publish_every}; they must be at least "
                "1 and 1"
            )
        require_every_published(name, agent.tables, updates_per_step, publish_every)
        self._agent = agent
        self._spec = spec
        self._replay = replay
        self._variables = variables
        self._seed = seed
        self._devices = devices
        self._updates_per_step = updates_per_step
        self._publish_every = publish_every
        self._agreement = agreement or Agreement()
        self._saving = Saving(pathlib.Path(folder), beside, start_from, save_every_s, retention)
        self._profile = profile

    def start(self) -> None:
        self.count(updates=0)  # The counter tells an idle learner from a program without a learner.
        self.on_close(lambda: self._agreement.leave(self.failed))
        self._agreement.join(self, str(self._saving.folder))
        self._tracer = Tracer(self, self._profile, self.settle)
        self._tables = learned_from(self._agent.tables)
        self._in_turns = in_turns(self._tables, self._agreement.shares_tables)
        mesh = make_mesh(self._devices, self._tables[0].batch_size)
        replicated = NamedSharding(mesh, PartitionSpec())
        over_batch = batch_sharding(mesh)
        self._by_device = over_batch.probability  # [B]
        shardings = (replicated, (over_batch,) * self._updates_per_step, None, self._by_device)
        with self.stopwatch("initialising"):
            init = lambda: self._agent.update.init(jax.random.PRNGKey(self._seed))  # noqa: E731
            self._state = jax.jit(init, out_shardings=replicated)()
        with self.stopwatch("restoring the checkpoint"):
            self._saver = Saver(self, self._saving)
            self._state, counts = self._saver.resume(self._state)
            resumed = self._agreement.resumed(counts)
            if self.monitor is not None and resumed is not None:
                with self.stopwatch(f"{CONNECTING} to the monitor"):
                    self.heartbeat()
                self.monitor.resume(self.name, resumed)
            self._updates = int(counts.get("updates", 0))
        self._sound = 0  # The newest of this process's updates whose results are known, and finite.
        self._published = -1
        self._background = futures.ThreadPoolExecutor(1, "publisher")
        self._publish = open_publishing(self, self._variables)
        first = StepResult(self._agent.update.params(self._state), None, {}, ())
        if self._agreement.first:
            self._saver.keep_best()
        self.on_close(self._write_best)
        self._finished = self._background.submit(self._finish, self._updates, first)
        self.settle()
        with self.stopwatch(f"{CONNECTING} to the tables"):
            self._dataset = self._replay.open_dataset(self._tables, over_batch, self.wait_for, self._updates)
        self._drawn: list[tuple[Batch, Drawn]] = []  # Batches of the next step.
        self._newest: tuple[Batch, Drawn] | None = None  # The batch that was drawn last.
        self.on_close(self._dataset.close)
        self.on_close(self._save_the_end)
        with self.stopwatch("compiling"):  # While actors fill the tables; and a wrong loss is seen before any data.
            report = self._agreement.report(False, self._by_device)
            self._step = compile_step(self.name, self._agent, self._spec, shardings, self._state, report)
        self._saver.begin()

    def stop(self) -> None:
        """Stops this learner once all learners agree to stop; otherwise, the others would wait for it in an update."""
        if self._agreement.may_end():
            super().stop()

    def fail(self, error: BaseException) -> None:
        super().fail(self._agreement.explain(error))

    def step(self) -> None:
        while len(self._drawn) < self._updates_per_step:
            self._draw()
        self._agreement.begin()
        batches, drawn = zip(*self._drawn)
        self._drawn.clear()
        with self.stopwatch("updating"), self._tracer.dispatch(self._updates):
            report = self._agreement.report(self._saver.take_due(), self._by_device)
            self._state, outcome = self._step(self._state, batches, self._updates, report)
            self._updates += self._updates_per_step
            reports = self.settle()  # These are of the step before: at most two are under way.
            self._finished = self._background.submit(self._finish, self._updates, outcome, drawn)
        self.count(updates=self._updates_per_step)
        self._saver.follow(self._updates, self._state)
        decision = self._agreement.merge(reports, self._updates)
        if decision.end:
            self.stop()
        if decision.save:
            self._save()

    def ready(self) -> bool:
        while len(self._drawn) < self._updates_per_step - 1 and self._dataset.ready():
            self._draw()
        return len(self._drawn) >= self._updates_per_step - 1 and self._dataset.ready()

    def settle(self) -> Any:
        """Waits until the last dispatched step is computed and published; returns its hosts' reports."""
        return self._agreement.settle(self, self._finished)

    def _write_best(self) -> None:
        self._saver.write_best(self._sound if self.failed else self._updates)  # After a failure one from before.

    def _save_the_end(self) -> None:
        if not self.failed and self._agreement.saves_at_end():
            self._save(last=True)
            if self._published < self._updates and not self.failure and self._is_sound():
                self._publish(self._updates, self._agent.update.params(self._state))

    def _draw(self) -> None:
        """Takes one more batch for the next step."""
        if self._in_turns:
            with self.stopwatch("updating"):
                self.settle()
        self._newest = batch, drawn = self.wait_for(self._dataset.waits_for, self._next, AWAY_S)
        if drawn.stale:
            self.count(stale_sequences=drawn.stale)
        self._log_origin(drawn, self._updates + len(self._drawn))
        self._drawn.append((batch, drawn))

    def _next(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """The next batch; the last one again where the learner is to end and none comes."""
        if self._finished.done():
            self._finished.result()  # Raises what failed: what wasn't published may be what actors wait for.
        return self._dataset.next(timeout_s) or (self._newest if self._agreement.makes_do() else None)

    def _log_origin(self, drawn: Drawn, updates: int) -> None:
        """Measures each table's part of a batch: its share, the share wanted, its targets' age in updates."""
        for i, (table, count) in enumerate(zip(self._tables, sequence_counts(self._tables))):
            of_it = drawn.table == i
            self.sample(f"batch_share/{table.name}", float(np.mean(of_it)))
            self.measure({f"batch_share_wanted/{table.name}": count / table.batch_size})
            if of_it.any():
                self.measure({f"target_age/{table.name}": updates - float(np.mean(drawn.version[of_it]))})

    def _finish(self, version: int, outcome: StepResult, drawn: Sequence[Drawn] = ()) -> Any:
        """Runs beside the next step: waits for the device, publishes and logs; returns the hosts' reports."""
        priorities, metrics, reports = jax.device_get(outcome[1:])
        before = version - len(drawn)  # Updates made before this step.
        values = expanded(metrics)
        logs = [{name: float(value[i]) for name, value in values.items()} for i in range(len(drawn))]
        for i, log in enumerate(logs):
            require_finite(log, before + i + 1)
        if logs and not self._sound:
            self.measure(start_seconds(self.stopwatch) | reused())
        self._sound = version if logs else self._sound
        if not drawn or before // self._publish_every < version // self._publish_every:
            with self.stopwatch("publishing"):
                self._publish(version, outcome.params)
            self._published = version
        if priorities is not None:
            with self.stopwatch("prioritising"):
                for one, its_priorities in zip(drawn, priorities):
                    self._dataset.prioritise(one, own(its_priorities))
        for i, log in enumerate(logs):
            of_batch = {} if priorities is None else expanded(priority_metrics(priorities[i]))
            self.measure(log | allowed_lag(self._tables) | of_batch)
        return reports

    def _is_sound(self) -> bool:
        """Whether the newest step shows no failure within `CHECK_S`; the next step would raise it."""
        futures.wait([self._finished], timeout=CHECK_S)
        return not self._finished.done() or self._finished.exception() is None

    def _save(self, last: bool = False) -> None:
        """Saves a checkpoint, unless the newest step has failed: the earlier ones are worth more than this state."""
        with self.stopwatch("saving a checkpoint"):
            if self._is_sound():
                self._saver.save(self._updates, self._state, last)
