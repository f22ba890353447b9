"""The dataset: sequences from a table, batched, time-major, and on the learner's devices ahead of use."""

from __future__ import annotations

from nodes import rlax_first  # noqa: F401

# isort: split

import queue
import threading
from typing import Any

import jax
import numpy as np
import reverb
import tensorflow as tf

from agents.base import Batch, Steps, Table
from nodes.priorities import make_priorities

CONNECT_DEADLINE_S = 120
WORKERS = 2  # streams from a replay table; more cost more than they bring


class Dataset:
    """Draws batches in a background thread and places them on the mesh.

    Args:
      client: of the replay server.
      table: to draw from.
      sharding: a `Batch` of shardings for the leaves.
      ahead: batches held on the devices before they are asked for. On-policy agents want few: each is policy lag.
    """

    def __init__(self, client: reverb.Client, table: Table, sharding: Batch, ahead: int = 1):
        self._client = client
        self._table = table
        self._sharding = sharding
        # A table restored from a checkpoint has been drawn from before.
        info = client.server_info(timeout=CONNECT_DEADLINE_S)[table.name]
        self._drawn = info.rate_limiter_info.sample_stats.completed
        self._priorities = make_priorities(table)
        self._error: BaseException | None = None
        self._batches: queue.Queue[tuple[Batch, np.ndarray]] = queue.Queue()
        self._space = threading.Semaphore(ahead)  # taken before drawing, so that no further batch ages in hand
        self._thread = threading.Thread(target=self._fill, daemon=True)
        self._thread.start()

    def next(self, timeout_s: float) -> tuple[Batch, np.ndarray] | None:
        """The next batch, leaves [T, B, ...] on the devices, and its sequences' keys, uint64 [B] on the host.

        None if it isn't there within `timeout_s`.
        """
        if self._error is not None:
            raise RuntimeError(f"reading table {self._table.name!r} failed") from self._error
        try:
            drawn = self._batches.get(timeout=timeout_s)
        except queue.Empty:
            return None
        self._space.release()
        self._drawn += self._table.batch_size
        return drawn

    def prioritise(self, keys: np.ndarray, errors: np.ndarray) -> None:
        """Tells the table what an update made of sequences drawn from it; those it has dropped since don't matter.

        Args:
          keys: uint64 [B], as `next` gave them.
          errors: float [B], finite and at least 0.
        """
        if self._priorities is None:
            return
        if not np.all(np.isfinite(errors) & (errors >= 0)):
            raise ValueError(f"priorities for table {self._table.name!r} must be finite and at least 0: {errors}")
        priorities = self._priorities(keys, errors)
        updates = dict(zip(keys.tolist(), priorities.tolist(), strict=True))
        self._client.mutate_priorities(self._table.name, updates)

    def ready(self) -> bool:
        """Whether the table has been given enough for its rate limiter to let the next batch through."""
        limiter = self._client.server_info()[self._table.name].rate_limiter_info
        inserted = limiter.insert_stats.completed
        owed = inserted * limiter.samples_per_insert - (self._drawn + self._table.batch_size)
        return inserted >= limiter.min_size_to_sample and owed >= limiter.min_diff

    def _fill(self) -> None:
        try:
            samples = self._samples()
            while True:
                self._space.acquire()
                self._batches.put(self._place(next(samples)))
        except StopIteration:
            self._error = EOFError("the replay server ended the stream")
        except BaseException as error:  # handed to whoever asks for the next batch
            self._error = error

    def _samples(self) -> Any:
        # A queue needs one worker to stay in order. In flight, and so drawn before their time, is half a batch at most.
        workers = 1 if self._table.kind == "queue" else WORKERS
        dataset = reverb.TrajectoryDataset.from_table_signature(
            server_address=self._client.server_address,
            table=self._table.name,
            max_in_flight_samples_per_worker=max(1, self._table.batch_size // 4),
            num_workers_per_iterator=workers,
            get_signature_timeout_secs=CONNECT_DEADLINE_S,
        ).batch(self._table.batch_size, drop_remainder=True)
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        return dataset.with_options(options).as_numpy_iterator()

    def _place(self, sample: Any) -> tuple[Batch, np.ndarray]:
        # [B, T, ...] -> [T, B, ...]
        steps = jax.tree.map(lambda leaf: np.ascontiguousarray(np.swapaxes(leaf, 0, 1)), Steps(*sample.data))
        probability = np.asarray(sample.info.probability, np.float32)
        return jax.device_put(Batch(steps, probability), self._sharding), sample.info.key
