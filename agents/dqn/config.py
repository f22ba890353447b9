"""DQN's hyper-parameters: which of Rainbow's parts it has, and their settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from boonta.agents.config import check, documented, field, recast, replaced, require
from boonta.agents.exploration import Exploration, require_pace
from boonta.agents.groups import Optimiser, Replay, Torso


@documented
@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters of DQN and of all that Rainbow adds to it. The defaults are for Atari.

    They are DQN's, except Rainbow's Adam and last epsilon, and Ape-X's time between copies to the target network.

    Sources: [D] DQN (https://doi.org/10.1038/nature14236), [H] Rainbow (https://arxiv.org/abs/1710.02298), [X] Ape-X
    (https://arxiv.org/abs/1803.00933), [C] C51 (https://arxiv.org/abs/1707.06887), [Q] QR-DQN
    (https://arxiv.org/abs/1710.10044), [I] IQN (https://arxiv.org/abs/1806.06923).
    """

    # Network.
    torso: Torso = field(Torso("nature"), "The network below the head.", source="[D], Methods")
    head_width: int = field(
        0,
        "Width of the hidden layer of each of the head's streams; 0 is none.",
        unit="units",
        source="[H], Table 1: 512, above convolutions alone",
        at_least=0,
    )
    frame_stack: int = field(
        4,
        "L, frames that the network sees at once; 1 for environments whose observation is the whole state.",
        unit="frames",
        source="[D], Table 1",
        at_least=1,
    )
    dueling: bool = field(
        False,
        "Whether the value of a state and the advantages of its actions have a stream each.",
        source="[H], section 3",
    )
    noisy: float = field(
        0.0,
        "Noise of the head's layers at the start, which is learned and explores; 0 is none.",
        source="[H], Table 1, 0.5, with both epsilons 0",
        at_least=0,
    )
    distribution: Literal["none", "categorical", "quantile", "implicit"] = field(
        "none",
        'What the network says of an action\'s return: its mean alone ("none"), the probabilities of bins '
        '("categorical", C51), its quantiles ("quantile", QR-DQN), or any fraction\'s ("implicit", IQN).',
        source="[C], [Q], [I]",
    )
    support_bins: int = field(
        51, '"categorical": Z, bins of a value.', unit="bins", source="[C], section 5", at_least=2
    )
    support_limit: float = field(
        10.0, '"categorical": the value of the last bin; the first one\'s is minus it.', source="[C], App.", above=0
    )
    narrow_start: bool = field(
        False,
        '"categorical": whether distributions begin narrow around 0, and not nearly even. It helps where returns are '
        "small beside the support and episodes have no ends, and hinders where values are near the support's limit.",
        source="[C] begins nearly even",
    )
    quantiles: int = field(
        200,
        '"quantile", "implicit": Z, quantiles of a value; of fractions that are drawn, as many for the learned '
        "network, the target and acting.",
        unit="quantiles",
        source="[Q], section 5, 200; [I], section 4, 64, and 32 for acting",
        at_least=1,
    )

    # Loss.
    discount: float = field(
        0.99,
        "The agent's discount, which multiplies the environment's; below 0 where two players take turns.",
        source="[D], Table 1",
        at_least=-1,
        at_most=1,
    )
    bootstrap_length: int = field(
        1, "N, rewards in a target before it bootstraps.", unit="env steps", source="[H], Table 1, 3", at_least=1
    )
    double: bool = field(
        False,
        "Whether the learned network chooses the action that the target network values.",
        source="https://arxiv.org/abs/1509.06461, Eq. 4",
    )
    huber: float | None = field(
        1.0,
        'Error beyond which the loss is linear; None makes it the square, and "quantile"\'s the distance.',
        source="[D], Methods; [Q], section 4.3",
        above=0,
    )
    conservative_cost: float = field(
        0.0,
        "Weight of the term that lowers the values of all actions but the recorded one, for recorded data; 0 is none.",
        source="CQL (https://arxiv.org/abs/2006.04779), Eq. 4 and App. F, 1 and 4 for Atari",
        at_least=0,
    )
    reward_clip: Literal["abs_one", "none"] = field(
        "abs_one", 'Which rewards are learned from: clipped to [-1, 1], or with "none" raw.', source="[D], Methods"
    )
    target_period: int = field(
        2_500,
        "Time between copies to the target network.",
        unit="updates",
        source="[D], Table 1, 10,000 parameter updates; [H], Table 1, 32,000 frames, 2,000 updates; 2,500 as in [X]",
        at_least=1,
    )

    # Acting and data.
    exploration: Exploration = field(
        Exploration(anneal_steps=250_000), "Random actions, the only ones unless there is noise."
    )
    roots: int = field(
        1,
        "R, consecutive transitions of a sequence. More of them share the rows around them, and are alike.",
        unit="env steps",
        source="[D], 1",
        at_least=1,
    )
    replay: Replay = field(
        Replay(size=1_000_000, min_size=50_000, samples_per_insert=8.0),
        'Sequences to learn from. Their error is |target - value|; for "categorical" the KL divergence, for quantiles '
        "the mean of their losses.",
        source="[D], Table 1: 32 transitions every 4 steps; [H], Table 1: 80,000 frames first, exponent 0.5",
    )
    fresh_errors: bool = field(
        True,
        "Whether actors say what a new sequence's error is, by the values that they acted by; otherwise, and of "
        'distributions, it is 1. It matters to the sampler "proportional" alone.',
        source="[X], section 3",
    )
    optimiser: Optimiser = field(
        Optimiser("adam", learning_rate=6.25e-5, epsilon=1.5e-4, max_grad_norm=10.0),
        "Gradient descent on all params.",
        source="[H], Table 1; the norm: https://arxiv.org/abs/1511.06581, section 4.2",
    )

    @property
    def numbers(self) -> int:
        """Z, numbers that the network outputs for each action."""
        return {"none": 1, "categorical": self.support_bins}.get(self.distribution, self.quantiles)

    @property
    def sequence_length(self) -> int:
        """Rows in a sequence: L-1 of context, R roots, and N to bootstrap from."""
        return self.frame_stack - 1 + self.roots + self.bootstrap_length

    @classmethod
    def preset(cls, kind: str) -> Config:
        """The hyper-parameters to start from in an environment of this kind, such as "atari"; see `PRESETS`."""
        return recast(cls, PRESETS.get(kind, PRESETS["default"]))

    def __post_init__(self) -> None:
        check(self)
        require(self, "discount", self.discount != 0, "in [-1, 1], and not 0")
        require_pace(self)


