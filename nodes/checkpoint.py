"""Checkpoints of a learner's state and counters: orbax writes the files, the store of snapshots makes them count."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from boonta.agents.base import Nest
from boonta.nodes.hosts import coordination
from boonta.nodes.snapshots import schema
from boonta.nodes.snapshots.files import FULL
from boonta.nodes.snapshots.store import KEEP, Retention, SnapshotFolder, one_of, print_warning

SAVE_DEADLINE_S = 1_800.0  # Time that other hosts wait for the first one's save, and a thread for another's.

_COUNTS = dict[str, schema.Number]

# Orbax counts the saves of a process. Two threads that save at once wait for each other's parts for ever.
_orbax = threading.Lock()

# One device writes a replicated array. If each device wrote a part of it, orbax would use JAX's `set_mesh` as a context
# manager, which it is not in JAX 0.6: a process's first checkpoint would fail, and a mesh of one device would stay set.
_TYPES = ocp.type_handlers.create_type_handler_registry(
    (jax.Array, ocp.type_handlers.ArrayHandler(use_replica_parallel=False)),
    (np.ndarray, ocp.type_handlers.NumpyHandler()),
)


def unsaved(error: OSError) -> OSError:
    """The failure of a run whose last checkpoint can't be saved; no later save comes, so it says what is left."""
    first = "make room there: " if FULL in str(error) else ""
    kept = "those before it are kept, and the run goes on from the newest if it is started again"
    return OSError(f"{error}; {first}{kept}")


