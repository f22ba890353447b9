"""The actor: steps batches of environments with the newest params and writes what it sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agents.base import Agent, Author, Steps, written_by
from envs.base import BatchedEnv, Env
from nodes.base import Node
from nodes.pipe import open_writer
from nodes.play import Play, acting_params, jit_policy
from nodes.variables import VariableClient


class Actor(Node):
    """Acts with `agent.policy` in several alternating groups of environments, one thread each.

    While one group's environments step, another's policy computes (rlpyt's alternating sampler, Podracer's Sebulba).

    Args:
      name: of this node.
      agent: the policy, and the tables to write to.
      env: makes the environments.
      variables: handle of the variable server.
      replay: handle of the replay server, or a `Pipe`.
      monitor: handle.
      num_envs: environment slots of this node, over all its threads.
      threads: groups that alternate.
      seed: of the environments and the policy's randomness; differs between actors.

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
    ):
        super().__init__(name, monitor)
        if num_envs < 1 or threads < 1 or num_envs % threads:
            raise ValueError(f"{name}: num_envs is {num_envs}; it must divide over the threads, {threads}")
        self._agent = agent
        self._env = env
        self._variables = variables
        self._replay = replay
        self._num_envs = num_envs
        self._num_groups = threads
        self._seed = seed

    def start(self) -> None:
        tables = written_by(self.writer, self._agent.tables)
        params = VariableClient(self._variables, acting_params(self._agent))
        act = jit_policy(self._agent.policy)
        size = self._num_envs // self._num_groups
        self._groups = []
        for seed in np.random.SeedSequence(self._seed).generate_state(self._num_groups):
            with self.stopwatch("starting environments"):
                play = Play(self.world(size, int(seed)), self._agent.policy, act, int(seed), self.stopwatch)
            writer = open_writer(self._replay, tables, size, self.wait_for)
            self._groups.append(_Group(self, play, params, tables[0].period, writer))
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
            group.play.env.close()

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
    """Environments that step together, with their writer. Params change only where a new sequence may start."""

    def __init__(self, node: Actor, play: Play, params: VariableClient, period: int, writer: Any):
        self.play = play
        self._node = node
        self._params = params
        self._period = period
        self._writer = writer
        self._age = 0

    def step(self) -> None:
        node, env = self._node, self.play.env
        if self._age % self._period == 0:
            node.wait_for("params", self._params.poll)
        self._age += 1
        version, params = self._params.snapshot()
        timestep, action, extras = self.play.step(params)
        versions = np.full(env.num_envs, version, np.int32)
        steps = Steps(
            timestep.observation, timestep.step_type, timestep.reward, timestep.discount, action, extras, versions
        )
        with node.stopwatch("writing"):
            sequences = self._writer.append(steps)
        node.tally(env, sequences)
