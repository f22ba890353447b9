"""The reanalyzer: an actor whose environment replays stored steps, so that new params recompute their targets."""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence

import jax

from boonta.agents.base import Steps, Table
from boonta.envs.base import BatchedEnv
from boonta.nodes.acting.playback import Playback
from boonta.nodes.acting.replayed import Replayed
from boonta.nodes.base import AWAY_S, Node
from boonta.nodes.tables.base import ReplayStore, Stream
from boonta.nodes.tables.contract import written_by

# Sequences of each slot that are requested ahead, so that it can go on when its sequence ends.
AHEAD = 2


class Reanalyzer(Playback):
    """Replays recorded sequences to the agent's policy, and writes them again with the policy's new outputs.

    Observations, rewards and actions stay as they were recorded. The extras (for MuZero the search's policy and value)
    and the version of the params that computed them are new. See MuZero Reanalyze, Appendix H of "Mastering Atari, Go,
    Chess and Shogi by Planning with a Learned Model" (https://arxiv.org/abs/1911.08265).

    It writes one sequence for each one that it reads: all slots of a group start and end theirs together, and params
    change only between two sequences. Each group reads from all replay servers, and writes to its own. The arguments
    are those of `Playback`; `recorded_table` returns the table that is read.
    """

    _replay: ReplayStore  # It is read from, too.

    @classmethod
    def require_tables(cls, tables: Sequence[Table]) -> None:
        recorded_table(tables)

    def start(self) -> None:
        self._past = recorded_table(self._agent.tables)
        self._sources: list[_Past] = []
        # A reset waits for sequences, and `--launch serial` starts all nodes before any has written.
        self.open_groups()

    def ready(self) -> bool:
        return self._sources[self._turn].ready()

    def make_env(self, num_envs: int, seed: int) -> BatchedEnv:
        stream = self._replay.open_stream(self._past, num_envs, in_flight=num_envs)
        self.on_close(stream.close)
        self._sources.append(_Past(self, self._past, stream, num_envs))
        return Replayed(self._env.spec, num_envs, self._sources[-1])


class _Past:
    """The recorded sequences that a group replays, leaves [T, ...], one for each call.

    Args:
      node: the node, which waits for them.
      table: the table that holds them.
      stream: the table's sequences; they are requested ahead.
      num_envs: B, slots of the group.
    """

    def __init__(self, node: Node, table: Table, stream: Stream, num_envs: int):
        self._waits_for = functools.partial(node.wait_for, f"sequences of {table.name}", deadline_s=AWAY_S)
        self._stream, self._num_envs = stream, num_envs
        self._sequences: collections.deque[Steps] = collections.deque()
        stream.ask(AHEAD * num_envs)

    def __call__(self) -> Steps:
        if not self._sequences:
            piece = self._waits_for(functools.partial(self._stream.take, self._num_envs))
            self._stream.ask(AHEAD * self._num_envs)
            for i in range(len(piece.keys)):
                self._sequences.append(jax.tree.map(lambda leaf, i=i: leaf[:, i], piece.steps))
        return self._sequences.popleft()

    def ready(self) -> bool:
        """Whether there is one at once."""
        return bool(self._sequences) or self._stream.ready(1)


def recorded_table(tables: Sequence[Table]) -> Table:
    """Returns the table that reanalyzers read: actors write to it, and the learner doesn't sample it.

    Raises:
      ValueError: there is no such table, no table that reanalyzers write to, or their sequences differ in length.
    """
    past = [table for table in tables if table.writer == "actor" and table.kind == "replay" and not table.share]
    if not past or not any(table.writer == "reanalyzer" for table in tables):
        raise ValueError(
            f"reanalyzers need a replay table to read and one to write to; the agent has "
            f"{[table.name for table in tables]}; for MuZero, give a reanalyze_ratio above 0"
        )
    for table in written_by("reanalyzer", tables):
        if (table.sequence_length, table.period) != (past[0].sequence_length,) * 2:
            raise ValueError(
                f"table {table.name!r} has sequences of {table.sequence_length} steps every {table.period}; both must "
                f"be {past[0].sequence_length}, the length of the sequences in {past[0].name!r} that are replayed"
            )
    return past[0]