class Checkpointer:
    """Saves and restores learner states in a folder, each under a step number.

    Of several hosts, which share the folder, the first one decides what is read and makes a checkpoint count.

    Args:
      folder: the folder of the checkpoints; `resume` and `save` make it if it is missing. To restore one that may be
        older than the newest, that checkpoint's own folder.
      retention: which checkpoints stay.
      start_from: another such folder, from which `resume` restores if the first one has no checkpoint.
      warn: called with what is wrong with a damaged checkpoint, if one is passed over.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        retention: Retention = KEEP,
        start_from: str | None = None,
        warn: Callable[[str], None] = print_warning,
    ):
        folder, self._one = one_of(folder)
        self._store = SnapshotFolder(folder, "checkpoint", retention)
        self._start_from = start_from
        self._warn = warn
        self._step: int | None = None  # The last one that was saved or restored.
        self._reader = _make_orbax(None)
        self._writer = _make_orbax(
            {0}
        )  # The first host writes alone, so that the others need not wait for it in orbax.
        self._saves = 0

    def latest(self, whole: bool = False) -> int | None:
        """Returns the step number of the newest sound checkpoint, or None; of one checkpoint's own folder, its number.

        Args:
          whole: find one whose tables, which are saved beside it, are sound, too; see `SnapshotFolder.newest_whole`.

        Raises:
          ValueError: there are checkpoints, but none is sound; the message says what is wrong with each.
        """
        find: Callable[[], int | None]
        if self._one is not None:
            find = functools.partial(self._store.sound, self._one)
        else:
            find = functools.partial(self._store.newest_whole if whole else self._store.newest, self._warn)
        return find() if jax.process_count() == 1 else _agreed(find, self._store.folder)

    def save(self, step: int, state: Nest, counts: dict[str, float], rest: Nest = None, beside: str = "") -> None:
        """Saves a checkpoint; returns when it is complete on disk. A failed or interrupted save keeps the older ones.

        Args:
          step: its number.
          state: the learner state, with which any program goes on that has the same agent.
          counts: the program's counters.
          rest: what the same program needs besides to go on as if it had never been interrupted; None for nothing.
          beside: the name of the folder in which its tables are saved under the same number; empty for none.

        Raises:
          OSError: it could not be written; the message gives the reason.
        """
        if step == self._step:
            return
        self._saves += 1
        if jax.process_count() == 1:
            self._write(step, state, counts, rest, beside)
        else:  # All hosts must know whether it succeeded, and none may make an update meanwhile.
            write = lambda: self._write(step, jax.device_get(state), counts, rest, beside)  # noqa: E731
            coordination.on_first(f"{self._store.folder}/saves/{self._saves}", write, SAVE_DEADLINE_S)
        self._step = step

    def save_alone(self, step: int, state: Nest, counts: dict[str, float], files: Mapping[str, bytes]) -> None:
        """Saves a checkpoint from this host's own copy of the state, with no part of the other hosts.

        Args:
          step, state, counts: as for `save`; another checkpoint of this number is replaced.
          files: the contents of files to lie in it, by their names.

        Raises:
          OSError: as `save`.
        """
        self._write(step, state, counts, None, "", files, replaces=True)

    def _write(
        self,
        step: int,
        state: Nest,
        counts: dict[str, float],
        rest: Nest,
        beside: str,
        files: Mapping[str, bytes] = MappingProxyType({}),
        replaces: bool = False,
    ) -> None:
        named = {"state": ocp.args.PyTreeSave(state), "counts": ocp.args.JsonSave(dict(counts))}
        if rest is not None:
            named["rest"] = ocp.args.PyTreeSave(rest)
        folder = self._store.folder
        configs = (folder.parent / schema.CONFIG, folder.parent.parent / schema.CONFIG)  # One such as best/ is deeper.
        expected = sum(getattr(leaf, "nbytes", 0) for leaf in jax.tree.leaves((state, rest)))
        with (
            _orbax_errors_as(OSError, f"checkpoint {step} could not be saved in {self._store.folder}"),
            self._store.writing(step, beside, replaces, expected=expected) as path,
        ):
            with _one_save_at_a_time():
                self._writer.save(path, args=ocp.args.Composite(**named))
            for config in filter(pathlib.Path.exists, configs):
                shutil.copyfile(config, path / schema.CONFIG)
                break
            for name, content in files.items():
                (path / name).write_bytes(content)

    def restore(self, like: Nest) -> tuple[Nest, dict[str, float]]:
        """Restores the newest sound checkpoint's `(state, counts)` to the devices of `like`.

        Args:
          like: a state of the same structure; its shapes are checked, its values ignored.

        Raises:
          FileNotFoundError: there is no checkpoint.
          ValueError: none is sound; or it is of another network, and the message names the first leaf that differs; or
            orbax can't restore it.
        """
        step = self.latest()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {self._store.folder}")
        return self._restore(step, like)

    def resume(self, state: Nest, whole: bool = False) -> tuple[Nest, dict[str, float]]:
        """Restores the newest sound checkpoint, with the program's counters; `state` itself and {} if there is none.

        Args:
          state: a state of the same structure.
          whole: as for `latest`.

        Raises:
          OSError: the folder can't be made.
          ValueError: as `restore`.
        """
        self._store.folder.mkdir(parents=True, exist_ok=True)
        step = self.latest(whole)
        if step is not None:
            return self._restore(step, state)
        if self._start_from is not None:
            return Checkpointer(pathlib.Path(self._start_from), warn=self._warn).restore(state)
        return state, {}

    def rest(self, like: Nest) -> Nest:
        """Restores what the checkpoint of this folder that was resumed holds besides; None if it holds nothing more.

        Args:
          like: arrays, or their shapes with shardings, of the same structure.

        Raises:
          ValueError: it doesn't fit, and the message names the first leaf that differs; or orbax can't restore it.
        """
        if self._step is None or not (self._store.path(self._step) / "rest").exists():
            return None
        return self._restore_item(self._step, "rest", like)

    def _restore(self, step: int, like: Nest) -> tuple[Nest, dict[str, float]]:
        state = self._restore_item(step, "state", like)
        with self._restoring(step):
            items = ocp.args.Composite(counts=ocp.args.JsonRestore())
            counts = schema.checked(_COUNTS, self._reader.restore(self._store.path(step), args=items)["counts"])
        self._step = step
        return state, counts

    def _restore_item(self, step: int, name: str, like: Nest) -> Nest:
        """Restores a nest of arrays to the devices of `like`."""
        path = self._store.path(step)
        with self._restoring(step):
            saved = self._reader.metadata(path).item_metadata[name]
        _require_same_shapes(saved, like, str(path))
        asked = ocp.args.PyTreeRestore(like, restore_args=ocp.checkpoint_utils.construct_restore_args(like))
        with self._restoring(step):
            return self._reader.restore(path, args=ocp.args.Composite(**{name: asked}))[name]

    def _restoring(self, step: int) -> contextlib.AbstractContextManager[None]:
        return _orbax_errors_as(ValueError, f"checkpoint {self._store.path(step)} can't be restored")


def _make_orbax(hosts: set[int] | None) -> ocp.Checkpointer:
    """Orbax for these hosts; None for all."""
    options = ocp.options.MultiprocessingOptions(
        primary_host=0, active_processes=hosts, barrier_sync_key_prefix="first" if hosts else None
    )
    nest = functools.partial(ocp.PyTreeCheckpointHandler, type_handler_registry=_TYPES, multiprocessing_options=options)
    handler = ocp.CompositeCheckpointHandler(
        composite_options=ocp.CompositeOptions(multiprocessing_options=options),
        state=nest(),
        counts=ocp.JsonCheckpointHandler(multiprocessing_options=options),
        rest=nest(),
    )
    return ocp.Checkpointer(handler, multiprocessing_options=options)


@contextlib.contextmanager
def _one_save_at_a_time() -> Iterator[None]:
    if not _orbax.acquire(timeout=SAVE_DEADLINE_S):
        raise TimeoutError(f"another save of this process took over {SAVE_DEADLINE_S:.0f} s")
    try:
        yield
    finally:
        _orbax.release()


@contextlib.contextmanager
def _orbax_errors_as(kind: type[Exception], failure: str) -> Iterator[None]:
    """Raises one kind of error, with its reason, for the many that orbax and tensorstore raise."""
    try:
        yield
    except Exception as error:
        reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), repr(error))
        raise kind(f"{failure}: {reason[:300]}") from error


def _agreed(find: Callable[[], int | None], folder: pathlib.Path) -> int | None:
    """What the first of several hosts finds, on all of them: they must not restore different checkpoints.

    Raises:
      ValueError: it finds that none is sound.
    """
    number, failure = -1, ""
    if jax.process_index() == 0:
        try:
            newest = find()
            number = -1 if newest is None else newest
        except ValueError as error:
            number, failure = -2, str(error)
    number = int(multihost_utils.broadcast_one_to_all(np.int32(number)))
    if number == -2:
        raise ValueError(failure or f"no checkpoint in {folder} is sound; the first host says what is wrong")
    return None if number == -1 else number


def _require_same_shapes(saved: Any, like: Nest, where: str) -> None:
    saved_shapes, shapes = _shapes(saved), _shapes(like)
    for name in [*shapes, *saved_shapes]:
        if saved_shapes.get(name) != shapes.get(name):
            raise ValueError(
                f"checkpoint {where} is another network's: {name} is {saved_shapes.get(name, 'missing')} there, "
                f"{shapes.get(name, 'missing')} here; give the settings it was made with, or another workdir"
            )


def _shapes(nest: Nest) -> dict[str, tuple[int, ...]]:
    """The shapes of the leaves by path, which is the same for tuples, namedtuples and dicts of one structure.

    Orbax converts a namedtuple into a dict.
    """
    leaves = jax.tree_util.tree_flatten_with_path(nest)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): tuple(leaf.shape) for path, leaf in leaves}
