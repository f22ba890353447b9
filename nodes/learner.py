"""The learner: takes batches, steps the update over its mesh, publishes params, saves checkpoints."""

from __future__ import annotations

import pathlib
import time
from concurrent import futures
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.agents.base import Agent, Batch, Steps
from boonta.nodes.base import Node
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.hosts.coordination import own, place
from boonta.nodes.tables.base import Drawn, open_dataset
from boonta.nodes.tables.contract import learned_from, sequence_counts
from boonta.nodes.variables import publish

if TYPE_CHECKING:
    from boonta.nodes.hosts.host_monitor import HostMonitor

PUBLISH_DEADLINE_S = 300.0  # the first update compiles
CHECK_S = 5.0  # for the newest update to show that its state is worth keeping; a save at the end has little time

# Of an update, for others: params, priorities [B] or None, metrics, what hosts told each other.
Outcome = tuple[Any, Any, dict[str, Any], Any]


class Learner(Node):
    """Steps the agent's update. Params are replicated over the mesh, batches split along B; one device or many.

    XLA inserts the all-reduce of the gradients, since the loss is a mean over a batch that is sharded. A mesh may span
    hosts, each of which has a learner that brings its part of every batch.

    Args:
      name: of this node.
      agent: the update and its tables.
      replay: a `nodes.tables.base.Store`, or the handle of one.
      variables: handle of the variable server, or `DeviceVariables`.
      monitor: handle.
      folder: for checkpoints; the newest one found there is resumed.
      start_from: another such folder, whose newest one is gone on from where the first has none.
      seed: of the params and of the update's randomness.
      devices: how many of this process's devices to learn on; None takes all.
      save_every_s: seconds between checkpoints.
      council: this host's `HostMonitor`, of several; they agree on when to save and to end.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        replay: Any,
        variables: Any,
        monitor: Any = None,
        *,
        folder: str,
        start_from: str | None = None,
        seed: int = 0,
        devices: int | None = None,
        save_every_s: float = 300.0,
        council: HostMonitor | None = None,
    ):
        super().__init__(name, monitor)
        self._agent = agent
        self._replay = replay
        self._variables = variables
        self._folder, self._start_from = pathlib.Path(folder), start_from
        self._seed = seed
        self._devices = devices
        self._save_every_s = save_every_s
        self._council = council

    def start(self) -> None:
        self._tables = learned_from(self._agent.tables)
        self._sequences = sequence_counts(self._tables)
        mesh = make_mesh(self._devices, self._tables[0].batch_size)
        replicated = NamedSharding(mesh, PartitionSpec())
        by_column = NamedSharding(mesh, PartitionSpec(None, "batch"))  # [T, B, ...]
        over_batch = Batch(Steps(*[by_column] * len(Steps._fields)), NamedSharding(mesh, PartitionSpec("batch")))
        with self.stopwatch("initialising"):
            init = lambda: self._agent.update.init(jax.random.PRNGKey(self._seed))  # noqa: E731
            self._state = jax.jit(init, out_shardings=replicated)()
        with self.stopwatch("restoring the checkpoint"):
            self._checkpointer = Checkpointer(self._folder, start_from=self._start_from)
            counting = self.monitor if self._council is None or self._council.hosts.first else None
            self._state, counts = self._checkpointer.resume(self._state, counting)
            self._updates = int(counts.get("updates", 0))
        self._by_device = NamedSharding(mesh, PartitionSpec("batch"))
        self._step = jax.jit(
            self._update,
            in_shardings=(replicated, over_batch, None, self._by_device),
            out_shardings=replicated,
            donate_argnums=0,
        )
        self._publisher = futures.ThreadPoolExecutor(1, "publisher")
        first: Outcome = (self._agent.update.params(self._state), None, {}, ())
        self._published = self._publisher.submit(self._publish, self._updates, first)
        self.settle()
        self._dataset = open_dataset(self._replay, self._tables, over_batch)
        self._saved_at = time.monotonic()

    def step(self) -> None:
        batch, drawn = self.wait_for(self._dataset.waits_for, self._dataset.next)
        self._tell_origin(drawn)
        with self.stopwatch("updating"):
            self._state, outcome = self._step(self._state, batch, self._updates, self._told())
            self._updates += 1
            told = self.settle()  # with the update before this one; at most two are under way
            self._published = self._publisher.submit(self._publish, self._updates, outcome, drawn)
        self.count(updates=1)
        if self._is_to_save(told):
            self._save()

    def ready(self) -> bool:
        return self._dataset.ready()

    def settle(self) -> Any:
        """Waits until the update before this one has been made and published; what hosts told each other with it."""
        deadline = time.monotonic() + PUBLISH_DEADLINE_S
        while not self.stopping:
            try:
                return self._published.result(timeout=0.5)
            except futures.TimeoutError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.name}: an update took over {PUBLISH_DEADLINE_S:.0f} s") from None

    def close(self) -> None:
        if hasattr(self, "_published") and not self.failed and (self._council is None or self._council.agreed):
            self._save()  # which hosts can do but together
        if hasattr(self, "_dataset"):
            self._dataset.close()

    def _update(self, state: Any, batch: Batch, updates: Any, told: Any) -> tuple[Any, Outcome]:
        state, priorities, metrics = self._agent.update.step(state, batch)
        metrics = metrics | policy_lag(updates, batch.steps.version)
        return state, (self._agent.update.params(state), priorities, metrics, told)

    def _due(self) -> bool:
        return time.monotonic() - self._saved_at > self._save_every_s

    def _told(self) -> Any:
        """What this host tells the others with an update: int32 [devices, ...], the same from each device."""
        if self._council is None:
            return ()
        saving, devices = self._due(), len(self._by_device.addressable_devices)
        if saving:
            self._saved_at = time.monotonic()  # once is enough, though it takes two updates until all have heard
        return place(np.tile(self._council.tell(saving), (devices, 1)), self._by_device)

    def _is_to_save(self, told: Any) -> bool:
        """Whether a checkpoint is due: for hosts, whether all find so now. Stops if they have agreed to end."""
        if self._council is None:
            return self._due()
        if told is None or not len(told):
            return False
        saving = self._council.conclude(told[:: len(told) // self._council.hosts.number], self._updates)
        if self._council.agreed:
            self.stop()
        return saving

    def _tell_origin(self, drawn: Drawn) -> None:
        """Measures what each table gave to a batch: its share, the share wanted, its targets' age in updates."""
        for i, (table, count) in enumerate(zip(self._tables, self._sequences)):
            of_it = drawn.table == i
            self.sample(f"batch_share/{table.name}", float(np.mean(of_it)))
            self.measure({f"batch_share_wanted/{table.name}": count / table.batch_size})
            if of_it.any():
                self.measure({f"target_age/{table.name}": self._updates - float(np.mean(drawn.version[of_it]))})

    def _publish(self, version: int, outcome: Outcome, drawn: Drawn | None = None) -> Any:
        """Runs beside the next update: waits for the device, then sends; what the hosts told each other."""
        params, *others = outcome
        priorities, metrics, told = jax.device_get(others)
        require_finite(metrics, version)
        with self.stopwatch("publishing"):
            publish(self._variables, version, params)
        if priorities is not None and drawn is not None:
            with self.stopwatch("prioritising"):
                self._dataset.prioritise(drawn, own(priorities))
        if metrics:  # none come with the first params
            metrics = {name: float(value) for name, value in metrics.items()}
            self.measure(metrics)
            self.warn(self._agent.update.warning(metrics))
        return told

    def _save(self) -> None:
        with self.stopwatch("saving a checkpoint"):
            futures.wait([self._published], timeout=CHECK_S)
            if self._published.done() and self._published.exception() is not None:
                return  # the next step raises it; the checkpoints before are worth more than this state
            counts = {**self.program_counts, "updates": float(self._updates)}
            counts.pop("eval_return", None)
            self._checkpointer.save(self._updates, self._state, counts)
        self._saved_at = time.monotonic()


