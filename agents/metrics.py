"""What metrics mean: a declaration for each value that agents put into a row, and those of the shared toolbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

HISTOGRAM = "histogram/"  # The first letters of a metric that is an array, from `histogram`.

# Upper ends of a histogram's bins: fine around 1, where ratios are, and coarse below, for errors and priorities.
ENDS = (1e-3, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97, 1.03, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 10.0, 30.0, np.inf)
_ENDS = np.array(ENDS, np.float32)
_DIFFERENCES = np.eye(len(ENDS), dtype=np.float32) - np.eye(len(ENDS), k=1, dtype=np.float32)  # [to the end, bins]


class Metric(NamedTuple):
    """What a value in a row of metrics means.

    Attributes:
      name: its name in rows; a part in angle brackets stands for any name, as in "rss_mb/<node>".
      meaning: what it is.
      unit: what it counts or is measured in; empty for a number without one.
      healthy: how it should behave, and what it points to if it doesn't; empty where nothing is better.
    """

    name: str
    meaning: str
    unit: str = ""
    healthy: str = ""


METRICS = (
    Metric("loss", "The loss of the newest update, which the optimiser descends.", healthy="finite; it need not fall"),
    Metric(
        "grad_norm",
        "Global norm of the gradient before it is clipped.",
        healthy="steady; 0 means that the loss no longer depends on the params",
    ),
    Metric("grad_norm/<optimiser>", "The same for one of several optimisers.", healthy="as grad_norm"),
    Metric(
        "update_norm",
        "Global norm of the change that the optimiser makes to the params.",
        healthy="small beside the params, and falling with the learning rate",
    ),
    Metric("update_norm/<optimiser>", "The same for one of several optimisers.", healthy="as update_norm"),
    Metric(
        "learning_rate", "The optimiser's learning rate at this update, from its schedule.", healthy="by its schedule"
    ),
    Metric("learning_rate/<optimiser>", "The same for one of several optimisers.", healthy="by its schedule"),
    Metric(
        "rests/<optimiser>",
        "Whether this update, 1 or 0, is one of those that leave the optimiser's params as they are.",
        healthy="as often as the agent's config has it",
    ),
    Metric(
        "importance_exponent",
        "Exponent of the weights that make up for prioritised drawing.",
        healthy="by its schedule",
    ),
    Metric("value", "Mean of the predicted values of a batch.", "discounted return", "near the returns that are seen"),
    Metric(
        "entropy",
        "Mean entropy of the policy.",
        "nats",
        "falling slowly; near 0 while returns are poor, the policy has stopped exploring",
    ),
    Metric("entropy_uniform", "Entropy of a policy to which all actions are equal: the most there can be.", "nats"),
    Metric(
        "differential_entropy",
        "Mean entropy of a policy whose actions are real numbers, scaled to [-1, 1]; it may be negative, and that of a "
        "uniform policy is 0.69 for each number.",
        "nats",
        "falling slowly",
    ),
    Metric(
        "histogram/<quantity>/<end>",
        "Share of a quantity's values up to a bin's end and above the one before.",
        healthy="of ratios most between 0.9 and 1.1; of priorities no second hill far above the first",
    ),
    Metric(
        "meta/loss",
        "The meta-loss: that of the other half of the batch, after an update with the learned values.",
        healthy="finite; it need not fall",
    ),
    Metric("meta/<field>", "The learned value of a hyper-parameter.", healthy="it settles within the field's bounds"),
)


def histogram(x: Any, mask: Any = None) -> Any:
    """A histogram of ratios, errors or priorities, as a metric whose name begins with `HISTOGRAM`.

    Args:
      x: numbers of at least 0, of any shape, in numpy or JAX.
      mask: an array like x, 1 where a number counts and 0 elsewhere; None counts all.

    Returns:
      float [len(ENDS)], the share of the numbers in each bin, that is above the end before and at most its own. So
      histograms can be averaged as other metrics are.
    """
    weight = 1.0 if mask is None else mask[..., None]
    # Sums alone, so that devices among which numbers are split need exchange nothing else.
    below = ((x[..., None] <= _ENDS) * weight).sum(axis=tuple(range(x.ndim)))
    return below @ _DIFFERENCES / (below[-1] + 1e-8)


def expanded(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics without arrays: each histogram [..., bins] becomes one value [...] for each bin, "<name>/<its end>"."""
    values: dict[str, Any] = {}
    for name, value in metrics.items():
        bins = {f"{name}/{end:g}": value[..., i] for i, end in enumerate(ENDS)} if name.startswith(HISTOGRAM) else {}
        values |= bins or {name: value}
    return values
