"""What all reanalyzers have in common, wherever they have the past from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from boonta.agents.base import Agent, Author, Table
from boonta.envs.base import BatchedEnv, Env
from boonta.nodes.actor import Actor
from boonta.nodes.tables.contract import written_by


class Playback(Actor):
    """An actor whose world is the past, which its subclass says in `world`.

    Args:
      name: of this node.
      agent: the policy, and the tables to read and to write to; see `require_tables`.
      env: whose spec the stored steps follow; none is made.
      variables, replay, monitor: as for `Actor`.
      num_envs: trajectories played back at once.
      seed: of the policy's randomness; differs between reanalyzers.
    """

    writer: Author = "reanalyzer"

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
        seed: int = 0,
    ):
        # One group: there is no simulator whose time a second one could use.
        super().__init__(name, agent, env, variables, replay, monitor, num_envs=num_envs, threads=1, seed=seed)
        self.require_tables(agent.tables)

    @classmethod
    def require_tables(cls, tables: Sequence[Table]) -> None:
        """Raises ValueError where an agent has not the tables that such a node works with."""
        written_by(cls.writer, tables)

    def tally(self, env: BatchedEnv, sequences: int) -> None:
        self.count(reanalyzed_steps=env.num_envs, reanalyzed_sequences=sequences)
