"""The wiring that programs share: who calls whom, and which group of processes a node belongs to."""

from __future__ import annotations

from typing import Any

import numpy as np

from boonta.agents.base import Agent
from boonta.envs.base import Env
from boonta.nodes.acting.base import Remote, tables_only
from boonta.nodes.acting.playback import Playback
from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.replay import ReplayNode
from boonta.nodes.services import Program, ServiceNode, lp
from boonta.nodes.tables.contract import learned_from
from boonta.nodes.variables import VariableServer
from boonta.programs.wiring.launch import Run

# An answer, or that there is none yet, comes within half a second; an actor that was told to end may wait no longer.
ASK_DEADLINE_S = 5.0


class Cluster:
    """A program that grows a node at a time: first the services that all others call, then the nodes that work.

    Handles only point backwards: a node is given those of nodes added before it.

    Args:
      name: of the program.
      run: where and how long.
      agent: whose tables are served.
      env: whose steps are in them; actors act in it.

    Attributes:
      monitor, variables, replay: handles, for nodes of your own.
    """

    def __init__(self, name: str, run: Run, agent: Agent, env: Env):
        learned_from(agent.tables)  # refuses tables that no learner could learn from, before anything runs
        self._program = Program(name)
        self._run, self._agent, self._env = run, agent, env
        with self._program.group("monitor"):
            self.monitor = self._program.add_node(ServiceNode(Monitor, "monitor", run.workdir, run.stop))
        with self._program.group("variables"):
            self.variables = self._program.add_node(ServiceNode(VariableServer, "variables", self.monitor))
        with self._program.group("replay"):
            node = ReplayNode("replay", agent, env.spec, run.path("replay"), self.monitor)
            self.replay = self._program.add_node(node)
        self._writing = node.create_handle(reads=False)
        self._inference: Any = None

    @property
    def program(self) -> Program:
        """For the launcher, once all nodes are added.

        Raises:
          ValueError: nobody fills a table that the learner reads; it would wait for it.
        """
        for table in learned_from(self._agent.tables):
            if table.writer not in self._program.groups:
                raise ValueError(
                    f"the learner reads table {table.name!r}, which {table.writer}s fill, and the program has none"
                )
        return self._program

    def add_learner(self, node: type[Node], **settings: Any) -> None:
        """Adds the node that samples the tables and publishes params."""
        run = self._run
        handles = (self._agent, self.replay, self.variables, self.monitor)
        settings = {**run.learning, **settings}
        with self._program.group("learner"):
            self._program.add_node(lp.PyClassNode(node, "learner", *handles, **settings))

    def add_inference(self, node: type[Node], **settings: Any) -> None:
        """Adds the node that acts for all actors added after it, which then load neither the agent nor JAX."""
        handles = (self._agent, self._env, self.variables, self.monitor)
        with self._program.group("inference"):
            self._inference = self._program.add_node(ServiceNode(node, "inference", *handles, **settings))
        self._inference.set_client_kwargs(call_timeout=ASK_DEADLINE_S)

    def add_actors(self, node: type[Node], number: int, **settings: Any) -> None:
        """Adds nodes that act and write; each has a seed of its own.

        Raises:
          ValueError: number is below 1.
        """
        seeds = self._seeds("actors", number)
        agent, variables = self._agent, self.variables
        if self._inference is not None:
            agent, variables = tables_only(agent), Remote(self._inference)
        handles = (agent, self._env, variables, self._writing, self.monitor)
        with self._program.group("actor"):
            for i, seed in enumerate(seeds):
                self._program.add_node(lp.PyClassNode(node, f"actor/{i}", *handles, seed=seed, **settings))

    def add_reanalyzers(self, node: type[Playback], number: int, **settings: Any) -> None:
        """Adds nodes that play the past back and renew its targets; each has a seed of its own.

        Raises:
          ValueError: the agent has no table for them, or number is below 1.
        """
        node.require_tables(self._agent.tables)
        seeds = self._seeds("reanalyzers", number)
        handles = (self._agent, self._env, self.variables, self.replay, self.monitor)
        with self._program.group("reanalyzer"):
            for i, seed in enumerate(seeds):
                self._program.add_node(lp.PyClassNode(node, f"reanalyzer/{i}", *handles, seed=seed, **settings))

    def add_evaluator(self, node: type[Node], **settings: Any) -> None:
        """Adds a node that measures params and writes no learning data."""
        handles = (self._agent, self._env, self.variables, self.monitor)
        with self._program.group("evaluator"):
            self._program.add_node(lp.PyClassNode(node, "evaluator", *handles, seed=self._run.seed, **settings))

    def _seeds(self, what: str, number: int) -> list[int]:
        """A seed for each node of a kind. Not `seed + i`: runs with neighbouring seeds would share most of theirs."""
        if number < 1:
            raise ValueError(f"the number of {what} is {number}; it must be at least 1")
        return [int(seed) for seed in np.random.SeedSequence(self._run.acting_seed).generate_state(number) >> 1]
