"""The rules by which the health of learning is judged: what each of them finds, and the usual remedy.

A rule compares a row of metrics with the rows before; it finds nothing where a metric that it reads is missing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from boonta.nodes.watch.history import EXPLODED, NOTHING, Numbers, Seen, norms

LOW_ENTROPY = 0.02  # Share of the highest entropy below which a policy has almost a single action.
FAR_BELOW = 0.5  # Share of the range of returns.
VANISHED = 1e-7  # Factor of the typical value.
NO_PRIORITY = 1e-8
# Hidden states of Catch, CartPole and Breakout deviate by 0.08 to 0.24 of their range; those of Pong by 0.003 in the
# first hundred updates and 0.14 later, and those of its raw frames by 1e-4.
ALIKE = 1e-3
APART_UPDATES = 300
# The support counts as too small above these: the largest target, in units of the support's limit, and the share of
# targets beyond that limit. Smaller figures may be errors of a search.
FAR_OUTSIDE, MANY_OUTSIDE = 1.5, 0.05
LEFT_OUT = 0.2  # Share of all sequences so far that may be left out as too old, after as many updates as a start takes.
START_UPDATES = 10
EVALUATED = ("eval_version", "eval_age_allowed")
OLD = 5.0  # An evaluation is old after this factor of the longest gap between two so far.


@dataclasses.dataclass(frozen=True)
class Rule:
    """A fault of learning.

    Attributes:
      name: its name in warnings and, with underscores, in metrics.
      find: `(row, seen) -> figures that show it`, "" where it isn't found, or None where the row can't tell.
      advice: the usual remedy.
      reads: names of the metrics that it judges by, in this row or in those before.
      rows: number of rows in succession in which it must be found.
      share: share of all updates so far for which it must also last.
      collapse: whether learning has collapsed, see `StopRule.on_collapse`.
    """

    name: str
    find: Callable[[Numbers, Seen], str | None]
    advice: str
    reads: tuple[str, ...]
    rows: int = 3
    share: float = 0.0
    collapse: bool = False


def _entropy(row: Numbers, seen: Seen) -> str | None:
    entropy = row.get("entropy")
    if entropy is None or entropy >= LOW_ENTROPY * seen.most_entropy or seen.does_well:
        return ""
    if seen.stale:
        return None
    return f"the policy's entropy is {entropy:.3g} of {seen.most_entropy:.3g}, and returns are far from their best"


def _returns(row: Numbers, seen: Seen) -> str | None:
    del row
    if seen.stale:
        return None
    score, best = seen.score, seen.best
    if score is None or not best.is_above(score) or score.value >= best.value - FAR_BELOW * seen.range:
        return ""
    return f"the mean return is {score.value:.4g}, and was {best.value:.4g}"


def _vanished(metric: str) -> Callable[[Numbers, Seen], str | None]:
    def find(row: Numbers, seen: Seen) -> str | None:
        rests = False  # Whether some optimiser rests in this update, which then can't tell.
        for name in norms(row, metric):
            of = name.removeprefix(metric)  # An optimiser of several, as in "/policy".
            if row.get(f"learning_rate{of}", row.get("learning_rate", 1.0)) <= 0:  # It was annealed to 0.
                continue
            if row.get(f"rests{of}", 0.0) > 0:
                rests = True
            elif row[name] < max(NOTHING, VANISHED * (seen.typical(name) or 0.0)):
                return f"{name} is {row[name]:.3g}"
        return None if rests else ""

    return find


def _exploded(metric: str) -> Callable[[Numbers, Seen], str]:
    def find(row: Numbers, seen: Seen) -> str:
        for name in norms(row, metric):
            typical = seen.typical(name)
            if typical is not None and row[name] > EXPLODED * typical:
                return f"{name} is {row[name]:.3g}, and was {typical:.3g}"
        return ""

    return find


def _support(row: Numbers, seen: Seen) -> str:
    del seen
    largest, share = row.get("largest_target_share", 0.0), row.get("outside_support", 0.0)
    if largest <= FAR_OUTSIDE and share <= MANY_OUTSIDE:
        return ""
    return f"{share:.0%} of an update's values and rewards are beyond it, the largest is {largest:.3g} times its limit"


def _priorities(row: Numbers, seen: Seen) -> str:
    del seen
    largest = row.get("priority_max", 1.0)
    return f"the largest of an update is {largest:.3g}" if largest < NO_PRIORITY else ""


def _alike(row: Numbers, seen: Seen) -> str | None:
    del seen
    if row["updates"] < APART_UPDATES:
        return None
    deviation = row.get("hidden_deviation", 1.0)
    return f"hidden states deviate by {deviation:.3g} of their range from their mean" if deviation < ALIKE else ""


def _lag(row: Numbers, seen: Seen) -> str:
    del seen
    lag, most = row.get("policy_lag", 0.0), row.get("policy_lag_allowed", math.inf)
    return f"it is {lag:,.0f} updates, and the agent allows {most:,.0f}" if lag > most else ""


def _left_out(row: Numbers, seen: Seen) -> str:
    del seen
    left_out, sequences = row.get("stale_sequences", 0.0), row.get("sequences", 0.0)
    if row["updates"] < START_UPDATES or left_out <= LEFT_OUT * sequences:
        return ""
    return f"{left_out:,.0f} of {sequences:,.0f} sequences were too old to learn from"


def _evaluation(row: Numbers, seen: Seen) -> str:
    if "eval_version" not in row or "updates" not in row:
        return ""
    age = row["updates"] - row["eval_version"]
    usual = math.inf if seen.longest_gap is None else OLD * seen.longest_gap
    most = row.get("eval_age_allowed", usual)
    return f"the last one is of {age:,.0f} updates ago, more than {most:,.0f}" if age > most else ""


SLOWER = "start from the best checkpoint (--start-which best) with a lower learning rate, or clip gradients more"
RETURNS = ("return", "return_se", "return_episodes", "return_start", "eval_return", "eval_return_se", "eval_version")
RATES = ("learning_rate", "learning_rate/<optimiser>", "rests/<optimiser>")
RULES = (
    Rule(
        "entropy collapse",
        _entropy,
        f"raise the entropy bonus, or {SLOWER}",
        ("entropy", "entropy_uniform", *RETURNS),
        collapse=True,
    ),
    Rule(
        "returns fell",
        _returns,
        f"{SLOWER}, or raise the entropy bonus",
        RETURNS,
        rows=5,
        share=0.1,
        collapse=True,
    ),
    Rule(
        "gradient vanished",
        _vanished("grad_norm"),
        f"the loss no longer depends on the params: {SLOWER}, and look for saturated outputs",
        ("grad_norm", *RATES),
        collapse=True,
    ),
    Rule(
        "gradient exploded",
        _exploded("grad_norm"),
        "lower the learning rate, clip gradients, or scale rewards",
        ("grad_norm",),
    ),
    Rule(
        "update vanished",
        _vanished("update_norm"),
        "look at the learning rate, its schedule and the gradient",
        ("update_norm", *RATES),
    ),
    Rule(
        "update exploded",
        _exploded("update_norm"),
        "lower the learning rate, or raise the optimiser's epsilon",
        ("update_norm",),
    ),
    Rule(
        "values past the support",
        _support,
        "the network can't tell them apart: raise support_limit",
        ("largest_target_share", "outside_support"),
        rows=1,
    ),
    Rule(
        "priorities are zero",
        _priorities,
        "sequences are drawn as if all were equal: look at the value loss",
        ("priority_max",),
    ),
    Rule(
        "states are alike",
        _alike,
        "the model can't tell states apart: normalise observations, or lower the learning rate",
        ("updates", "hidden_deviation"),
        share=0.05,
        collapse=True,
    ),
    Rule(
        "policy lag",
        _lag,
        "use fewer actors or environments, a shorter queue, or larger batches",
        ("policy_lag", "policy_lag_allowed"),
    ),
    Rule(
        "data is left out",
        _left_out,
        "make updates faster, such as by fewer epochs or a smaller network, or allow a larger max_staleness",
        ("updates", "sequences", "stale_sequences"),
    ),
    Rule(
        "evaluation is old",
        _evaluation,
        "use fewer episodes or simulations, or a larger evaluation.max_share",
        ("updates", *EVALUATED),
    ),
)
