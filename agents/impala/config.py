"""IMPALA's hyper-parameters."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from boonta.agents.networks import Torso
from boonta.agents.optimisation import Optimiser


@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters of IMPALA; the defaults are the paper's for Atari.

    See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
    (https://arxiv.org/abs/1802.01561), Table G.1 unless a field says otherwise.

    Attributes:
      network: torso; "shallow" and "deep" are the paper's (Figure 3), "nature" DQN's, "mlp" flattens any observation.
      mlp_width: units in each layer of "mlp".
      mlp_layers: of "mlp".
      value_torso: "shared" has one torso for policy and value, as the paper does; with "own" each has its own, so that
        they don't disturb each other, and acting computes no value.
      lstm_size: units of the recurrent core, which also sees the last action and reward; 0 is none (the paper's: 256).
      frame_stack: L, frames the network sees at once; 1 for environments whose observation tells all.
      eval_mode: whether evaluators take the likeliest action or draw one as actors do.
      unroll_length: T, transitions in a sequence.
      batch_size: B, sequences in an update, over all learner devices.
      queue_size: sequences that wait before writers block; more of them make the data older.
      discount: of the agent, multiplies the environment's.
      clip_rho: most that an importance weight counts in a TD error and in the policy's gradient (section 4.1).
      trace_lambda: how far V-trace carries later TD errors back: 1 as far as the paper's experiments, less for less
        variance (its Remark 2).
      reward_clip: "abs_one" learns from rewards clipped to [-1, 1], "none" from raw ones.
      entropy_cost: weight of the entropy bonus.
      baseline_cost: weight of the value loss.
      reduction: "sum" adds the loss up over time and batch. So did the paper: its epsilon and gradient clip mean a sum
        of 640 transitions. "mean" divides by the transitions there are, which keeps settings when T or B change.
      optimiser: "rmsprop" or "adam".
      learning_rate: at the start.
      anneal_updates: updates over which the learning rate falls to 0, in a line; None keeps it. The paper anneals over
        the whole run.
      decay: of RMSProp's mean square.
      epsilon: of the optimiser; None is 0.1 for RMSProp (Table G.1) and 1e-8 for Adam (its paper's).
      max_grad_norm: longer gradients are scaled down to it.
    """

    # Network.
    network: Torso = "shallow"
    mlp_width: int = 256
    mlp_layers: int = 2
    value_torso: Literal["shared", "own"] = "shared"
    lstm_size: int = 0
    frame_stack: int = 4
    eval_mode: Literal["greedy", "sample"] = "sample"

    # Data.
    unroll_length: int = 20
    batch_size: int = 32
    queue_size: int = 32

    # Loss.
    discount: float = 0.99
    clip_rho: float = 1.0
    trace_lambda: float = 1.0
    reward_clip: Literal["abs_one", "none"] = "abs_one"
    entropy_cost: float = 0.01
    baseline_cost: float = 0.5
    reduction: Literal["sum", "mean"] = "sum"

    # Optimiser.
    optimiser: Optimiser = "rmsprop"
    learning_rate: float = 6e-4
    anneal_updates: int | None = None
    decay: float = 0.99
    epsilon: float | None = None
    max_grad_norm: float = 40.0

    @property
    def sequence_length(self) -> int:
        """Rows in a sequence: L-1 of context, T of transitions, one to bootstrap from."""
        return self.frame_stack - 1 + self.unroll_length + 1

    @property
    def eps(self) -> float:
        """Epsilon of the chosen optimiser."""
        if self.epsilon is not None:
            return self.epsilon
        return 0.1 if self.optimiser == "rmsprop" else 1e-8

    def __post_init__(self) -> None:
        for field, allowed in (
            ("network", ("shallow", "nature", "deep", "mlp")),
            ("value_torso", ("shared", "own")),
            ("eval_mode", ("greedy", "sample")),
            ("reward_clip", ("abs_one", "none")),
            ("reduction", ("sum", "mean")),
            ("optimiser", ("rmsprop", "adam")),
        ):
            self._require(field, getattr(self, field) in allowed, f"one of {allowed}")
        for field in ("mlp_width", "mlp_layers", "frame_stack", "unroll_length", "batch_size", "queue_size"):
            self._require(field, getattr(self, field) >= 1, "at least 1")
        for field in ("lstm_size", "entropy_cost", "baseline_cost"):
            self._require(field, getattr(self, field) >= 0, "at least 0")
        if self.value_torso == "own":
            self._require("lstm_size", self.lstm_size == 0, "0 if value_torso is 'own', which sees no core")
        self._require("learning_rate", 0 < self.learning_rate < math.inf, "above 0, and finite")
        for field in ("clip_rho", "max_grad_norm"):
            self._require(field, getattr(self, field) > 0, "above 0")
        self._require("epsilon", self.epsilon is None or self.epsilon > 0, "above 0, or None")
        for field in ("discount", "trace_lambda"):
            self._require(field, 0 <= getattr(self, field) <= 1, "in [0, 1]")
        self._require("decay", 0 <= self.decay < 1, "in [0, 1)")
        self._require("anneal_updates", self.anneal_updates is None or self.anneal_updates >= 1, "at least 1, or None")

    @classmethod
    def preset(cls, kind):
        return PRESETS.get(kind, CATCH)

    def _require(self, field: str, holds: bool, allowed: str) -> None:
        if not holds:
            raise ValueError(f"impala.Config: {field} is {getattr(self, field)!r}; it must be {allowed}")


# What the programs start from; measured where agents/impala/README.md shows the curves.
CATCH = Config(
    network="mlp",
    mlp_width=64,
    frame_stack=1,
    unroll_length=10,
    batch_size=16,
    queue_size=16,
    reduction="mean",
    optimiser="adam",
    learning_rate=3e-3,
)

# The paper's settings are for billions of frames from many actors. On one machine frames are dear, so batches are a
# quarter of the paper's, for four times the updates; Adam with the loss's mean doesn't depend on the batch's size.
ATARI = Config(
    network="shallow",
    batch_size=8,
    queue_size=8,
    reduction="mean",
    optimiser="adam",
    learning_rate=6e-4,
    max_grad_norm=0.5,
)

PRESETS = {
    "catch": CATCH,
    "atari": ATARI,
    "grid_world": dataclasses.replace(CATCH, batch_size=64, unroll_length=16, learning_rate=1e-3),
    "cartpole": dataclasses.replace(
        CATCH,
        batch_size=64,
        unroll_length=16,
        learning_rate=2e-3,
        max_grad_norm=0.5,
        eval_mode="greedy",
        reward_clip="none",
    ),
    "minatar": dataclasses.replace(
        CATCH, mlp_width=128, batch_size=64, unroll_length=16, learning_rate=1e-3, max_grad_norm=0.5
    ),
}
