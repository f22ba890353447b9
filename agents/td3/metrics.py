"""What TD3's metrics mean, and DDPG's."""

from __future__ import annotations

from boonta.agents.metrics import Metric

METRICS = (
    Metric(
        "critic_loss",
        "Squared errors of the critics, added up over them.",
        "return squared",
        "steady beside the values' scale; growing without end, values diverge",
    ),
    Metric(
        "policy_loss",
        "The first critic's value of the policy's actions, negated.",
        "discounted return",
        "falling as values rise: it is the negated value",
    ),
    Metric(
        "value_error",
        "Mean distance between the critics' values and their targets.",
        "discounted return",
        "small beside the values",
    ),
)
