"""What DQN's metrics mean."""

from __future__ import annotations

from boonta.agents.metrics import Metric

METRICS = (
    Metric("value_target", "Mean of the targets of a batch's values.", "discounted return", "near value"),
    Metric("value_error", "Mean distance between values and their targets.", "discounted return", "falling"),
    Metric(
        "reward",
        "Mean reward of a row, as clipped for learning.",
        "reward",
        "rising, as the table is filled by better policies",
    ),
    Metric(
        "largest_target_share",
        "C51: the largest target of the batch, in units of the support's limit.",
        healthy="at most 1",
    ),
    Metric("outside_support", "C51: share of targets beyond the support's limit.", healthy="0: raise support_limit"),
)
