"""TD3's hyper-parameters, and DDPG's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from boonta.agents.actor_critic import PRESET_FIELDS, Layers
from boonta.agents.config import check, documented, field, replaced
from boonta.agents.groups import Optimiser
from boonta.agents.transitions import TransitionReplay

ADAM = Optimiser("adam", learning_rate=3e-4, max_grad_norm=float("inf"))


@documented
@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters of TD3; the defaults are its authors'; the presets of `DDPG` are DDPG.

    Sources: [T] "Addressing Function Approximation Error in Actor-Critic Methods" (https://arxiv.org/abs/1802.09477),
    [TC] its authors' code (https://github.com/sfujim/TD3), [D] "Continuous control with deep reinforcement learning"
    (DDPG, https://arxiv.org/abs/1509.02971).
    """

    layers: Layers = field(Layers(), "The networks of policy and critics.")

    # Acting and data.
    exploration_noise: float = field(
        0.1,
        "Standard deviation of the noise that is added to actions, scaled to [-1, 1], each slot with its own.",
        source="[T], section 6.1",
        at_least=0,
    )
    replay: TransitionReplay = field(TransitionReplay(), "The replay table, and the ratio of updates to env steps.")

    # Loss.
    discount: float = field(
        0.99, "The agent's discount, which multiplies the env's.", source="[TC]", at_least=0, at_most=1
    )
    tau: float = field(
        0.005,
        "Share of the distance to the params that their targets cover at once.",
        source="[T], section 6.1",
        above=0,
        at_most=1,
    )
    policy_delay: int = field(
        2,
        "Updates of the critics for one of the policy and of all targets.",
        unit="updates",
        source="[T], section 5.2, 2; [D], 1",
        at_least=1,
    )
    target_noise: float = field(
        0.2,
        "Standard deviation of the noise by which a target's action is smoothed, scaled to [-1, 1]; 0 is none.",
        source="[T], section 5.3, 0.2; [D], 0",
        at_least=0,
    )
    target_noise_clip: float = field(
        0.5, "The most that this noise may change a number, scaled to [-1, 1].", source="[T], section 5.3", at_least=0
    )

    policy_optimiser: Optimiser = field(ADAM, "Gradient descent on the policy.", source="[TC]")
    critic_optimiser: Optimiser = field(ADAM, "Gradient descent on the critics.", source="[TC]")

    @classmethod
    def preset(cls, kind: str) -> Config:
        """The hyper-parameters to start from in an env of this kind; see `actor_critic.PRESET_FIELDS`."""
        return cls(**PRESET_FIELDS.get(kind, {}))

    def __post_init__(self) -> None:
        check(self)


class DDPG(Config):
    """`Config` whose presets are DDPG: TD3's without what TD3 adds. Its authors found the rest to be better, too."""

    @classmethod
    def preset(cls, kind: str) -> Config:
        """As `Config.preset`, with `DDPG_PARTS`."""
        return replaced(super().preset(kind), DDPG_PARTS)


DDPG_PARTS: Mapping[str, Any] = {"layers.critics": 1, "policy_delay": 1, "target_noise": 0.0}
