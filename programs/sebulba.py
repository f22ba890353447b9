"""The wiring of programs whose nodes are threads of one process per host; no Launchpad, no Reverb, any Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from agents.base import Agent, written_by
from envs.base import Env
from nodes.base import Node
from nodes.monitor import Monitor
from nodes.pipe import Pipe
from nodes.sebulba import Placed, Placement, split
from nodes.variables import Colocated, DeviceVariables, LockStep
from programs.run import Run


class Shared(NamedTuple):
    """What the nodes of a process have in common.

    Attributes:
      monitor: others report to it.
      acting: devices that act.
      pipe: to the learner, on its devices.
      variables: from it.
      lock_step: None where actors run freely.
    """

    monitor: Monitor
    acting: Sequence[jax.Device]
    pipe: Pipe
    variables: DeviceVariables
    lock_step: LockStep | None


class Sebulba:
    """A program that grows a node at a time, as a `Cluster` does; handles are the objects themselves.

    Args:
      name: of the program.
      run: where and how long.
      agent: with one table, a queue.
      env: actors act in it.
      placement: how this host's devices are shared out.
    """

    def __init__(self, name: str, run: Run, agent: Agent, env: Env, placement: Placement):
        self.name, self.run, self.agent, self.env, self.placement = name, run, agent, env, placement
        self._added: list[Callable[[Shared], list[Node]]] = []

    def add_learner(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds the node that empties the pipe, on the learning devices."""
        run = self.run
        settings = {"folder": run.path("checkpoints"), "seed": run.seed, "save_every_s": run.save_every_s, **settings}

        def make(shared: Shared) -> list[Node]:
            handles = (self.agent, shared.pipe, shared.variables, shared.monitor)
            return [node("learner", *handles, devices=len(shared.pipe.devices), **settings)]

        self._added.append(make)

    def add_actors(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds a node for each acting device, with the placement's threads and environments."""
        threads = self.placement.threads
        settings = {
            "num_envs": threads * self.placement.num_envs,
            "threads": threads,
            "seed": self.run.seed,
            **settings,
        }

        def make_one(shared: Shared, i: int, device: jax.Device) -> Node:
            params = Colocated(shared.variables, device, shared.lock_step)
            handles = (self.agent, Placed(self.env, device), params, shared.pipe, shared.monitor)
            return node(f"actor/{i}", *handles, first_group=i * threads, **settings)

        self._added.append(lambda shared: [make_one(shared, i, device) for i, device in enumerate(shared.acting)])

    def add_evaluator(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds a node that measures params, on the last acting device, and writes no learning data."""
        settings = {"seed": self.run.seed, **settings}

        def make(shared: Shared) -> list[Node]:
            params = Colocated(shared.variables, shared.acting[-1])
            return [node("evaluator", self.agent, self.env, params, shared.monitor, **settings)]

        self._added.append(make)

    def build(self) -> tuple[Monitor, list[Node]]:
        """The monitor, and all nodes that were added.

        Raises:
          ValueError: says which setting can't work here, what it is and what it must be.
        """
        shared = self._share()
        return shared.monitor, [node for make in self._added for node in make(shared)]

    def _share(self) -> Shared:
        placement, tables = self.placement, self.agent.tables
        if len(tables) > 1:
            raise ValueError(f"{self.name}: tables are {[table.name for table in tables]}; a pipe is one queue")
        (table,) = written_by("actor", tables)
        acting, learning = split(placement, jax.devices())
        pipe = Pipe(table, learning, None if placement.lag is None else placement.groups)
        pipe.width(placement.num_envs)  # refuses batches that don't divide
        lock_step = None
        if placement.lag is not None:
            lock_step = LockStep(placement.lag, placement.groups, placement.num_envs, table.batch_size)
        monitor = Monitor("monitor", self.run.workdir, self.run.stop)
        return Shared(monitor, acting, pipe, DeviceVariables(acting, placement.lag or 0), lock_step)
