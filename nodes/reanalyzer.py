"""The reanalyzer: an actor whose world is the past, so that old steps get targets by new params."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence

import jax

from boonta.agents.base import Steps, Table
from boonta.envs.base import BatchedEnv
from boonta.envs.replayed import Replayed
from boonta.nodes.acting.playback import Playback
from boonta.nodes.tables.contract import written_by

AHEAD = 2  # pieces of `num_envs` sequences on their way, so that a slot whose sequence is over goes on with the next


class Reanalyzer(Playback):
    """Plays sequences of the past back to the agent's policy, and writes them with what it finds in them today.

    Observations, rewards and actions stay as they were recorded; extras, which for MuZero are the search's policy and
    value, are new, and so is the version of the params that made them. See MuZero Reanalyze, Appendix H of "Mastering
    Atari, Go, Chess and Shogi by Planning with a Learned Model" (https://arxiv.org/abs/1911.08265).

    Each sequence read is one sequence written: all slots start and end theirs together. Params change between two.
    Arguments are those of `Playback`; the table that it reads is `table_of_the_past`.
    """

    @classmethod
    def require_tables(cls, tables: Sequence[Table]) -> None:
        table_of_the_past(tables)

    @property
    def tasks(self) -> Sequence[Callable[[], None]]:
        return (self.step,)

    def start(self) -> None:
        self._past = table_of_the_past(self._agent.tables)
        self._sequences: collections.deque[Steps] = collections.deque()
        self._playing = False
        self._stream = self._replay.open_stream(self._past, self._num_envs, in_flight=self._num_envs)
        self._stream.ask(AHEAD)

    def step(self) -> None:
        if not self._playing:
            super().start()  # not in `start`: the serial schedule starts all nodes before any has written a sequence
            self._playing = True
        super().step()

    def ready(self) -> bool:
        return bool(self._sequences) or self._stream.ready()

    def close(self) -> None:
        super().close()
        if hasattr(self, "_stream"):
            self._stream.close()

    def world(self, num_envs: int, seed: int) -> BatchedEnv:
        return Replayed(self._env.spec, num_envs, self._next)

    def _next(self) -> Steps:
        """A sequence of the past, leaves [T, ...]."""
        if not self._sequences:
            piece = self.wait_for(f"sequences of {self._past.name}", self._stream.take)
            self._stream.ask(AHEAD)
            for i in range(self._num_envs):
                self._sequences.append(jax.tree.map(lambda leaf, i=i: leaf[i], piece.steps))
        return self._sequences.popleft()


def table_of_the_past(tables: Sequence[Table]) -> Table:
    """The table that reanalyzers read: actors write to it, and the learner takes nothing from it.

    Raises:
      ValueError: there is none, no table for what they write, or their sequences differ in length.
    """
    past = [table for table in tables if table.writer == "actor" and table.kind == "replay" and not table.share]
    if not past or not any(table.writer == "reanalyzer" for table in tables):
        raise ValueError(
            f"reanalyzers with no replay table to read, or none to write to: the agent's are "
            f"{[table.name for table in tables]}; for MuZero, give a reanalyze_ratio above 0"
        )
    for table in written_by("reanalyzer", tables):
        if (table.sequence_length, table.period) != (past[0].sequence_length,) * 2:
            raise ValueError(
                f"table {table.name!r} has sequences of {table.sequence_length} steps every {table.period}; both must "
                f"be {past[0].sequence_length}, the length of those in {past[0].name!r} that are played back"
            )
    return past[0]
