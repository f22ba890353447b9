"""What PPO's metrics mean."""

from __future__ import annotations

from boonta.agents.metrics import Metric

METRICS = (
    Metric("policy_loss", "The clipped surrogate, weighted by advantages.", healthy="around 0"),
    Metric(
        "baseline_loss",
        "Half the squared error of values against their targets.",
        "return squared",
        "falling at first; it grows with the scale of returns",
    ),
    Metric(
        "kl",
        "Divergence of the policy from that before the update, estimated on the batch.",
        "nats",
        "below 0.05; above it, steps are too large",
    ),
    Metric("ratio_clipped", "Share of transitions whose ratio is beyond the clip.", healthy="below 0.3"),
    Metric(
        "epochs",
        "Epochs that the update made, where a target divergence may end it sooner.",
        healthy="the config's number; fewer: target_kl ends updates early, and steps are too large",
    ),
    Metric("rho", "Mean ratio of the policy before the update to the one that acted.", healthy="near 1"),
    Metric("rho_error", "Mean distance of that ratio from 1.", healthy="0 where data is fresh"),
    Metric("reward", "Mean reward of a transition, as learned from.", "reward", "rising"),
    Metric(
        "value_explained",
        "Share of the variance of the values' targets that the values before the update explain.",
        healthy="rising towards 1; below 0, a constant would predict better",
    ),
    Metric("entropy_cost", "Weight of the entropy bonus in this update.", healthy="by its schedule"),
)
