"""An archive: a folder of recorded trajectories, to learn from without an environment.

    index.json              the index; written last, so a folder without it is not an archive
    chunk-00000.parquet     whole trajectories, one row per step, compressed with zstd
    chunk-00001.parquet     …

The first column is `trajectory`, int32, the number of the trajectory within the chunk. The other columns are the leaves
of `Steps`, named by their path, such as `reward`, `observation/view` or `extras/policy`. Rows are in order of time. A
scalar is stored with its own type; an array is stored as bytes of fixed length, in C order and little-endian, with its
dtype and shape in the field's metadata. A trajectory is an episode, from FIRST to LAST, or the recorded part of one.

Parquet's own checksums, which any reader can verify, cover the pages of data, but neither their headers nor the file's
footer. The index therefore holds a SHA-256 of every file and one of itself; these decide whether a file is intact.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import pathlib
import warnings
from collections.abc import Iterable, Iterator

import jax
import numpy as np

from boonta.agents.base import Steps
from boonta.envs.base import Env
from boonta.nodes.archive import parquet
from boonta.nodes.archive.episodes import complete, episode_return
from boonta.nodes.archive.index import (
    INDEX,
    Chunk,
    Index,
    Leaf,
    describe,
    leaves,
    read_index,
    require_columns,
    require_environment,
    types,
    write_index,
)
from boonta.nodes.snapshots import schema
from boonta.nodes.snapshots.files import fresh_of, write_whole

# A chunk is closed after these; a reader holds one chunk in memory.
CHUNK_STEPS = 10_000
UNFINISHED = "unfinished"  # A file by which another writer finds that a folder is taken; one that was killed leaves it.
CHUNK_BYTES = 1 << 28  # Bytes of a chunk's decoded columns; a single trajectory may have more, up to `parquet.LARGEST`.


@dataclasses.dataclass(frozen=True)
class Archive:
    """An archive that `open_archive` has verified.

    Attributes:
      folder: the archive's folder.
      index: the archive's index.
      chunks: the chunks to read: all of them, or all that are intact.
      signature: shapes of one step that is read, see `open_archive`.
    """

    folder: pathlib.Path
    index: Index
    chunks: tuple[Chunk, ...]
    signature: Steps


class ArchiveWriter:
    """Writes an archive; the folder becomes an archive when `close` writes the index.

    Args:
      folder: a folder that doesn't exist yet or is empty.
      env: the environment that the trajectories were recorded in.
      chunk_steps: steps after which a chunk is closed.

    Raises:
      ValueError: the folder is not empty.
    """

    def __init__(self, folder: pathlib.Path, env: Env, chunk_steps: int = CHUNK_STEPS):
        self._made = not folder.exists()
        if not self._made and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(f"{folder} is not an empty folder; an archive needs one of its own")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / UNFINISHED).touch(exist_ok=False)
        self._folder = folder
        self._env = env
        self._chunk_steps = chunk_steps
        self._columns: dict[str, Leaf] = {}
        self._chunks: list[Chunk] = []
        self._held: list[Steps] = []
        self._held_steps = self._held_bytes = 0
        self._returns: list[float] = []

    def add(self, trajectory: Steps) -> None:
        """Adds the steps of an episode, or of a part of one, leaves [T, ...].

        Raises:
          ValueError: they aren't at least two, have other leaves than those before, or leaves that no file can hold.
        """
        if len(trajectory.step_type) < 2:
            raise ValueError(f"a trajectory has {len(trajectory.step_type)} rows; a transition needs 2")
        columns = {path: Leaf(leaf.dtype.name, leaf.shape[1:]) for path, leaf in leaves(trajectory).items()}
        require_columns("a trajectory", columns, self._columns)
        if not self._columns:
            parquet.require_types(columns)
            self._columns = columns
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(trajectory))
        if self._held and self._held_bytes + size > CHUNK_BYTES:  # Together they may be more than a file can hold.
            self._close_chunk()
        self._held.append(trajectory)
        self._held_steps += len(trajectory.step_type)
        self._held_bytes += size
        if complete(trajectory):
            self._returns.append(episode_return(trajectory, self._env.spec))
        if self._held_steps >= self._chunk_steps or self._held_bytes >= CHUNK_BYTES:
            self._close_chunk()

    def close(self) -> Index:
        """Writes the last chunk and the index.

        Raises:
          ValueError: nothing was added.
        """
        if self._held:
            self._close_chunk()
        if not self._chunks:
            raise ValueError("there is no trajectory to archive")
        index = Index(
            environment=describe(self._env),
            columns=self._columns,
            steps=sum(chunk.steps for chunk in self._chunks),
            trajectories=sum(chunk.trajectories for chunk in self._chunks),
            episodes=len(self._returns),
            mean_return=float(np.mean(self._returns)) if self._returns else None,
            chunks=tuple(self._chunks),
        )
        write_index(self._folder, index)
        (self._folder / UNFINISHED).unlink()
        return index

    def discard(self) -> None:
        """Removes what was written, and no other files; the folder, too, if the writer has made it."""
        for path in [self._folder / INDEX, *map(self._file, range(len(self._chunks) + 1))]:
            path.unlink(missing_ok=True)
            fresh_of(path).unlink(missing_ok=True)  # Writing was cut short.
        (self._folder / UNFINISHED).unlink(missing_ok=True)
        if self._made:
            with contextlib.suppress(OSError):  # Somebody else has put something there.
                self._folder.rmdir()

    def _close_chunk(self) -> None:
        lengths = [len(held.step_type) for held in self._held]
        together = jax.tree.map(lambda *parts: np.concatenate(parts), *self._held)
        number = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        content = parquet.encode({"trajectory": number, **leaves(together)})
        file = self._file(len(self._chunks))
        write_whole(file, content)
        episodes = sum(complete(held) for held in self._held)
        self._chunks.append(Chunk(file.name, len(number), len(lengths), episodes, hashlib.sha256(content).hexdigest()))
        self._held, self._held_steps, self._held_bytes = [], 0, 0

    def _file(self, chunk: int) -> pathlib.Path:
        return self._folder / f"chunk-{chunk:05d}.parquet"


def write_archive(out: pathlib.Path, env: Env, trajectories: Iterable[Steps]) -> Index:
    """Writes trajectories as an archive, whose index is written last; only a killed process leaves chunks without one.

    Args:
      out: the archive's folder, see `ArchiveWriter`. It may be a mount point or a link, to which none can be renamed.
      env: the environment in which they were recorded.
      trajectories: episodes, or parts of them, leaves [T, ...].

    Raises:
      ValueError: the folder is not empty, there is no trajectory, or one can't be added, see `ArchiveWriter`.
    """
    writer = ArchiveWriter(out, env)
    try:
        for trajectory in trajectories:
            writer.add(trajectory)
        return writer.close()
    except BaseException:  # Ctrl-C, too.
        writer.discard()
        raise


def open_archive(folder: pathlib.Path, env: Env, signature: Steps, skip_broken: bool = False) -> Archive:
    """Opens an archive for learning; reads every file once to verify it.

    Args:
      folder: the archive's folder.
      env: the environment that the archive must be of.
      signature: shapes of one step, leaves without a time axis; the archive may hold more leaves than these.
      skip_broken: whether to skip broken chunks, with a warning that counts and names them.

    Raises:
      ValueError: the folder is not an archive, has a newer version, is of another environment, lacks a needed leaf, has
        a broken chunk, or has no complete episode.
    """
    index = read_index(folder)
    require_environment(folder, index.environment, env)
    require_columns(str(folder), index.columns, types(signature))
    chunks = _sound_chunks(folder, index, skip_broken)
    if not any(chunk.episodes for chunk in chunks):
        raise ValueError(
            f"{folder} holds {sum(chunk.trajectories for chunk in chunks)} trajectories, but no complete episode among "
            "them, so the ends of episodes can't be learned"
        )
    return Archive(folder, index, chunks, signature)


def read(archive: Archive, seed: int | None = None) -> Iterator[Steps]:
    """Yields the trajectories, leaves [T, ...] with T >= 2, in the structure of the archive's signature.

    Without a seed, each is yielded once, in the order in which it was added. With a seed, they are yielded endlessly:
    each round shuffles the chunks, and the trajectories within a chunk.

    Raises:
      ValueError: a chunk was damaged after the archive was opened.
    """
    if seed is None:
        for chunk in archive.chunks:
            yield from _trajectories(archive, chunk)
        return
    rng = np.random.default_rng(seed)
    while True:
        for which in rng.permutation(len(archive.chunks)):
            trajectories = _trajectories(archive, archive.chunks[which])
            for i in rng.permutation(len(trajectories)):
                yield trajectories[i]


def _trajectories(archive: Archive, chunk: Chunk) -> list[Steps]:
    wanted = {path: archive.index.columns[path] for path in leaves(archive.signature)}
    content = _checked(archive.folder, chunk)
    try:
        columns = parquet.decode(content, wanted, chunk.steps)
        starts = _starts(columns.pop("trajectory"), chunk.trajectories)
    except ValueError as error:
        raise ValueError(f"chunk {archive.folder / chunk.file} is damaged: {error}") from error
    structure = jax.tree.structure(archive.signature)
    return [
        jax.tree.unflatten(structure, [column[start:end] for column in columns.values()])
        for start, end in zip(starts, [*starts[1:], chunk.steps])
    ]


def _starts(numbers: np.ndarray, trajectories: int) -> np.ndarray:
    """The first row of each trajectory; each has at least two rows, which are a transition."""
    steps = np.diff(numbers, prepend=-1)
    starts = np.flatnonzero(steps)
    if len(starts) != trajectories or not np.isin(steps, (0, 1)).all():
        raise ValueError(f"its trajectories are not numbered from 0 to {trajectories - 1}")
    if (np.diff(starts, append=len(numbers)) < 2).any():
        raise ValueError("it has a trajectory of a single row")
    return starts


def _sound_chunks(folder: pathlib.Path, index: Index, skip_broken: bool) -> tuple[Chunk, ...]:
    sound, broken = [], {}
    for chunk in index.chunks:
        try:
            _checked(folder, chunk)
            sound.append(chunk)
        except ValueError as error:
            if not skip_broken:
                raise
            broken[chunk] = str(error)
    if broken:
        steps = sum(chunk.steps for chunk in broken)
        warnings.warn(
            f"{len(broken)} of {len(index.chunks)} chunks, with {steps} of {index.steps} steps, are left out: "
            + "; ".join(broken.values()),
            stacklevel=3,
        )
    return tuple(sound)


def _checked(folder: pathlib.Path, chunk: Chunk) -> bytes:
    """Reads the file of a chunk and verifies its checksum."""
    path = folder / chunk.file
    try:
        content = schema.read(path, parquet.LARGEST)
    except (OSError, ValueError) as error:
        raise ValueError(f"chunk {path} can't be read: {getattr(error, 'strerror', error)}") from error
    if hashlib.sha256(content).hexdigest() != chunk.sha256:
        raise ValueError(f"chunk {path} is broken: it doesn't match its checksum in {INDEX}")
    return content