class Rainbow(Config):
    """`Config` whose presets have all of Rainbow's parts."""

    @classmethod
    def preset(cls, kind: str) -> Config:
        """As `Config.preset`, with `RAINBOWS_PARTS`; for Atari `RAINBOW`, for MinAtar `RAINBOW_MINATAR`."""
        own = {"atari": RAINBOW, "minatar": RAINBOW_MINATAR}
        return recast(cls, own[kind]) if kind in own else replaced(super().preset(kind), RAINBOWS_PARTS)


class ApeX(Config):
    """`Config` whose presets have Ape-X's parts: what many actors explore, and say about their errors."""

    @classmethod
    def preset(cls, kind: str) -> Config:
        """As `Config.preset`, with `APEX_PARTS`; for Atari `APEX`."""
        return recast(cls, APEX) if kind == "atari" else replaced(super().preset(kind), APEX_PARTS)


# What the three agents differ in; [H], Table 1, and [X], section 4.1 and App. C.
PRIORITISED: Mapping[str, Any] = {
    "replay.sampler": "proportional",
    "double": True,
    "dueling": True,
    "bootstrap_length": 3,
}
RAINBOWS_PARTS: Mapping[str, Any] = {
    **PRIORITISED,
    "replay.priority_exponent": 0.5,
    "distribution": "categorical",
    "noisy": 0.5,
    "exploration.epsilon_start": 0.0,
    "exploration.epsilon": 0.0,
}
APEX_PARTS: Mapping[str, Any] = {
    **PRIORITISED,
    "replay.priority_exponent": 0.6,
    "exploration.epsilon_start": 0.4,
    "exploration.epsilon": 0.4,
    "exploration.ladder": 7.0,
}

DQN = Config()
# Its streams lie on the convolutions; noise is in all dense layers.
RAINBOW = replaced(
    DQN, {**RAINBOWS_PARTS, "torso.widths": (), "head_width": 512, "replay.min_size": 20_000, "target_period": 2_000}
)
APEX = replaced(
    DQN,
    {
        **APEX_PARTS,
        "torso.widths": (),
        "head_width": 512,
        "replay.batch_size": 512,
        "replay.importance_anneal_updates": None,
        "optimiser": Optimiser("rmsprop", learning_rate=2.5e-4 / 4, decay=0.95, epsilon=1.5e-7, max_grad_norm=40.0),
    },
)

# Measured where agents/dqn/README.md shows the curves.
CATCH = Config(
    torso=Torso("mlp", widths=(64, 64)),
    frame_stack=1,
    bootstrap_length=3,
    double=True,
    reward_clip="none",
    support_limit=2.0,
    target_period=100,
    exploration=Exploration(epsilon=0.05, anneal_steps=16_000),
    replay=Replay(batch_size=64, size=20_000, min_size=1_000, samples_per_insert=4.0),
    optimiser=Optimiser("adam", learning_rate=1e-3, max_grad_norm=10.0),
)
# Unless layers are normalised, values climb far beyond the 100 that a discount of 0.99 allows; see
# "Simplifying Deep Temporal Difference Learning" (https://arxiv.org/abs/2407.04811), section 3.
CARTPOLE = replaced(
    CATCH,
    {
        "torso.normalise": True,
        "support_limit": 100.0,
        "exploration.anneal_steps": 32_000,
        "replay.size": 50_000,
        "replay.batch_size": 128,
        "replay.samples_per_insert": 8.0,
        "target_period": 500,
        "optimiser.learning_rate": 2.5e-4,
    },
)
MINATAR = replaced(
    CATCH,
    {
        "torso.widths": (128, 128),
        "support_limit": 20.0,
        "target_period": 500,
        "exploration.anneal_steps": 160_000,
        "replay.size": 100_000,
        "replay.min_size": 5_000,
        "replay.batch_size": 64,
        "optimiser.learning_rate": 2.5e-4,
    },
)
# Noise of the paper's size, alone, left seeds without any reward for long; benchmarks/LEARNING.md has both.
RAINBOW_MINATAR = replaced(
    MINATAR,
    {
        **RAINBOWS_PARTS,
        "narrow_start": True,
        "noisy": 0.1,
        "exploration.epsilon_start": MINATAR.exploration.epsilon_start,
        "exploration.epsilon": MINATAR.exploration.epsilon,
    },
)
# The maze is another one in each episode, so layers that see walls wherever they are learn more from as many.
GRID_WORLD = replaced(MINATAR, {"torso.kind": "minatar", "torso.widths": (128,), "support_limit": CATCH.support_limit})
BOARD = replaced(CATCH, {"discount": -1.0, "bootstrap_length": 1, "exploration.epsilon": 0.1})

PRESETS = {
    "catch": CATCH,
    "grid_world": GRID_WORLD,
    "cartpole": CARTPOLE,
    "minatar": MINATAR,
    "atari": DQN,
    "board": BOARD,
    "connect_four": BOARD,
    "default": CARTPOLE,
}
