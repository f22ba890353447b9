"""Checkpoints of a learner's state and counters; orbax writes them atomically, and the newest few are kept."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

Nest = Any

# One device writes a replicated array. If each device wrote a part of it, orbax would use JAX's `set_mesh` as a context
# manager, which it is not in JAX 0.6: a process's first checkpoint would fail, and a mesh of one device would stay set.
_TYPES = ocp.type_handlers.create_type_handler_registry(
    (jax.Array, ocp.type_handlers.ArrayHandler(use_replica_parallel=False)),
    (np.ndarray, ocp.type_handlers.NumpyHandler()),
)


class Checkpointer:
    """Saves and restores learner states in a folder, each under a step number.

    Args:
      folder: the folder of the checkpoints; it is made if missing.
      keep: number of newest checkpoints to keep.
      start_from: another folder, from which `resume` restores if the first one has no checkpoint.
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
        """Returns the step number of the newest checkpoint, or None."""
        return self._manager.latest_step()

    def save(self, step: int, state: Nest, counts: dict[str, float]) -> None:
        """Saves a checkpoint; returns when it is complete on disk. A failed or interrupted save keeps the older ones.

        Raises:
          OSError: it could not be written; the message gives the reason.
        """
        if step == self.latest():
            return
        items = ocp.args.Composite(state=ocp.args.PyTreeSave(state), counts=ocp.args.JsonSave(dict(counts)))
        try:
            self._manager.save(step, args=items, force=True)
            self._manager.wait_until_finished()
        except Exception as error:  # Orbax and tensorstore raise many different classes.
            reason = next((line for line in reversed(str(error).splitlines()) if line.strip()), repr(error))
            raise OSError(f"checkpoint {step} could not be saved in {self._folder}: {reason[:300]}") from error

    def restore(self, like: Nest) -> tuple[Nest, dict[str, float]]:
        """Restores the newest checkpoint's `(state, counts)` to the devices of `like`.

        Args:
          like: a state of the same structure; its shapes are checked, its values ignored.

        Raises:
          FileNotFoundError: there is no checkpoint.
          ValueError: the checkpoint is of another network; the message names the first leaf that differs.
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
        """Restores the newest checkpoint and the monitor's counts; returns `state` itself if there is none.

        Args:
          state: a state of the same structure.
          monitor: handle of the monitor, or None.
        """
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
    """Names a JAX key in the same way for tuples, namedtuples and dicts, which orbax converts into each other."""
    return str(next(getattr(key, field) for field in ("name", "key", "idx") if hasattr(key, field)))
