"""Groups of hyper-parameters that configs of several agents share: optimiser, replay and torso."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from boonta.agents.config import check, documented, field, require


@documented
@dataclasses.dataclass(frozen=True)
class Optimiser:
    """Gradient descent, see `agents.optimisation`."""

    kind: Literal["rmsprop", "adam", "sgd"] = field("adam", "The rule that turns gradients into steps.")
    learning_rate: float = field(1e-3, "Length of the steps, at the start.", above=0)
    anneal_updates: int | None = field(
        None, "Time over which the learning rate falls linearly to 0; None keeps it.", unit="updates", at_least=1
    )
    max_grad_norm: float = field(40.0, "Norm to which longer gradients are scaled down.", above=0, infinite=True)
    epsilon: float | None = field(
        None,
        "Constant in the denominator; RMSProp adds it under the root, as TensorFlow does, Adam outside. None is 0.1 "
        "for RMSProp, 1e-8 for Adam.",
        source="IMPALA's Table G.1, and Adam's paper",
        above=0,
    )
    decay: float = field(
        0.99, "Decay of RMSProp's mean square; Adam keeps its usual 0.9 and 0.999.", at_least=0, below=1
    )
    weight_decay: float = field(
        0.0,
        "Share of each weight, times the learning rate, that a step of Adam takes off, decoupled from the gradient; "
        "biases and normalisations keep theirs.",
        source="https://arxiv.org/abs/1711.05101",
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

    [P] is "Prioritized Experience Replay" (https://arxiv.org/abs/1511.05952).
    """

    batch_size: int = field(32, "Sequences in an update, over all learner devices.", unit="sequences", at_least=1)
    size: int = field(20_000, "Sequences kept; the oldest goes first.", unit="sequences", at_least=1)
    min_size: int = field(200, "Sequences before learning starts.", unit="sequences", at_least=1)
    samples_per_insert: float | None = field(
        4.0, "How often a sequence is learned from, on average; None leaves it free.", unit="samples", above=0
    )
    sampler: Literal["uniform", "proportional", "rank"] = field(
        "uniform", "How sequences are drawn: all alike, by their error, or by the error's rank.", source="[P]"
    )
    priority_exponent: float = field(
        0.6, "alpha: how much errors count in drawing; 0 is uniform.", source="[P], 0.6 and 0.7", at_least=0, at_most=1
    )
    importance_exponent: float = field(
        0.4,
        "beta at the start: how far the loss corrects for drawing some sequences more often.",
        source="[P], 0.4 and 0.5",
        at_least=0,
        at_most=1,
    )
    importance_anneal_updates: int = field(
        100_000, "Time over which beta grows linearly to 1.", unit="updates", at_least=1
    )

    def __post_init__(self) -> None:
        check(self)
        require(self, "min_size", self.min_size <= self.size, f"at most size, {self.size}")


Kind = Literal["mlp", "shallow", "nature", "deep", "tower"]

PUBLISHED: dict[Kind, dict[str, Any]] = {
    "mlp": {"widths": (256, 256)},
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
    """

    kind: Kind = field(
        "mlp",
        '"mlp" flattens any observation; "shallow" (A3C\'s), "nature" (DQN\'s), "deep" (IMPALA\'s, residual) and '
        '"tower" (MuZero\'s, residual, normalised) are convolutions over images and boards.',
    )
    widths: tuple[int, ...] | None = field(
        None,
        "Units of each dense layer, on top of the convolutions if there are some. None is the kind's own: mlp 256 256, "
        "shallow 256, nature 512, deep 256, tower none.",
        unit="units",
        at_least=1,
    )
    channels: tuple[int, ...] | None = field(
        None,
        "Channels of each convolution, of each of deep's stages, or of the whole tower. None is the kind's own: "
        "shallow 16 32, nature 32 64 64, deep 16 32 32, tower 32.",
        unit="channels",
        at_least=1,
    )
    kernels: tuple[int, ...] | None = field(
        None,
        "Heights and widths of the windows of shallow's and nature's convolutions. None is the kind's own: "
        "shallow 8 4, nature 8 4 3.",
        unit="pixels",
        at_least=1,
    )
    strides: tuple[int, ...] | None = field(
        None,
        "Distances between the windows of shallow's and nature's convolutions. None is the kind's own: shallow 4 2, "
        "nature 4 2 1.",
        unit="pixels",
        at_least=1,
    )
    blocks: int | None = field(
        None,
        "Residual blocks of each of deep's stages, or of the tower. None is the kind's own: deep 2, tower 6.",
        unit="blocks",
        at_least=0,
    )
    halvings: int = field(
        0, "How often the tower halves rows and columns first; Atari's 84 x 84 needs 4.", unit="halvings", at_least=0
    )
    normalise: bool = field(
        False, "Whether each dense layer is normalised over its own example; the tower's convolutions always are."
    )

    @property
    def resolved(self) -> Torso:
        """The same torso with the kind's own sizes in place of None."""
        missing = {name: value for name, value in PUBLISHED[self.kind].items() if getattr(self, name) is None}
        return dataclasses.replace(self, **missing) if missing else self

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
