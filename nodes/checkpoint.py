"""Checkpoints of a learner: state and counters, written atomically by orbax, the newest few kept."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

Nest = Any

# One device writes what many hold alike. Where each writes a part of it, orbax takes JAX's `set_mesh` for a context
# manager, which JAX 0.6's is not: a process's first checkpoint fails, and a mesh of one device stays set.
_TYPES = ocp.type_handlers.create_type_handler_registry(
    (jax.Array, ocp.type_handlers.ArrayHandler(use_replica_parallel=False)),
    (np.ndarray, ocp.type_handlers.NumpyHandler()),
)


class Checkpointer:
    """Saves and restores learner states in a folder, one step number each.

    Args:
      folder: made if missing.
      keep: newest checkpoints retained.
      start_from: folder that `resume` turns to as long as the first has none.
    """

    def __init__(self, folder: pathlib.Path, keep: int = 3, start_from: str | None = None):
        self._folder = folder.absolute()
        self._start_from = start_from
        self._manager = ocp.CheckpointManager(
            self._folder,
            item_handlers={
                "state": ocp.PyTreeCheckpointHandler(type_handler_registry=_TYPES),
                "counts": ocp.JsonCheckpointHandler(),
            },
            options=ocp.CheckpointManagerOptions(max_to_keep=keep, create=True),
        )

    def latest(self) -> int | None:
        """The newest step, if any."""
        return self._manager.latest_step()

    def save(self, step: int, state: Nest, counts: dict[str, float]) -> None:
        """Saves, and returns once the checkpoint is whole on disk. An interrupted or failed save leaves the older ones.

        Raises:
          OSError: it could not be written; the cause says why.
        """
        if step == self.latest():
            return
        items = ocp.args.Composite(state=ocp.args.PyTreeSave(state), counts=ocp.args.JsonSave(dict(counts)))
        try:
            self._manager.save(step, args=items, force=True)
            self._manager.wait_until_finished()
        except Exception as error:  # orbax and tensorstore raise many kinds
            reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), repr(error))
            raise OSError(f"checkpoint {step} could not be saved in {self._folder}: {reason[:300]}") from error

    def restore(self, like: Nest) -> tuple[Nest, dict[str, float]]:
        """The newest checkpoint's `(state, counts)`, on the devices of `like`.

        Args:
          like: a state of the same structure; its shapes are checked, its values ignored.

        Raises:
          FileNotFoundError: there is none.
          ValueError: it is another network's; says which leaf differs first.
        """
        step = self.latest()
        if step is None:
            raise FileNotFoundError(f"no checkpoint in {self._folder}")
        saved = self._manager.item_metadata(step)["state"]
        _require_same_shapes(saved, like, f"{self._folder}/{step}")
        like_state = ocp.args.PyTreeRestore(like, restore_args=ocp.checkpoint_utils.construct_restore_args(like))
        items = ocp.args.Composite(state=like_state, counts=ocp.args.JsonRestore())
        restored = self._manager.restore(step, args=items)
        return restored["state"], restored["counts"]

    def resume(self, state: Nest, monitor: Any) -> tuple[Nest, dict[str, float]]:
        """As `restore`, and the monitor, which may be None, goes on counting; `state` itself if nothing was saved."""
        if self.latest() is not None:
            state, counts = self.restore(state)
        elif self._start_from is not None:
            state, counts = Checkpointer(pathlib.Path(self._start_from)).restore(state)
        else:
            return state, {}
        if monitor is not None:
            monitor.resume(counts)
        return state, counts


def _require_same_shapes(saved: Any, like: Nest, where: str) -> None:
    saved_shapes, shapes = _shapes(saved), _shapes(like)
    for name in [*shapes, *saved_shapes]:
        if saved_shapes.get(name) != shapes.get(name):
            raise ValueError(
                f"checkpoint {where} is another network's: {name} is {saved_shapes.get(name, 'missing')} there, "
                f"{shapes.get(name, 'missing')} here; give the settings it was made with, or another workdir"
            )


def _shapes(nest: Nest) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree_util.tree_flatten_with_path(nest)[0]
    return {"/".join(_name(key) for key in path): tuple(leaf.shape) for path, leaf in leaves}


def _name(key: Any) -> str:
    """One step of a leaf's path, spelled alike for tuples, namedtuples and dicts: orbax turns one into the other."""
    return str(next(getattr(key, field) for field in ("name", "key", "idx") if hasattr(key, field)))
