"""R2D2's hyper-parameters."""

from __future__ import annotations

import dataclasses

from boonta.agents.config import check, documented, field, recast, replaced, require
from boonta.agents.exploration import Exploration, require_pace
from boonta.agents.groups import Optimiser, Replay, Torso


@documented
@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters of R2D2; the defaults are the paper's for Atari, with its stack of 4 frames.

    See "Recurrent Experience Replay in Distributed Reinforcement Learning" (https://openreview.net/forum?id=r1lyTjAqYX);
    sources without a name are tables and sections of this paper.
    """

    # Network.
    torso: Torso = field(Torso("nature"), "The network below the core.", source="section 2.3, DQN's")
    lstm_size: int = field(
        512,
        "Size of the recurrent core, which also sees the last action and reward.",
        unit="units",
        source="App., Table 4",
        at_least=1,
    )
    head_width: int = field(
        512,
        "Width of the hidden layer of each of the dueling head's streams; 0 is none.",
        unit="units",
        source="App., Table 4",
        at_least=0,
    )
    frame_stack: int = field(4, "L, frames that the network sees at once.", unit="frames", source="App.", at_least=1)

    # Data.
    burn_in: int = field(
        40,
        "Rows over which the stored state is brought up to date before learning starts; 0 uses it as it is.",
        unit="env steps",
        source="section 3, 40",
        at_least=0,
    )
    roots: int = field(
        80, "R, rows of a sequence that are learned from.", unit="env steps", source="section 2.3, 80", at_least=1
    )
    period: int = field(
        40, "Rows between the starts of two sequences.", unit="env steps", source="section 2.3, 40", at_least=1
    )
    exploration: Exploration = field(
        Exploration(epsilon_start=0.4, epsilon=0.4, ladder=7.0), "Random actions.", source="App., as Ape-X"
    )
    replay: Replay = field(
        Replay(
            batch_size=64,
            size=100_000,
            min_size=5_000,
            samples_per_insert=None,
            sampler="proportional",
            priority_exponent=0.9,
            importance_exponent=0.6,
            importance_anneal_updates=None,
        ),
        "Sequences to learn from; their error is priority_mix of the roots' largest and the rest of their mean.",
        source="App., Table 4; the paper leaves the ratio of samples to inserts free",
    )
    fresh_errors: bool = field(
        True,
        "Whether actors say what a new sequence's error is, by the values that they acted by; otherwise it is 1.",
        source="section 2.3, as Ape-X",
    )
    priority_mix: float = field(
        0.9, "eta, the weight of the largest error.", source="section 2.3, 0.9", at_least=0, at_most=1
    )

    # Loss.
    discount: float = field(
        0.997, "The agent's discount, which multiplies the environment's.", source="Table 4", above=0, at_most=1
    )
    bootstrap_length: int = field(
        5, "N, rewards in a target before it bootstraps.", unit="env steps", source="section 2.3, 5", at_least=1
    )
    rescale: bool = field(
        True,
        "Whether the network's values are rescaled returns, so that rewards need no clipping.",
        source="section 2.3, h",
    )
    conservative_cost: float = field(
        0.0,
        "Weight of the term that lowers the values of all actions but the recorded one, for recorded data; 0 is none. "
        "They are the network's values, so rescaled ones.",
        source="CQL (https://arxiv.org/abs/2006.04779), Eq. 4; DQN's, in agents/dqn",
        at_least=0,
    )
    target_period: int = field(
        2_500, "Time between copies to the target network.", unit="updates", source="Table 4", at_least=1
    )
    optimiser: Optimiser = field(
        Optimiser("adam", learning_rate=1e-4, epsilon=1e-3, max_grad_norm=80.0),
        "Gradient descent on all params.",
        source="Table 4; the norm is our own choice",
    )

    @property
    def context(self) -> int:
        """Rows of a sequence before its first root: L-1 for the first stack, and the burn-in."""
        return self.frame_stack - 1 + self.burn_in

    @property
    def sequence_length(self) -> int:
        """Rows in a sequence: context, R roots, and N to bootstrap from."""
        return self.context + self.roots + self.bootstrap_length

    @classmethod
    def preset(cls, kind: str) -> Config:
        """The hyper-parameters to start from in an environment of this kind, such as "atari"; see `PRESETS`."""
        return recast(cls, PRESETS.get(kind, PRESETS["default"]))

    def __post_init__(self) -> None:
        check(self)
        allowed = f"at most roots, {self.roots}, or else some rows are never learned from"
        require(self, "period", self.period <= self.roots, allowed)
        require_pace(self)


# Measured where agents/r2d2/README.md shows the curves.
CARTPOLE = Config(
    torso=Torso("mlp", widths=(64,)),
    lstm_size=64,
    head_width=64,
    frame_stack=1,
    burn_in=8,
    roots=16,
    period=8,
    exploration=Exploration(epsilon=0.05, anneal_steps=128_000),
    replay=Replay(batch_size=32, size=20_000, min_size=500, samples_per_insert=4.0, sampler="proportional"),
    discount=0.99,
    target_period=200,
    optimiser=Optimiser("adam", learning_rate=1e-3, max_grad_norm=40.0),
)
CATCH = replaced(
    CARTPOLE,
    {
        "burn_in": 0,
        "roots": 10,
        "period": 10,
        "bootstrap_length": 3,
        "target_period": 100,
        "exploration.anneal_steps": 160_000,
    },
)
MINATAR = replaced(CARTPOLE, {"torso.widths": (128,), "lstm_size": 128, "replay.size": 50_000})

PRESETS = {
    "catch": CATCH,
    "grid_world": CATCH,
    "cartpole": CARTPOLE,
    "minatar": MINATAR,
    "atari": Config(),
    "default": CARTPOLE,
}
