"""What MuZero's metrics mean.

A loss is a mean over sequences. The root counts 1 in it, and the K states after it 1 together; a loss that belongs to
steps has no root.
"""

from __future__ import annotations

from boonta.agents.metrics import Metric

METRICS = (
    Metric(
        "policy_loss",
        "Cross-entropy of the predicted policy and the search's: the root's, and the mean of the states' after it.",
        "nats",
        "falling to about twice search_entropy",
    ),
    Metric(
        "value_loss",
        "Cross-entropy of the predicted value and its target, both on the support.",
        "nats",
        "falling at first; it rises where better play has new values to learn",
    ),
    Metric(
        "reward_loss",
        "Cross-entropy of the predicted reward and the one received, both on the support.",
        "nats",
        "falling to near 0 where rewards can be foreseen",
    ),
    Metric(
        "consistency_loss",
        "Cosine distance between a predicted hidden state and the representation of what followed.",
        healthy="falling; at once at its least, hidden states have collapsed to one",
    ),
    Metric(
        "chance_loss",
        "Loss of the codes of chance outcomes (Stochastic MuZero).",
        healthy="falling; 0 at once: all outcomes have one code",
    ),
    Metric(
        "afterstate_loss",
        "Cross-entropy of the predicted value of afterstates and its target.",
        "nats",
        "falling to about half of value_loss, which has the roots' besides",
    ),
    Metric(
        "value_target",
        "Mean of the targets of the roots' values.",
        "discounted return",
        "near value; rising with the return",
    ),
    Metric("value_error", "Mean distance between the roots' values and their targets.", "discounted return", "falling"),
    Metric(
        "hidden_deviation",
        "Standard deviation of each hidden unit over a batch's roots, averaged over units, as a share of their range.",
        healthy="above 0.01 after some hundred updates; near 0 the model can't tell states apart",
    ),
    Metric(
        "search_entropy",
        "Mean entropy of the search's policies in the batch, without those of an episode's last row.",
        "nats",
        "falling slowly; it stays high where the model can't tell actions apart",
    ),
    Metric(
        "largest_target",
        "The largest value or reward of the batch, as a distance from 0.",
        "discounted return",
        "below support_limit",
    ),
    Metric("largest_target_share", "The same in units of the support's limit.", healthy="at most 1"),
    Metric("outside_support", "Share of targets beyond the support's limit.", healthy="0: raise support_limit"),
)
