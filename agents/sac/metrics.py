"""What SAC's metrics mean."""

from __future__ import annotations

from boonta.agents.metrics import Metric

METRICS = (
    Metric("critic_loss", "Half the squared errors of the critics, added up over them.", "return squared"),
    Metric("policy_loss", "The policy's entropy, weighted and negated, minus the least critic's value of its actions."),
    Metric("temperature_loss", "The loss that moves the temperature."),
    Metric(
        "temperature",
        "alpha: what a nat of entropy is worth.",
        "reward per nat",
        "falling while the policy is more random than wanted, then steady",
    ),
    Metric("entropy_wanted", "The entropy that the temperature steers to.", "nats"),
    Metric(
        "value_error",
        "Mean distance between the critics' values and their targets.",
        "discounted return",
        "small beside the values",
    ),
)
