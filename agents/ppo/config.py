"""PPO's hyper-parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from boonta.agents.config import check, documented, field, recast, replaced, require
from boonta.agents.groups import Gaussian, Optimiser, Torso

OWN = "own choice"


@documented
@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters of PPO; the defaults are the paper's for Atari.

    See "Proximal Policy Optimization Algorithms" (https://arxiv.org/abs/1707.06347); sources without a name are its
    tables and sections. [E] is "What Matters In On-Policy Reinforcement Learning?" (https://arxiv.org/abs/2006.05990),
    [G] is "High-Dimensional Continuous Control Using Generalized Advantage Estimation"
    (https://arxiv.org/abs/1506.02438), [I] is IMPALA (https://arxiv.org/abs/1802.01561).
    """

    # Network.
    torso: Torso = field(Torso("nature", orthogonal=True), "The network below the heads.", source="section 6.4; [E]")
    value_torso: Literal["shared", "own"] = field(
        "shared", "Whether policy and value share one torso.", source="section 6.4, shared; section 6.1, own"
    )
    lstm_size: int = field(
        0,
        "Size of the recurrent core, which also sees the last action and reward; for one player. 0 is none.",
        unit="units",
        source=OWN,
        at_least=0,
    )
    gaussian: Gaussian = field(Gaussian(), "The policy where actions are real numbers.")
    frame_stack: int = field(
        4, "L, frames that the network sees at once.", unit="frames", source="section 6.4, as DQN", at_least=1
    )
    eval_mode: Literal["greedy", "sample"] = field(
        "sample", "Whether evaluators take the likeliest action or draw one as actors do.", source=OWN
    )

    # Data.
    unroll_length: int = field(128, "T, length of a sequence.", unit="transitions", source="Table 5", at_least=1)
    batch_size: int = field(
        8, "B, size of an update, over all learner devices.", unit="sequences", source="Table 5", at_least=1
    )
    max_staleness: int | None = field(
        0,
        "Updates by which the params that acted may be older than those that learn; 0 is on-policy. None, any, "
        "needs the correction.",
        unit="updates",
        source="section 3: data of the policy before the update",
        at_least=0,
    )
    epochs: int = field(3, "Passes of an update over its batch.", source="Table 5", at_least=1)
    minibatches: int = field(
        4,
        "Equal parts of each epoch, with a step for each: of transitions, or of whole sequences where the network has "
        "a recurrent core.",
        source="Table 5, 256 of 1024 transitions",
        at_least=1,
    )

    # Loss.
    discount: float = field(
        0.99,
        "The agent's discount, which multiplies the environment's; below 0 where two players take turns.",
        source="Table 5",
        at_least=-1,
        at_most=1,
    )
    trace_lambda: float = field(
        0.95, "lambda of the advantages: less has less variance.", source="Table 5; [G], Eq. 16", at_least=0, at_most=1
    )
    clip: float = field(
        0.1, "epsilon: how far the ratio may be from 1 and still be driven further.", source="Table 5; Eq. 7", above=0
    )
    value_clip: float | None = field(
        None,
        "How far the value may move from the one before the update and still be driven further; None doesn't clip.",
        source="[E], section 3.3, finds that it doesn't help",
        above=0,
    )
    normalise_advantages: bool = field(
        True, "Whether each minibatch's advantages get mean 0 and variance 1.", source="[E], section 3.3"
    )
    correction: Literal["none", "v_trace"] = field(
        "none",
        'Whether "v_trace" corrects values and advantages for data of older params, as asynchronous PPO does.',
        source="[I], Eq. 1",
    )
    clip_rho: float = field(
        1.0, "Upper limit of V-trace's importance weights.", source="[I], section 4.1", above=0, infinite=True
    )
    target_kl: float | None = field(
        None, "Divergence from the policy before the update above which it makes no further epoch.", source=OWN, above=0
    )
    reward_clip: Literal["abs_one", "none"] = field(
        "abs_one", 'Which rewards are learned from: clipped to [-1, 1], or with "none" raw.', source="section 6.4"
    )
    normalise_observations: bool = field(
        False,
        "Whether observations of real numbers or pixels are shifted and scaled by their running mean and deviation, "
        "each number by its own.",
        source="[E], section 3.4",
    )
    normalise_rewards: bool = field(
        False,
        "Whether rewards are divided by the running deviation of the discounted return.",
        source="[E], section 3.4",
    )
    entropy_cost: float = field(0.01, "Weight of the entropy bonus, at the start.", source="Table 5", at_least=0)
    entropy_anneal_updates: int | None = field(
        None, "Time over which it falls linearly to 0; None keeps it.", unit="updates", source=OWN, at_least=1
    )
    baseline_cost: float = field(
        1.0,
        "Weight of the value loss, half the squared error.",
        source="own choice; Table 5 has 1 for the whole square",
        at_least=0,
    )
    optimiser: Optimiser = field(
        Optimiser("adam", learning_rate=2.5e-4, max_grad_norm=0.5, epsilon=1e-5),
        "Gradient descent on all params. The paper anneals over the whole run.",
        source="Table 5; its authors' code has the norm and epsilon",
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
        corrects = self.correction == "v_trace"
        require(self, "max_staleness", corrects or self.max_staleness is not None, "given, if correction is 'none'")
        raw = self.reward_clip == "none" or not self.normalise_rewards
        require(self, "reward_clip", raw, "'none' if normalise_rewards, whose deviation is that of raw returns")
        if self.value_torso == "own":
            require(self, "lstm_size", self.lstm_size == 0, "0 if value_torso is 'own', which sees no core")
        units = self.batch_size if self.lstm_size else self.batch_size * self.unroll_length
        what = "sequences, which stay whole for the core" if self.lstm_size else "transitions"
        require(self, "minibatches", units % self.minibatches == 0, f"a divisor of a batch's {units} {what}")


class A2C(Config):
    """`Config` whose presets are A2C: short sequences, one epoch of one minibatch, plain returns, RMSProp.

    See "A2C is a special case of PPO" (https://arxiv.org/abs/2205.09123).
    """

    @classmethod
    def preset(cls, kind: str) -> Config:
        """As `Config.preset`, with `A2C_PARTS`."""
        return replaced(super().preset(kind), A2C_PARTS)


A2C_PARTS: Mapping[str, Any] = {
    "unroll_length": 5,
    "batch_size": 16,
    "epochs": 1,
    "minibatches": 1,
    "trace_lambda": 1.0,
    "normalise_advantages": False,
    "optimiser": Optimiser("rmsprop", learning_rate=7e-4, max_grad_norm=0.5, epsilon=1e-5),
}

_SMALL = Torso("mlp", widths=(64, 64), activation="tanh", orthogonal=True)
# PureJaxRL's settings for its small tasks, which are those of the usual implementations.
CARTPOLE = Config(
    torso=_SMALL,
    value_torso="own",
    frame_stack=1,
    eval_mode="greedy",
    unroll_length=128,
    batch_size=4,
    epochs=4,
    clip=0.2,
    reward_clip="none",
    baseline_cost=0.5,
    optimiser=Optimiser("adam", learning_rate=2.5e-4, max_grad_norm=0.5, epsilon=1e-5),
)
# With a learning rate of 3e-3 and less entropy, runs that had long solved Catch fell again, see README.md.
CATCH = replaced(
    CARTPOLE,
    {
        "unroll_length": 10,
        "batch_size": 64,
        "optimiser.learning_rate": 1e-3,
        "entropy_cost": 0.03,
        "eval_mode": "sample",
    },
)
GRID_WORLD = replaced(CATCH, {"unroll_length": 16, "entropy_cost": CARTPOLE.entropy_cost})
# Those that PureJaxRL publishes for MinAtar, except its learning rate, 5e-3, and its annealing, which depends on the
# length of a run; benchmarks/learning/ppo_minatar.yaml has both. Its loss also clips the value's step, by 0.2.
MINATAR = replaced(
    CARTPOLE,
    {
        "torso.activation": "relu",
        "batch_size": 64,
        "minibatches": 8,
        "eval_mode": "sample",
        "optimiser.learning_rate": 1e-3,
    },
)
DEFAULT = replaced(CARTPOLE, {"batch_size": 16, "eval_mode": "sample"})
CONTINUOUS = replaced(
    DEFAULT,
    {
        "normalise_observations": True,
        "normalise_rewards": True,
        "entropy_cost": 0.0,
        "minibatches": 16,
        "epochs": 10,
        "optimiser.learning_rate": 3e-4,
    },
)
# The paper's settings for Atari, except for what discrete actions and whole rewards need.
PIXELS = replaced(
    Config(),
    {
        "frame_stack": 3,
        "clip": CONTINUOUS.clip,
        "reward_clip": "none",
        "normalise_rewards": True,
        "entropy_cost": 0.0,
        "baseline_cost": CONTINUOUS.baseline_cost,
    },
)
BOARD = dataclasses.replace(DEFAULT, discount=-1.0)

PRESETS = {
    "catch": CATCH,
    "grid_world": GRID_WORLD,
    "cartpole": CARTPOLE,
    "minatar": MINATAR,
    "atari": Config(),
    "continuous": CONTINUOUS,
    "brax": CONTINUOUS,
    "dm_control": CONTINUOUS,
    "dm_control_pixels": PIXELS,
    "mujoco": CONTINUOUS,
    "board": BOARD,
    "connect_four": BOARD,
    "default": DEFAULT,
}
