"""SAC's hyper-parameters."""

from __future__ import annotations

import dataclasses

from boonta.agents.actor_critic import PRESET_FIELDS, Layers
from boonta.agents.config import check, documented, field
from boonta.agents.groups import Optimiser
from boonta.agents.transitions import TransitionReplay

ADAM = Optimiser("adam", learning_rate=3e-4, max_grad_norm=float("inf"))


@documented
@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters of SAC; the defaults are the paper's.

    See "Soft Actor-Critic Algorithms and Applications" (https://arxiv.org/abs/1812.05905); sources without a name are
    sections, equations and appendices of this paper.
    """

    layers: Layers = field(Layers(), "The networks of policy and critics.")

    # Data.
    replay: TransitionReplay = field(TransitionReplay(), "The replay table, and the ratio of updates to env steps.")

    # Loss.
    discount: float = field(
        0.99, "The agent's discount, which multiplies the env's.", source="Appendix D", at_least=0, at_most=1
    )
    tau: float = field(
        0.005,
        "Share of the distance to the critics that their targets cover in an update.",
        source="Appendix D",
        above=0,
        at_most=1,
    )
    entropy_per_number: float = field(
        -1.0,
        "The policy's target entropy for each number of an action, scaled to [-1, 1]; a uniform policy has 0.69.",
        unit="nats",
        source="Appendix D",
        at_most=0.69,
    )
    temperature: float = field(
        1.0, "alpha, the weight of entropies, at the start.", source="the authors' code", above=0
    )

    policy_optimiser: Optimiser = field(ADAM, "Gradient descent on the policy.", source="Appendix D")
    critic_optimiser: Optimiser = field(ADAM, "Gradient descent on the critics.", source="Appendix D")
    temperature_optimiser: Optimiser = field(ADAM, "Gradient descent on log alpha.", source="Appendix D")

    @classmethod
    def preset(cls, kind: str) -> Config:
        """The hyper-parameters to start from in an env of this kind; see `actor_critic.PRESET_FIELDS`."""
        return cls(**PRESET_FIELDS.get(kind, {}))

    def __post_init__(self) -> None:
        check(self)
