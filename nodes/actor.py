"""The actor: steps batches of environments, acts in them and writes the steps to the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from boonta.agents.base import Agent, Author, Slots, Steps
from boonta.envs.base import BatchedEnv, Env, TimeStep
from boonta.envs.step_check import StepCheck
from boonta.nodes.acting.base import ActingHandle, GroupAct, count_episodes, open_acting, require_steady
from boonta.nodes.base import Node
from boonta.nodes.tables.base import Store, Writer
from boonta.nodes.tables.contract import written_by
from boonta.nodes.tables.freshness import require_slots
from boonta.nodes.watch.reporter import MonitorHandle

NUM_ENVS = 32


class Actor(Node):
    """Acts with `agent.policy` in several alternating groups of environments, one thread each.

    While the environments of one group step, the policy of another computes, as in rlpyt's alternating sampler and
    Podracer's Sebulba.

    Args:
      name: name of this node.
      agent: its policy acts, and its tables are written to.
      env: makes the environments.
      variables: handle of the variable server; `Colocated` with the learner; or `nodes.acting.base.Remote`, for
        another node to act.
      replay: the tables.
      monitor: handle.
      num_envs: environment slots of this node, over all its threads.
      threads: number of groups that alternate.
      seed: seed of the environments and the policy; two actors must differ in `seed` or in `first_group`.
      first_group: number of this node's first group among those of all actors with its seed.
      slots: its environment slots among those of all actors; None if it is the only one.
      refresh_every: env steps of a slot between two fetches of params; None is the table's period, so that params
        change only where a sequence may start, or the first multiple of the period that is at least 4 steps.
    """

    role: Author = "actor"
    saves = False

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Env,
        variables: ActingHandle,
        replay: Store,
        monitor: MonitorHandle | None = None,
        *,
        num_envs: int = NUM_ENVS,
        threads: int = 2,
        seed: int = 0,
        first_group: int = 0,
        slots: Slots | None = None,
        refresh_every: int | None = None,
    ):
        super().__init__(name, monitor)
        if num_envs < 1 or threads < 1 or num_envs % threads:
            raise ValueError(f"{name}: num_envs is {num_envs}; it must divide over the threads, {threads}")
        if refresh_every is not None and refresh_every < 1:
            raise ValueError(f"{name}: refresh_every is {refresh_every}; it must be at least 1, or none")
        require_steady(name, agent.tables, variables, refresh_every)
        slots = slots or Slots(num_envs)
        if slots.size != num_envs:
            raise ValueError(f"{name}: num_envs is {num_envs}, and slots.size {slots.size}; both are its environments")
        for table in agent.tables:
            require_slots(name, table, slots.of_all)
        self._agent = agent
        self._env = env
        self._variables = variables
        self._replay = replay
        self._num_envs = num_envs
        self._numbers = range(first_group, first_group + threads)  # The numbers of its groups.
        self._seed = seed
        self._slots = slots
        self._refresh_every = refresh_every

    def start(self) -> None:
        self.open_groups()
        for group in self._groups:
            group.reset()

    def open_groups(self) -> None:
        """Makes the groups; a subclass that calls no `reset` has each reset its environments in its first step."""
        tables = written_by(self.role, self._agent.tables)
        open_act = open_acting(self, self._agent, self._variables, tables[0], self._refresh_every)
        size = self._num_envs // len(self._numbers)
        # Another life has another seed: it must not take the steps of the first again. Zeros change no seed of 64 bits.
        seed_of_life = [self._seed, self.past_lives, self.past_starts]
        seeds = np.random.SeedSequence(seed_of_life).generate_state(self._numbers.stop)
        self._groups = []
        for k, i in enumerate(self._numbers):
            seed = int(seeds[i])
            first, total = self._slots.first + k * size, self._slots.of_all
            slots = self._slots._replace(size=size, first=first, total=total)
            with self.stopwatch("starting environments"):
                env = self.make_env(size, seed)
            self.on_close(env.close)
            writer = self._replay.open_writer(tables, size, self.wait_for, i)
            self.on_close(writer.close)  # An ending replay server waits five seconds for open writers.
            self._groups.append(_SlotGroup(self, env, open_act(i, slots, seed), writer))
        self._turn = 0

    @property
    def tasks(self) -> Sequence[Callable[[], None]]:
        return [group.step for group in self._groups]

    def step(self) -> None:
        """Steps the group whose turn it is or, if that must wait for newer params, the next one that is ready."""
        turns = [(self._turn + i) % len(self._groups) for i in range(len(self._groups))]
        turn = next((i for i in turns if self._groups[i].act.ready()), self._turn)
        self._groups[turn].step()
        self._turn = (turn + 1) % len(self._groups)

    def ready(self) -> bool:
        return any(group.act.ready() for group in self._groups)

    def make_env(self, num_envs: int, seed: int) -> BatchedEnv:
        """Makes the environment of one group; subclasses may override it."""
        return self._env(num_envs, seed)

    def count_step(self, env: BatchedEnv, sequences: int) -> None:
        """Counts a step of a group and the sequences that it completed."""
        self.count(env_steps=env.num_envs, frames=env.num_envs * env.spec.frames_per_step, sequences=sequences)
        count_episodes(self, env)


class _SlotGroup:
    """Environments that step together, the function that acts in them, and their writer."""

    def __init__(self, node: Actor, env: BatchedEnv, act: GroupAct, writer: Writer):
        self.env = env
        self._node = node
        self.act = act
        self._writer = writer
        self._checked = StepCheck(env.spec, env.num_envs)
        self._timestep: TimeStep | None = None  # The time step to act on next.

    def reset(self) -> TimeStep:
        with self._node.stopwatch("starting environments"):
            self._timestep = self._checked(self.env.reset())
        return self._timestep

    def step(self) -> None:
        node, env, timestep = self._node, self.env, self._timestep
        if timestep is None:
            timestep = self.reset()
        version, chosen, extras, core = self.act(timestep)
        action = env.executed_action(chosen)
        if action is not chosen:
            self.act.executed(action)
        with node.stopwatch("stepping environments"):
            self._timestep = self._checked(env.step(action))
        versions = np.full(env.num_envs, version, np.int32)
        with node.stopwatch("writing"):
            sequences = self._writer.append(Steps.of(timestep, action, extras, versions, core))
        node.count_step(env, sequences)
