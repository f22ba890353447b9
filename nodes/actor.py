"""The actor: steps batches of environments, acts in them and writes what it sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from boonta.agents.base import Agent, Author, Steps
from boonta.envs.base import BatchedEnv, Env
from boonta.nodes.acting.base import GroupAct, open_acting
from boonta.nodes.base import Node
from boonta.nodes.tables.base import open_writer
from boonta.nodes.tables.contract import written_by


class Actor(Node):
    """Acts with `agent.policy` in several alternating groups of environments, one thread each.

    While one group's environments step, another's policy computes (rlpyt's alternating sampler, Podracer's Sebulba).

    Args:
      name: of this node.
      agent: the policy, and the tables to write to.
      env: makes the environments.
      variables: handle of the variable server; `Colocated` with the learner; or `nodes.acting.base.Remote`, for
        another node to act.
      replay: a `nodes.tables.base.Store`, or the handle of one.
      monitor: handle.
      num_envs: environment slots of this node, over all its threads.
      threads: groups that alternate.
      seed: of the environments and the policy's randomness; differs between actors, unless `first_group` does.
      first_group: number of this node's first group among those of all actors with its seed.

    Attributes:
      writer: it writes to the tables of this kind of node.
    """

    writer: Author = "actor"

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: Any,
        replay: Any,
        monitor: Any = None,
        *,
        num_envs: int = 32,
        threads: int = 2,
        seed: int = 0,
        first_group: int = 0,
    ):
        super().__init__(name, monitor)
        if num_envs < 1 or threads < 1 or num_envs % threads:
            raise ValueError(f"{name}: num_envs is {num_envs}; it must divide over the threads, {threads}")
        self._agent = agent
        self._env = env
        self._variables = variables
        self._replay = replay
        self._num_envs = num_envs
        self._numbers = range(first_group, first_group + threads)  # of the groups
        self._seed = seed

    def start(self) -> None:
        tables = written_by(self.writer, self._agent.tables)
        open_act = open_acting(self, self._agent, self._variables, tables[0])
        size = self._num_envs // len(self._numbers)
        seeds = np.random.SeedSequence(self._seed).generate_state(self._numbers.stop)
        self._groups = []
        for i in self._numbers:
            seed = int(seeds[i])
            with self.stopwatch("starting environments"):
                env = self.world(size, seed)
            writer = open_writer(self._replay, tables, size, self.wait_for, i)
            self._groups.append(_Group(self, env, open_act(i, size, seed), writer))
        self._turn = 0

    @property
    def tasks(self) -> Sequence[Callable[[], None]]:
        return [group.step for group in self._groups]

    def step(self) -> None:
        """One step of the group whose turn it is."""
        self._groups[self._turn].step()
        self._turn = (self._turn + 1) % len(self._groups)

    def close(self) -> None:
        for group in getattr(self, "_groups", []):
            group.close()

    def world(self, num_envs: int, seed: int) -> BatchedEnv:
        """Where a group plays."""
        return self._env(num_envs, seed)

    def tally(self, env: BatchedEnv, sequences: int) -> None:
        """Counts a step of a group, and the sequences that it completed."""
        self.count(env_steps=env.num_envs, frames=env.num_envs * env.spec.frames_per_step, sequences=sequences)
        for episode in env.episodes():
            self.count(episodes=1)
            self.sample("return", episode.episode_return)
            self.sample("episode_steps", episode.env_steps)


class _Group:
    """Environments that step together, with who acts in them and their writer."""

    def __init__(self, node: Actor, env: BatchedEnv, act: GroupAct, writer: Any):
        self.env = env
        self._node = node
        self._act = act
        self._writer = writer
        with node.stopwatch("starting environments"):
            self._timestep = env.reset()

    def step(self) -> None:
        node, env, timestep = self._node, self.env, self._timestep
        version, action, extras = self._act(timestep)
        action = env.taken(action)
        with node.stopwatch("stepping environments"):
            self._timestep = env.step(action)
        versions = np.full(env.num_envs, version, np.int32)
        steps = Steps(
            timestep.observation, timestep.step_type, timestep.reward, timestep.discount, action, extras, versions
        )
        with node.stopwatch("writing"):
            sequences = self._writer.append(steps)
        node.tally(env, sequences)

    def close(self) -> None:
        self.env.close()
        self._writer.close()  # a replay server that ends waits five seconds for open ones
