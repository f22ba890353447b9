"""What metrics mean: a declaration for each value that agents put into a row, and those of the shared toolbox."""

from __future__ import annotations

from typing import NamedTuple


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
    Metric("grad_norm/<optimiser>", "The same for one of several optimisers."),
    Metric(
        "update_norm",
        "Global norm of the change that the optimiser makes to the params.",
        healthy="small beside the params, and falling with the learning rate",
    ),
    Metric("update_norm/<optimiser>", "The same for one of several optimisers."),
    Metric("learning_rate", "The optimiser's learning rate at this update, from its schedule."),
    Metric("learning_rate/<optimiser>", "The same for one of several optimisers."),
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
    Metric("meta/loss", "The meta-loss: that of the other half of the batch, after an update with the learned values."),
    Metric("meta/<field>", "The learned value of a hyper-parameter.", healthy="it settles within the field's bounds"),
)
