"""What R2D2's metrics mean."""

from __future__ import annotations

from boonta.agents.metrics import Metric

METRICS = (
    Metric("value_target", "Mean of the targets of a batch's values.", "discounted return", "near value"),
    Metric("value_error", "Mean distance between values and their targets, both rescaled.", healthy="falling"),
)
