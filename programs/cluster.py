"""The wiring that programs share: who calls whom, and which group of processes a node belongs to."""

from __future__ import annotations

from typing import Any

from agents.base import Agent, learned_from
from envs.base import Env
from nodes.acting import Remote, tables_only
from nodes.base import Node
from nodes.monitor import Monitor
from nodes.playback import Playback
from nodes.replay import ReplayNode
from nodes.services import Program, ServiceNode, lp
from nodes.variables import VariableServer
from programs.launch import Run

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
      program: for the launcher, once all nodes are added.
      monitor, variables, replay: handles, for nodes of your own.
    """

    def __init__(self, name: str, run: Run, agent: Agent, env: Env):
        learned_from(agent.tables)  # refuses tables that no learner could learn from, before anything runs
        self.program = Program(name)
        self._run, self._agent, self._env = run, agent, env
        with self.program.group("monitor"):
            self.monitor = self.program.add_node(ServiceNode(Monitor, "monitor", run.workdir, run.stop))
        with self.program.group("variables"):
            self.variables = self.program.add_node(ServiceNode(VariableServer, "variables", self.monitor))
        with self.program.group("replay"):
            node = ReplayNode("replay", agent, env.spec, run.path("replay"), self.monitor)
            self.replay = self.program.add_node(node)
        self._writing = node.create_handle(reads=False)
        self._inference: Any = None

    def add_learner(self, node: type[Node], **settings: Any) -> None:
        """Adds the node that samples the tables and publishes params."""
        run = self._run
        handles = (self._agent, self.replay, self.variables, self.monitor)
        settings = {"folder": run.path("checkpoints"), "seed": run.seed, "save_every_s": run.save_every_s, **settings}
        with self.program.group("learner"):
            self.program.add_node(lp.PyClassNode(node, "learner", *handles, **settings))

    def add_inference(self, node: type[Node], **settings: Any) -> None:
        """Adds the node that acts for all actors added after it, which then load neither the agent nor JAX."""
        handles = (self._agent, self._env, self.variables, self.monitor)
        with self.program.group("inference"):
            self._inference = self.program.add_node(ServiceNode(node, "inference", *handles, **settings))
        self._inference.set_client_kwargs(call_timeout=ASK_DEADLINE_S)

    def add_actors(self, node: type[Node], number: int, **settings: Any) -> None:
        """Adds nodes that act and write; each has a seed of its own."""
        agent, variables = self._agent, self.variables
        if self._inference is not None:
            agent, variables = tables_only(agent), Remote(self._inference)
        handles = (agent, self._env, variables, self._writing, self.monitor)
        with self.program.group("actor"):
            for i in range(number):
                self.program.add_node(lp.PyClassNode(node, f"actor/{i}", *handles, seed=self._run.seed + i, **settings))

    def add_reanalyzers(self, node: type[Playback], number: int, **settings: Any) -> None:
        """Adds nodes that play the past back and renew its targets; each has a seed of its own.

        Raises:
          ValueError: the agent has no table for them.
        """
        node.require_tables(self._agent.tables)
        handles = (self._agent, self._env, self.variables, self.replay, self.monitor)
        with self.program.group("reanalyzer"):
            for i in range(number):
                seed = self._run.seed + i
                self.program.add_node(lp.PyClassNode(node, f"reanalyzer/{i}", *handles, seed=seed, **settings))

    def add_evaluator(self, node: type[Node], **settings: Any) -> None:
        """Adds a node that measures params and writes no learning data."""
        handles = (self._agent, self._env, self.variables, self.monitor)
        with self.program.group("evaluator"):
            self.program.add_node(lp.PyClassNode(node, "evaluator", *handles, seed=self._run.seed, **settings))
