"""Groups of hyper-parameters that configs of several agents share: optimiser, replay, torso, Gaussian policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from boonta.agents.base import Steps, Table
from boonta.agents.config import check, documented, field, require

MEASURED = "own choice, as in the runs of agents/muzero/README.md"


@documented
@dataclasses.dataclass(frozen=True)
class Optimiser:
    """Gradient descent, see `agents.optimisation`. Another optimiser is an argument of the agent's `make`.

    Sources: [Adam] https://arxiv.org/abs/1412.6980, [AdamW] https://arxiv.org/abs/1711.05101, [RMSProp] Hinton's
    lecture 6e (https://www.cs.toronto.edu/~tijmen/csc321/slides/lecture_slides_lec6.pdf), [I] IMPALA
    (https://arxiv.org/abs/1802.01561), [IC] its authors' code (https://github.com/google-deepmind/scalable_agent).
    """

    kind: Literal["rmsprop", "adam", "sgd"] = field(
        "adam", "The rule that turns gradients into steps.", source="[Adam], Algorithm 1; [RMSProp]"
    )
    learning_rate: float = field(
        1e-3, "Length of the steps, at the start.", source="[Adam], Algorithm 1; agents' presets have others", above=0
    )
    anneal_updates: int | None = field(
        None,
        "Time over which the learning rate falls linearly to 0; None keeps it.",
        unit="updates",
        source="[I], Table G.1, over the whole run; None is our own choice",
        at_least=1,
    )
    max_grad_norm: float = field(
        40.0, "Norm to which longer gradients are scaled down.", source="[I], Table G.1", above=0, infinite=True
    )
    epsilon: float | None = field(
        None,
        "Constant in the denominator; RMSProp adds it under the root, as TensorFlow does, Adam outside. None is 0.1 "
        "for RMSProp, 1e-8 for Adam.",
        source="[IC], 0.1; [Adam], Algorithm 1, 1e-8",
        above=0,
    )
    decay: float = field(
        0.99,
        "Decay of RMSProp's mean square; Adam has 0.9 and 0.999.",
        source="[IC], 0.99; [Adam], Algorithm 1",
        at_least=0,
        below=1,
    )
    weight_decay: float = field(
        0.0,
        "Share of each weight, times the learning rate, that a step of Adam takes off, decoupled from the gradient; "
        "biases and normalisations keep theirs.",
        source="[AdamW], Algorithm 2; 0 is none",
        at_least=0,
    )

    @property
    def eps(self) -> float:
        """Epsilon of the chosen kind."""
        if self.epsilon is not None:
            return self.epsilon
        return 0.1 if self.kind == "rmsprop" else 1e-8

    def __post_init__(self) -> None:
        check(self)


@documented
@dataclasses.dataclass(frozen=True)
class Replay:
    """A replay table, see `agents.base.Table`.

    Sources: [P] "Prioritized Experience Replay" (https://arxiv.org/abs/1511.05952), [M] MuZero
    (https://arxiv.org/abs/1911.08265).
    """

    batch_size: int = field(
        32, "Sequences in an update, over all learner devices.", unit="sequences", source=MEASURED, at_least=1
    )
    size: int = field(20_000, "Sequences kept; the oldest goes first.", unit="sequences", source=MEASURED, at_least=1)
    min_size: int = field(200, "Sequences before learning starts.", unit="sequences", source=MEASURED, at_least=1)
    samples_per_insert: float | None = field(
        4.0,
        "How often a sequence is learned from, on average; None leaves it free.",
        unit="samples",
        source=f"[M], App. H, 2 for each state; 4 is our {MEASURED}",
        above=0,
    )
    sampler: Literal["uniform", "proportional", "rank"] = field(
        "uniform",
        "How sequences are drawn: all alike, by their error, or by the error's rank.",
        source="[P], section 3.3",
    )
    priority_exponent: float = field(
        0.6,
        "alpha: how much errors count in drawing; 0 is uniform.",
        source="[P], Eq. 1 and Table 3: 0.6 proportional, 0.7 by rank",
        at_least=0,
        at_most=1,
    )
    importance_exponent: float = field(
        0.4,
        "beta at the start: how far the loss corrects for drawing some sequences more often.",
        source="[P], section 3.4 and Table 3: 0.4 proportional, 0.5 by rank",
        at_least=0,
        at_most=1,
    )
    importance_anneal_updates: int | None = field(
        100_000,
        "Time over which beta grows linearly to 1; None keeps it.",
        unit="updates",
        source="[P], section 3.4, the whole run; 100,000 is our own choice",
        at_least=1,
    )

    def table(
        self,
        name: str,
        sequence_length: int,
        period: int,
        errors: Callable[[Steps], Any] | None = None,
        core_row: int = 0,
    ) -> Table:
        """The table that actors write to, with these settings; see `agents.base.Table` for its arguments."""
        return Table(
            name=name,
            kind="replay",
            sequence_length=sequence_length,
            period=period,
            batch_size=self.batch_size,
            size=self.size,
            sampler=self.sampler,
            samples_per_insert=self.samples_per_insert,
            min_size=self.min_size,
            priority_exponent=self.priority_exponent,
            core_row=core_row,
            errors=errors,
        )

    def __post_init__(self) -> None:
        check(self)
        require(self, "min_size", self.min_size <= self.size, f"at most size, {self.size}")


Kind = Literal["mlp", "minatar", "shallow", "nature", "deep", "tower"]

PUBLISHED: dict[Kind, dict[str, Any]] = {
    "mlp": {"widths": (256, 256)},
    "minatar": {"widths": (128,), "channels": (16,), "kernels": (3,), "strides": (1,)},  # Its paper's DQN.
    # The A3C network. See "Asynchronous Methods for Deep Reinforcement Learning" (https://arxiv.org/abs/1602.01783),
    # section 8, and the left of Figure 3 in the IMPALA paper.
    "shallow": {"widths": (256,), "channels": (16, 32), "kernels": (8, 4), "strides": (4, 2)},
    # See "Human-level control through deep reinforcement learning" (https://doi.org/10.1038/nature14236), Methods.
    "nature": {"widths": (512,), "channels": (32, 64, 64), "kernels": (8, 4, 3), "strides": (4, 2, 1)},
    # The network of 15 convolutions. See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner
    # Architectures" (https://arxiv.org/abs/1802.01561), Figure 3, right.
    "deep": {"widths": (256,), "channels": (16, 32, 32), "blocks": 2},
    "tower": {"widths": (), "channels": (32,), "blocks": 6},  # MooZi's.
}


@documented
@dataclasses.dataclass(frozen=True)
class Torso:
    """The network from an observation to features, see `agents.encoders`.

    Each kind has widths and channels of its own, which any others may replace.

    Sources: [A3C] https://arxiv.org/abs/1602.01783, [DQN] https://doi.org/10.1038/nature14236, [I] IMPALA
    (https://arxiv.org/abs/1802.01561), [M] MuZero (https://arxiv.org/abs/1911.08265), [MA] MinAtar
    (https://arxiv.org/abs/1903.03176), [Z] MooZi, [E] "What Matters In On-Policy Reinforcement Learning?"
    (https://arxiv.org/abs/2006.05990).
    """

    kind: Kind = field(
        "mlp",
        '"mlp" flattens any observation; "minatar" (for small boards), "shallow" (A3C\'s), "nature" (DQN\'s), "deep" '
        "(IMPALA's, residual) and \"tower\" (MuZero's, residual, normalised) are convolutions over images and boards.",
        source="[MA], experiments; [A3C], section 8; [DQN], Methods; [I], Figure 3; [Z], section 5.3.6",
    )
    widths: tuple[int, ...] | None = field(
        None,
        "Units of each dense layer, on top of the convolutions if there are some. None is the kind's own: mlp 256 256, "
        "minatar 128, shallow 256, nature 512, deep 256, tower none.",
        unit="units",
        source="as the kind; mlp's are our own choice",
        at_least=1,
    )
    channels: tuple[int, ...] | None = field(
        None,
        "Channels of each convolution, of each of deep's stages, or of the whole tower. None is the kind's own: "
        "minatar 16, shallow 16 32, nature 32 64 64, deep 16 32 32, tower 32.",
        unit="channels",
        source="as the kind",
        at_least=1,
    )
    kernels: tuple[int, ...] | None = field(
        None,
        "Heights and widths of the windows of minatar's, shallow's and nature's convolutions. None is the kind's own: "
        "minatar 3, shallow 8 4, nature 8 4 3.",
        unit="pixels",
        source="as the kind",
        at_least=1,
    )
    strides: tuple[int, ...] | None = field(
        None,
        "Distances between these windows. None is the kind's own: minatar 1, shallow 4 2, nature 4 2 1.",
        unit="pixels",
        source="as the kind",
        at_least=1,
    )
    blocks: int | None = field(
        None,
        "Residual blocks of each of deep's stages, or of the tower. None is the kind's own: deep 2, tower 6.",
        unit="blocks",
        source="as the kind",
        at_least=0,
    )
    halvings: int = field(
        0,
        "How often the tower halves rows and columns first; Atari's 84 x 84 needs 4.",
        unit="halvings",
        source="[M], App. F: 4 for Atari, 0 for board games",
        at_least=0,
    )
    activation: Literal["relu", "tanh"] = field(
        "relu",
        "The function after each dense layer; convolutions have rectifiers.",
        source='[E], section 3.2, "tanh" for continuous control',
    )
    orthogonal: bool = field(
        False,
        "Whether dense layers begin orthogonal, scaled by the root of 2, those of actor-critics' policy by 0.01 and of "
        "their value by 1; otherwise all begin as normal numbers over the root of a layer's inputs.",
        source="[E], section 3.2",
    )
    normalise: bool = field(
        False,
        "Whether each dense layer is normalised over its own example; the tower's convolutions always are.",
        source="https://arxiv.org/abs/1607.06450, Eq. 3",
    )

    @property
    def resolved(self) -> Torso:
        """The same torso with the kind's own sizes in place of None."""
        missing = {name: value for name, value in PUBLISHED[self.kind].items() if getattr(self, name) is None}
        return dataclasses.replace(self, **missing) if missing else self

    def of_kind(self, kind: Kind) -> Torso:
        """This torso, or one of another kind with that kind's own sizes; no dense layers, as heads want, stay none."""
        alike = {name: getattr(self, name) for name in ("activation", "orthogonal", "normalise")}
        widths = () if self.widths == () and kind != "mlp" else None
        return self if kind == self.kind else Torso(kind, widths, **alike)

    def __post_init__(self) -> None:
        check(self)
        own, given = PUBLISHED[self.kind], self.channels
        if self.kind == "tower":
            require(self, "channels", given is None or len(given) == 1, "one number where kind is 'tower'")
        if "kernels" in own:
            layers = len(given or own["channels"])
            for name in ("kernels", "strides"):
                sizes = own[name] if getattr(self, name) is None else getattr(self, name)
                require(self, name, len(sizes) == layers, f"one number for each of {layers} convolutions")


@documented
@dataclasses.dataclass(frozen=True)
class Gaussian:
    """The policy over actions that are real numbers, see `agents.heads`; others ignore it.

    Sources: [SAC] https://arxiv.org/abs/1801.01290, [PPO] https://arxiv.org/abs/1707.06347, [E] "What Matters In
    On-Policy Reinforcement Learning?" (https://arxiv.org/abs/2006.05990).
    """

    kind: Literal["squashed", "plain"] = field(
        "squashed",
        'Whether the Gaussian is squashed by tanh into the bounds, which all actions must have; of a "plain" one, '
        "actions out of bounds are clipped by the env.",
        source="[SAC], Appendix C; [PPO], section 6.1, plain",
    )
    deviation: Literal["state", "free"] = field(
        "state",
        'Whether the standard deviation is an output of the network, or with "free" a param of its own.',
        source="[SAC], Appendix C; [PPO], section 6.1, free; [E], Appendix C.2, compares both",
    )

    @property
    def squashed(self) -> bool:
        """Whether actions are squashed."""
        return self.kind == "squashed"

    def __post_init__(self) -> None:
        check(self)
