"""The base class of reanalyzers; subclasses decide where the recorded steps come from."""

from __future__ import annotations

from collections.abc import Sequence

from boonta.agents.base import Agent, Author, Slots, Table
from boonta.envs.base import BatchedEnv, Env
from boonta.nodes.acting.base import ActingHandle
from boonta.nodes.actor import NUM_ENVS, Actor
from boonta.nodes.tables.base import Store
from boonta.nodes.tables.contract import written_by
from boonta.nodes.watch.reporter import MonitorHandle


class Playback(Actor):
    """An actor whose environment replays recorded steps; a subclass makes it in `make_env`.

    Args:
      name: name of this node.
      agent: its policy acts, and its tables are read and written to; see `require_tables`.
      env: the environment that the steps were recorded in; only its spec is used.
      variables, replay, monitor: as for `Actor`.
      num_envs: number of trajectories that are replayed at once.
      groups: number of groups that they are dealt to, each with a thread and a writer. It need be above 1 only where
        there are more replay servers than reanalyzers, since a writer writes to one server.
      seed: seed of the policy; it must differ between reanalyzers.
    """

    role: Author = "reanalyzer"

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
        groups: int = 1,
        seed: int = 0,
    ):
        if groups < 1 or num_envs % groups:
            raise ValueError(f"{name}: num_envs is {num_envs}; it must divide over the groups, {groups}")
        slots = Slots(num_envs, alike=True)
        super().__init__(
            name, agent, env, variables, replay, monitor, num_envs=num_envs, threads=groups, seed=seed, slots=slots
        )
        self.require_tables(agent.tables)

    @classmethod
    def require_tables(cls, tables: Sequence[Table]) -> None:
        """Raises ValueError if an agent lacks the tables that this node needs."""
        written_by(cls.role, tables)

    def count_step(self, env: BatchedEnv, sequences: int) -> None:
        env.episodes()  # Nobody counts what was counted when it was recorded, but untaken episodes would pile up.
        self.count(reanalyzed_steps=env.num_envs, reanalyzed_sequences=sequences)
