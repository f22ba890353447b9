"""Episodes of an archive: joined from a table's sequences, and what they earned."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Iterable, Iterator

import jax
import numpy as np

from boonta.agents.base import Steps
from boonta.envs.base import FIRST, LAST, EnvSpec


def stitch(sequences: Iterable[Steps], overlap: int) -> Iterator[Steps]:
    """Joins overlapping sequences to the streams that they were cut from, and cuts those into episodes.

    A sequence continues another one if its first rows equal the last rows of that one in all leaves. If the rows of
    several slots are equal to the last bit, it is joined to any of them: every transition is one that happened, but
    where observations don't show all of the state, an episode may begin as one did and end as another. The more rows
    overlap, the less often. Each sequence is used once, so every step appears as often as it happened. Only unfinished
    episodes are kept in memory.

    Args:
      sequences: leaves [T, ...], in order for each slot.
      overlap: rows that neighbouring sequences share; if it is 0 or less, none are joined.

    Yields:
      Episodes, from FIRST to LAST, leaves [T', ...], as they end; and the recorded pieces of the other episodes, except
      pieces of a single row, which contain no transition.
    """
    # Streams by the digest of their last rows. A stream is represented by its unfinished episode.
    ends: dict[bytes, collections.deque[list[Steps]]] = {}
    unjoined = b""
    for sequence in sequences:
        start = _digest(sequence, slice(overlap)) if overlap > 0 else None
        end = _digest(sequence, slice(-overlap, None)) if overlap > 0 else unjoined
        under_way: list[Steps] = []
        fresh = sequence
        if start in ends:
            under_way = ends[start].popleft()
            fresh = _rows(sequence, slice(overlap, None))
            if not ends[start]:
                del ends[start]
        yield from _cut(under_way, fresh)
        ends.setdefault(end, collections.deque()).append(under_way)
    for streams in ends.values():
        for under_way in streams:
            yield from _join(under_way)


def _cut(under_way: list[Steps], fresh: Steps) -> Iterator[Steps]:
    """Adds rows to the unfinished episode, and yields the episodes that end in them."""
    start = 0
    for end in np.flatnonzero(fresh.step_type == LAST) + 1:
        under_way.append(_rows(fresh, slice(start, end)))
        yield from _join(under_way)
        under_way.clear()
        start = end
    if start < len(fresh.step_type):
        under_way.append(_rows(fresh, slice(start, None)))


def _join(parts: list[Steps]) -> Iterator[Steps]:
    if sum(len(part.step_type) for part in parts) > 1:
        yield jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _rows(steps: Steps, rows: slice) -> Steps:
    return jax.tree.map(lambda leaf: leaf[rows], steps)


def complete(trajectory: Steps) -> bool:
    """Whether a trajectory is an episode from its beginning to its end."""
    return bool(trajectory.step_type[0] == FIRST and trajectory.step_type[-1] == LAST)


def episode_return(trajectory: Steps, spec: EnvSpec) -> float:
    """Returns the sum of raw rewards; with two players, the sum from player 0's view."""
    reward = np.asarray(trajectory.reward[1:], np.float64)
    if spec.num_players == 2:
        reward = np.where(trajectory.observation.player[:-1] == 0, reward, -reward)
    return float(reward.sum())


def _digest(steps: Steps, rows: slice) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for leaf in jax.tree.leaves(steps):
        digest.update(leaf[rows].tobytes())
    return digest.digest()
