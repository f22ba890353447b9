"""Groups of MuZero's hyper-parameters: PUCT's constants, and how actors choose among what a search found."""

from __future__ import annotations

import dataclasses

from boonta.agents.config import check, documented, field, require
from boonta.agents.groups import MEASURED


@documented
@dataclasses.dataclass(frozen=True)
class Puct:
    """Constants of the searches "puct" and "stochastic"; "gumbel" has none of them.

    Source: [M] MuZero (https://arxiv.org/abs/1911.08265) and the pseudocode that comes with it, its code.
    """

    dirichlet_alpha: float = field(
        0.3, "Parameter of the noise at the root.", source="[M], code: 0.3 for chess, 0.25 for Atari", above=0
    )
    dirichlet_fraction: float = field(
        0.25, "The noise's share of the root's prior over the legal actions.", source="[M], code", at_least=0, at_most=1
    )
    pb_c_init: float = field(1.25, "Constant c1 of the exploration term.", source="[M], Eq. 2", above=0)
    pb_c_base: float = field(19652.0, "Constant c2 of the exploration term.", source="[M], Eq. 2", above=0)

    def __post_init__(self) -> None:
        check(self)


@documented
@dataclasses.dataclass(frozen=True)
class SelfPlay:
    """How actors choose among the actions that a search found, see `search.noise_of`; evaluation takes the best.

    Sources: [M] MuZero (https://arxiv.org/abs/1911.08265), [Z] MooZi, [X] Ape-X (https://arxiv.org/abs/1803.00933).
    """

    # mctx gives an action without visits, such as an illegal one, the probability e^-87 before the temperature: at 2
    # it is 1e-19, at 10 it would be taken now and then.
    temperature: tuple[float, ...] = field(
        (1.0,),
        '"puct" and "stochastic": actors draw by visits ** (1 / temperature); 0 takes the most visited action. One '
        "number for each part of training.",
        source="[M], App. D: 1, 0.5 and 0.25 for Atari",
        at_least=0,
        at_most=2,
    )
    temperature_steps: tuple[int, ...] = field(
        (),
        "When the next temperature begins, counted in all slots together once learning starts.",
        unit="env steps",
        source="[M], App. D: after 500,000 and 750,000 of 1M updates for Atari, each times its env steps",
        at_least=1,
    )
    random_actions: float = field(
        0.0,
        "Share of the actors' actions that are drawn from all legal ones. Without some, self-play narrows down to a "
        "few games, and forgets how to meet other moves.",
        source=MEASURED,
        at_least=0,
        at_most=1,
    )
    spread: float = field(
        0.0,
        "Exploration by slot: slot i of the N of all actors has its temperature, the noise at its root (Dirichlet's "
        "share, Gumbel's scale) and its share of random actions multiplied by 1 - spread * i / (N - 1). With 0 all "
        "are alike, with 1 the last one takes what the search finds best.",
        source="the idea: [X], section 4.1, and [Z], section 5.3.11; the rule is our own choice",
        at_least=0,
        at_most=1,
    )

    def __post_init__(self) -> None:
        check(self)
        steps = self.temperature_steps
        rising = all(one < next_one for one, next_one in zip(steps, steps[1:]))
        require(self, "temperature_steps", rising, "increasing numbers")
        parts = len(steps) + 1
        wanted = f"of length {parts}, one more than temperature_steps, {steps}"
        require(self, "temperature", len(self.temperature) == parts, wanted)
