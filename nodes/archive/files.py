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

import dataclasses
import hashlib
import json
import pathlib
import warnings
from collections.abc import Iterator

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from boonta.agents.base import Steps
from boonta.envs.base import FIRST, LAST, Env, EnvSpec
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
    write_index,
)
from boonta.nodes.snapshots.files import write_whole

CHUNK_STEPS = 10_000  # Steps after which a chunk is closed; a reader holds one chunk in memory.


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
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ValueError(f"{folder} is not empty; an archive needs a folder of its own")
        self._folder = folder
        self._env = env
        self._chunk_steps = chunk_steps
        self._columns: dict[str, Leaf] = {}
        self._chunks: list[Chunk] = []
        self._held: list[Steps] = []
        self._held_steps = 0
        self._returns: list[float] = []

    def add(self, trajectory: Steps) -> None:
        """Adds the steps of an episode, or of a part of one, leaves [T, ...]."""
        columns = {path: Leaf(leaf.dtype.name, leaf.shape[1:]) for path, leaf in leaves(trajectory).items()}
        require_columns("a trajectory", columns, self._columns)
        self._columns = self._columns or columns
        self._held.append(trajectory)
        self._held_steps += len(trajectory.step_type)
        if complete(trajectory):
            self._returns.append(episode_return(trajectory, self._env.spec))
        if self._held_steps >= self._chunk_steps:
            self._close_chunk()

    def close(self) -> Index:
        """Writes the last chunk and the index.

        Raises:
          ValueError: nothing was added.
        """
        if self._held:
            self._close_chunk()
        if not self._chunks:
            raise ValueError(f"{self._folder}: there is no trajectory to archive")
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
        return index

    def _close_chunk(self) -> None:
        lengths = [len(held.step_type) for held in self._held]
        together = jax.tree.map(lambda *parts: np.concatenate(parts), *self._held)
        number = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        content = _to_parquet({"trajectory": number, **leaves(together)})
        file = f"chunk-{len(self._chunks):05d}.parquet"
        write_whole(self._folder / file, content)
        episodes = sum(complete(held) for held in self._held)
        self._chunks.append(Chunk(file, len(number), len(lengths), episodes, hashlib.sha256(content).hexdigest()))
        self._held, self._held_steps = [], 0


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
    needed = {path: Leaf(np.dtype(leaf.dtype).name, tuple(leaf.shape)) for path, leaf in leaves(signature).items()}
    require_columns(str(folder), index.columns, needed)
    chunks = _sound_chunks(folder, index, skip_broken)
    if not any(chunk.episodes for chunk in chunks):
        raise ValueError(
            f"{folder} holds {sum(chunk.trajectories for chunk in chunks)} trajectories, but no complete episode among "
            "them, so the ends of episodes can't be learned"
        )
    return Archive(folder, index, chunks, signature)


def read(archive: Archive, seed: int | None = None) -> Iterator[Steps]:
    """Yields the trajectories, leaves [T, ...], in the structure of the archive's signature.

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


def complete(trajectory: Steps) -> bool:
    """Whether a trajectory is an episode from its beginning to its end."""
    return bool(trajectory.step_type[0] == FIRST and trajectory.step_type[-1] == LAST)


def episode_return(trajectory: Steps, spec: EnvSpec) -> float:
    """Returns the sum of raw rewards; with two players, the sum from player 0's view."""
    reward = np.asarray(trajectory.reward[1:], np.float64)
    if spec.num_players == 2:
        reward = np.where(trajectory.observation.player[:-1] == 0, reward, -reward)
    return float(reward.sum())


def _trajectories(archive: Archive, chunk: Chunk) -> list[Steps]:
    wanted = leaves(archive.signature)
    columns = _from_parquet(_checked(archive.folder, chunk), {path: archive.index.columns[path] for path in wanted})
    starts = np.flatnonzero(np.diff(columns.pop("trajectory"), prepend=-1))
    structure = jax.tree.structure(archive.signature)
    return [
        jax.tree.unflatten(structure, [column[start:end] for column in columns.values()])
        for start, end in zip(starts, [*starts[1:], chunk.steps])
    ]


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
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"chunk {path} can't be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != chunk.sha256:
        raise ValueError(f"chunk {path} is broken: it doesn't match its checksum in {INDEX}")
    return content


def _to_parquet(columns: dict[str, np.ndarray]) -> bytes:
    """Encodes columns [N, ...] as a compressed Parquet file with a checksum of every page."""
    fields, arrays = [], []
    for path, values in columns.items():
        metadata = {"dtype": values.dtype.name, "shape": json.dumps(values.shape[1:])}
        array = _encode(values)
        fields.append(pa.field(path, array.type, nullable=False, metadata=metadata))
        arrays.append(array)
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=pa.schema(fields)), sink, compression="zstd", write_page_checksum=True
    )
    return sink.getvalue().to_pybytes()


def _from_parquet(content: bytes, wanted: dict[str, Leaf]) -> dict[str, np.ndarray]:
    """Decodes `trajectory` and the wanted columns, read-only arrays [N, ...], of a Parquet file."""
    table = pq.read_table(
        pa.BufferReader(content), columns=["trajectory", *wanted], page_checksum_verification=True, use_threads=False
    ).combine_chunks()
    columns = {"trajectory": table.column("trajectory").to_numpy()}
    return columns | {path: _decode(table.column(path), leaf) for path, leaf in wanted.items()}


def _encode(values: np.ndarray) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    width = little.dtype.itemsize * int(np.prod(little.shape[1:]))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(little), [None, pa.py_buffer(little)])


def _decode(column: pa.ChunkedArray, leaf: Leaf) -> np.ndarray:
    if not leaf.shape:
        return column.to_numpy()
    array = column.chunk(0)
    dtype = np.dtype(leaf.dtype).newbyteorder("<")
    count = len(array) * int(np.prod(leaf.shape))
    values = np.frombuffer(array.buffers()[1], dtype, count, offset=array.offset * array.type.byte_width)
    return values.reshape(len(array), *leaf.shape)
