"""The wiring of programs whose nodes are threads of one process per host; no Launchpad, no Reverb, any Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from agents.base import Agent, Table, learned_from, written_by
from envs.base import Env
from nodes.base import Node
from nodes.learner import make_mesh
from nodes.local_replay import LocalReplay
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
      learning: how many learn.
      replay: from actors to the learner.
      variables: from it.
      lock_step: None where actors run freely.
    """

    monitor: Monitor
    acting: Sequence[jax.Device]
    learning: int
    replay: Pipe | LocalReplay
    variables: DeviceVariables
    lock_step: LockStep | None


class Sebulba:
    """A program that grows a node at a time, as a `Cluster` does; handles are the objects themselves.

    Args:
      name: of the program.
      run: where and how long.
      agent: with one table.
      env: actors act in it.
      placement: how this host's devices are shared out.
    """

    def __init__(self, name: str, run: Run, agent: Agent, env: Env, placement: Placement):
        self.name, self.run, self.agent, self.env, self.placement = name, run, agent, env, placement
        self._added: list[Callable[[Shared], list[Node]]] = []

    def add_learner(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds the node that takes batches, and learns on the learning devices."""
        run = self.run
        settings = {"folder": run.path("checkpoints"), "seed": run.seed, "save_every_s": run.save_every_s, **settings}

        def make(shared: Shared) -> list[Node]:
            handles = (self.agent, shared.replay, shared.variables, shared.monitor)
            return [node("learner", *handles, devices=shared.learning, **settings)]

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
            env = Placed(self.env, device) if isinstance(shared.replay, Pipe) else self.env
            handles = (self.agent, env, params, shared.replay, shared.monitor)
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
            raise ValueError(f"{self.name}: tables are {[table.name for table in tables]}; one process has but one")
        (table,) = learned_from(written_by("actor", tables))
        acting, learning = split(placement, jax.devices())
        make_mesh(len(learning), table.batch_size)  # refuses batches that don't divide over the devices
        replay, lock_step = self._open(table, learning), None
        if placement.lag is not None:
            lock_step = LockStep(placement.lag, placement.groups, placement.num_envs, table.batch_size)
        monitor = Monitor("monitor", self.run.workdir, self.run.stop)
        return Shared(monitor, acting, len(learning), replay, DeviceVariables(acting, placement.lag or 0), lock_step)

    def _open(self, table: Table, learning: Sequence[jax.Device]) -> Pipe | LocalReplay:
        placement = self.placement
        if table.kind == "queue":
            pipe = Pipe(table, learning, None if placement.lag is None else placement.groups)
            pipe.width(placement.num_envs)  # refuses groups that batches can't be made of
            return pipe
        if placement.lag is not None:
            raise ValueError(
                f"placement.lag is {placement.lag}; lock-step needs a queue, and {table.name!r} is a replay"
            )
        return LocalReplay(table, placement.groups, placement.num_envs, self.run.seed)
