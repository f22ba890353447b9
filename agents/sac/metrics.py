"""What SAC's metrics mean."""

from __future__ import annotations

from boonta.agents.metrics import Metric

METRICS = (
    Metric(
        "critic_loss",
        "Half the squared errors of the critics, added up over them.",
        "return squared",
        "steady beside the values' scale; growing without end, values diverge",
    ),
    Metric(
        "policy_loss",
        "The policy's entropy, weighted and negated, minus the least critic's value of its actions.",
        healthy="falling as values rise: it is about the negated value",
    ),
    Metric(
        "temperature_loss", "The loss that moves the temperature.", healthy="around 0 once the entropy is as wanted"
    ),
    Metric(
        "temperature",
        "alpha: what a nat of entropy is worth.",
        "reward per nat",
        "falling while the policy is more random than wanted, then steady",
    ),
    Metric("entropy_wanted", "The entropy that the temperature steers to.", "nats", "constant"),
    Metric(
        "value_error",
        "Mean distance between the critics' values and their targets.",
        "discounted return",
        "small beside the values",
    ),
)
