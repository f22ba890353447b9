"""What IMPALA's metrics mean."""

from __future__ import annotations

from boonta.agents.metrics import Metric

METRICS = (
    Metric("policy_loss", "The policy gradient's surrogate, weighted by V-trace's advantages.", healthy="around 0"),
    Metric(
        "baseline_loss",
        "Half the squared error of values against V-trace's targets.",
        "return squared",
        "falling at first; it grows with the scale of returns",
    ),
    Metric(
        "rho",
        "Mean importance ratio between the policy that learns and the one that acted.",
        healthy="near 1; far from it, data is too old or updates are too large",
    ),
    Metric("rho_clipped", "Share of transitions whose ratio V-trace clips.", healthy="below 0.5"),
    Metric("reward", "Mean reward of a transition, as clipped for learning.", "reward", "rising"),
    Metric(
        "value_explained",
        "Share of the variance of V-trace's targets that the values explain.",
        healthy="rising towards 1; below 0, a constant would predict better",
    ),
    Metric(
        "transitions",
        "Transitions of the batch that count; those after an episode's last step don't.",
        "steps",
        "near batch size times sequence length; far below, episodes are short",
    ),
)
