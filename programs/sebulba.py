"""The wiring of programs whose nodes are threads of one process per host; no Launchpad, no Reverb, any Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from agents.base import Agent, written_by
from envs.base import Env
from nodes.base import Node
from nodes.monitor import Monitor
from nodes.pipe import Pipe
from nodes.sebulba import Placed, Placement, split
from nodes.variables import Colocated, DeviceVariables, LockStep
from programs.run import Run


class Sebulba:
    """A program that grows a node at a time, as a `Cluster` does; handles are the objects themselves.

    Args:
      name: of the program.
      run: where and how long.
      agent: with one table, a queue.
      env: actors act in it.
      placement: how this host's devices are shared out.

    Attributes:
      name: of the program.
      monitor: the node that others report to.
      nodes: all others.

    Raises:
      ValueError: says which setting can't work here, what it is and what it must be.
    """

    def __init__(self, name: str, run: Run, agent: Agent, env: Env, placement: Placement):
        tables = written_by("actor", agent.tables)
        if len(agent.tables) > 1:
            names = [table.name for table in agent.tables]
            raise ValueError(f"{name}: the agent has the tables {names}; an in-process pipe is one queue")
        self.name = name
        self.monitor = Monitor("monitor", run.workdir, run.stop)
        self.nodes: list[Node] = []
        self._run, self._agent, self._env, self._placement = run, agent, env, placement
        self._acting, learning = split(placement, jax.devices())
        self._pipe = Pipe(tables[0], learning, None if placement.lag is None else placement.groups)
        self._pipe.width(placement.num_envs)  # refuses batches that don't divide
        self._lock_step = None
        if placement.lag is not None:
            self._lock_step = LockStep(placement.lag, placement.groups, placement.num_envs, tables[0].batch_size)
        self._variables = DeviceVariables(self._acting, placement.lag or 0)

    def build(self) -> tuple[Monitor, list[Node]]:
        """The monitor, and all other nodes that were added."""
        return self.monitor, self.nodes

    def add_learner(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds the node that empties the pipe, on the learning devices."""
        run = self._run
        handles = (self._agent, self._pipe, self._variables, self.monitor)
        settings = {"folder": run.path("checkpoints"), "seed": run.seed, "save_every_s": run.save_every_s, **settings}
        self.nodes.append(node("learner", *handles, devices=len(self._pipe.devices), **settings))

    def add_actors(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds a node for each acting device, with the placement's threads and environments."""
        placement = self._placement
        threads = placement.threads
        shared = {"num_envs": threads * placement.num_envs, "threads": threads, "seed": self._run.seed}
        for i, device in enumerate(self._acting):
            handles = (
                self._agent,
                Placed(self._env, device),
                Colocated(self._variables, device, self._lock_step),
                self._pipe,
                self.monitor,
            )
            self.nodes.append(node(f"actor/{i}", *handles, first_group=i * threads, **shared, **settings))

    def add_evaluator(self, node: Callable[..., Node], **settings: Any) -> None:
        """Adds a node that measures params, on the last acting device, and writes no learning data."""
        variables = Colocated(self._variables, self._acting[-1])
        settings = {"seed": self._run.seed, **settings}
        self.nodes.append(node("evaluator", self._agent, self._env, variables, self.monitor, **settings))