def require_finite(metrics: dict[str, Any], updates: int) -> None:
    """Refuses to go on from a loss that isn't a number.

    Raises:
      FloatingPointError: says which loss, and after how many updates.
    """
    loss = metrics.get("loss", 0.0)
    if not np.isfinite(loss):
        raise FloatingPointError(
            f"the loss is {float(loss)} after {updates:,} updates; the newest checkpoint is from before: lower the "
            "learning rate, or look for what the environment shows or rewards that isn't finite"
        )


def policy_lag(updates: Any, version: jax.Array) -> dict[str, jax.Array]:
    """Metrics of a batch: updates between the params that acted, `version` [T, B], and those that learn."""
    lag = updates - version.astype(jnp.float32)
    return {"policy_lag": jnp.mean(lag), "policy_lag_max": jnp.max(lag)}


def make_mesh(devices: int | None, batch_size: int) -> Mesh:
    """A one-axis mesh, "batch", over the first devices of this process, and of the others if there are any.

    Raises:
      ValueError: there are fewer devices, or the batch doesn't divide over them.
    """
    present, processes = jax.local_devices(), jax.process_count()
    count = len(present) if devices is None else devices
    if not 1 <= count <= len(present):
        raise ValueError(f"learner devices is {count}; this process has {len(present)} {present[0].platform} devices")
    if batch_size % (count * processes):
        over = f"{count} learner devices" + (f" on each of {processes} hosts" if processes > 1 else "")
        raise ValueError(f"batch_size is {batch_size}; it must divide over {over}")
    chosen = [[device for device in jax.devices() if device.process_index == i][:count] for i in range(processes)]
    return Mesh(np.array(chosen).flatten(), ("batch",))
