"""What an update returns, checked while it is traced: where it runs, that costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from boonta.agents.base import Batch, Nest, Table, Update
from boonta.agents.metrics import HISTOGRAM
from boonta.nodes.acting.outputs import OutputError, require_same, shown, three_of
from boonta.nodes.watch.declarations import METRICS

# What nodes count and measure themselves, by name; in a row, a value of the update's would take its place.
RESERVED = {metric.name: metric.meaning for metric in METRICS}


def checked_update(update: Update, state: Nest, batch: Batch, tables: Sequence[Table]) -> tuple[Nest, Any, dict]:
    """`update.step`, whose results are refused if they fit neither the state, the batch nor the tables.

    Args:
      update: the agent's update.
      state, batch: the arguments of its step.
      tables: the tables that the batch is drawn from.

    Returns:
      The state, the priorities [B] or None, and the metrics.

    Raises:
      OutputError: the message names the part, what it is and what it must be.
    """
    out = update.step(state, batch)
    after, priorities, metrics = three_of("the update's step", out, "(state, priorities or None, metrics)")
    require_same("the learner's state", state, after)
    _require_priorities(priorities, batch.probability.shape[0], tables)
    for name, value in metrics.items():
        _require_metric(name, value)
    return after, priorities, metrics


def _require_priorities(priorities: Any, size: int, tables: Sequence[Table]) -> None:
    weighed = {table.name: table.sampler for table in tables if table.is_prioritised}
    if priorities is None:
        if weighed:
            raise OutputError(
                f"the update's priorities are None, but tables draw by them: {weighed}; they must be float32[{size}], "
                "the error of each of the batch's sequences"
            )
    elif jnp.shape(priorities) != (size,):
        raise OutputError(
            f"the update's priorities are {shown(priorities)}; they must be float32[{size}], the error of each of "
            "the batch's sequences, or None"
        )


def _require_metric(name: str, value: Any) -> None:
    if name in RESERVED:
        raise OutputError(
            f"the update's metric {name!r} has the name of one of the nodes' own ({RESERVED[name].rstrip('.')}); give "
            "it another"
        )
    if isinstance(value, str) or value is None or (jnp.shape(value) != () and not name.startswith(HISTOGRAM)):
        raise OutputError(
            f"the update's metric {name!r} is {shown(value)}; it must be a scalar, or a histogram of "
            f"`agents.metrics` whose name begins with {HISTOGRAM!r}"
        )
