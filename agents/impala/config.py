"""IMPALA's hyper-parameters."""

from __future__ import annotations

import dataclasses
from typing import Literal

from boonta.agents.config import check, documented, field, recast, replaced, require
from boonta.agents.groups import Gaussian, Optimiser, Torso

OWN = "own choice, as in the runs of agents/impala/README.md"


@documented
@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters of IMPALA; the defaults are the paper's for Atari.

    See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
    (https://arxiv.org/abs/1802.01561); sources without a name are tables, figures and sections of this paper.
    """

    # Network.
    torso: Torso = field(Torso("shallow"), "The network below the heads.", source="Figure 3, shallow and deep")
    value_torso: Literal["shared", "own"] = field(
        "shared",
        'Whether policy and value share one torso. With "own" each has its own, so that they don\'t disturb each '
        "other, and acting computes no value.",
        source="Figure 3, shared",
    )
    lstm_size: int = field(
        0,
        "Size of the recurrent core, which also sees the last action and reward; for one player. 0 is none.",
        unit="units",
        source="Figure 3, 256",
        at_least=0,
    )
    gaussian: Gaussian = field(Gaussian(), "The policy where actions are real numbers.")
    frame_stack: int = field(
        4,
        "L, frames that the network sees at once; 1 for environments whose observation is the whole state.",
        unit="frames",
        source="Table G.1",
        at_least=1,
    )
    normalise_observations: bool = field(
        False,
        "Whether observations of real numbers or pixels are shifted and scaled by their running mean and deviation, "
        "each number by its own.",
        source="https://arxiv.org/abs/2006.05990, section 3.4; False as in the paper",
    )
    eval_mode: Literal["greedy", "sample"] = field(
        "sample", "Whether evaluators take the likeliest action or draw one as actors do.", source=OWN
    )

    # Data.
    unroll_length: int = field(20, "T, length of a sequence.", unit="transitions", source="Table G.1", at_least=1)
    batch_size: int = field(
        32, "B, size of an update, over all learner devices.", unit="sequences", source="Table G.1", at_least=1
    )
    queue_size: int = field(
        32,
        "Sequences that wait before writers block; a longer queue makes the data older.",
        unit="sequences",
        source="own choice: one batch",
        at_least=1,
    )
    max_lag: float = field(
        100.0,
        "Age of the acting params, on average over an update, beyond which a run warns: the older they are, the "
        "shorter V-trace cuts its traces.",
        unit="updates",
        source="own choice",
        at_least=0,
        infinite=True,
    )

    # Loss.
    discount: float = field(
        0.99,
        "The agent's discount, which multiplies the environment's; below 0 where two players take turns, since what is "
        "good for one is bad for the other.",
        source="Table G.1",
        at_least=-1,
        at_most=1,
    )
    clip_rho: float = field(
        1.0,
        "Upper limit of the importance weights of TD errors and of the policy's gradient.",
        source="section 4.1, Eq. 1",
        above=0,
        infinite=True,
    )
    trace_lambda: float = field(
        1.0,
        "How far V-trace carries later TD errors back; less has less variance.",
        source="Remark 2",
        at_least=0,
        at_most=1,
    )
    reward_clip: Literal["abs_one", "none"] = field(
        "abs_one", 'Which rewards are learned from: clipped to [-1, 1], or with "none" raw.', source="Table G.1"
    )
    entropy_cost: float = field(0.01, "Weight of the entropy bonus.", source="Table G.1", at_least=0)
    baseline_cost: float = field(0.5, "Weight of the value loss.", source="Table G.1", at_least=0)
    reduction: Literal["sum", "mean"] = field(
        "sum",
        "How the loss adds up over time and batch. The paper's epsilon and gradient clip mean a sum of 640 "
        'transitions; "mean" divides by the transitions there are, which keeps settings when T or B change.',
        source=f"section 4.2, sum; mean is our {OWN}",
    )

    optimiser: Optimiser = field(
        Optimiser("rmsprop", learning_rate=6e-4, max_grad_norm=40.0),
        "Gradient descent on all params. The paper anneals over the whole run.",
        source="Table G.1",
    )

    @property
    def sequence_length(self) -> int:
        """Rows in a sequence: L-1 of context, T of transitions, one to bootstrap from."""
        return self.frame_stack - 1 + self.unroll_length + 1

    @classmethod
    def preset(cls, kind: str) -> Config:
        """The hyper-parameters to start from in an environment of this kind, such as "atari"; see `PRESETS`."""
        return recast(cls, PRESETS.get(kind, PRESETS["default"]))

    def __post_init__(self) -> None:
        check(self)
        if self.value_torso == "own":
            require(self, "lstm_size", self.lstm_size == 0, "0 if value_torso is 'own', which sees no core")


# Measured where agents/impala/README.md shows the curves.
CATCH = Config(
    torso=Torso("mlp", widths=(64, 64)),
    frame_stack=1,
    unroll_length=10,
    batch_size=16,
    queue_size=16,
    reduction="mean",
    optimiser=Optimiser("adam", learning_rate=3e-3, max_grad_norm=40.0),
)
GRID_WORLD = replaced(CATCH, {"batch_size": 64, "queue_size": 64, "unroll_length": 16, "optimiser.learning_rate": 1e-3})
# With batches of 64, and so a quarter of the updates, three of ten runs had collapsed after 1M steps.
CARTPOLE = dataclasses.replace(
    CATCH,
    unroll_length=16,
    eval_mode="greedy",
    reward_clip="none",
    optimiser=Optimiser("adam", learning_rate=1e-3, max_grad_norm=0.5),
)
# Full traces are too noisy for the suite, and with less entropy a policy of Space Invaders ends in one action for good.
MINATAR = dataclasses.replace(
    GRID_WORLD,
    torso=Torso("mlp", widths=(128, 128)),
    trace_lambda=0.9,
    entropy_cost=0.02,
    optimiser=Optimiser("adam", learning_rate=1e-3, max_grad_norm=0.5),
)

# The paper's settings are for 200M frames from 100 actors. On one machine frames are dear, so batches are a quarter of
# the paper's, for four times the updates; Adam with the loss's mean doesn't depend on the batch's size.
ATARI = Config(
    batch_size=8,
    queue_size=8,
    reduction="mean",
    optimiser=Optimiser("adam", learning_rate=6e-4, max_grad_norm=0.5),
)

PIXELS = dataclasses.replace(ATARI, frame_stack=3, reward_clip="none")

# What suits any observation: dense layers, raw rewards, and steps whose length depends on neither.
DEFAULT = dataclasses.replace(CARTPOLE, eval_mode="sample")

# The preset for any observation, in a game of two players, whose result alone counts.
BOARD = dataclasses.replace(DEFAULT, discount=-1.0)

PRESETS = {
    "board": BOARD,
    "connect_four": BOARD,
    "catch": CATCH,
    "grid_world": GRID_WORLD,
    "cartpole": CARTPOLE,
    "minatar": MINATAR,
    "atari": ATARI,
    "dm_control_pixels": PIXELS,
    "default": DEFAULT,
}
