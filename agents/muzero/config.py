"""MuZero's hyper-parameters."""

from __future__ import annotations

import dataclasses
from typing import Literal

from boonta.agents.config import check, documented, field, recast, require
from boonta.agents.groups import MEASURED, Optimiser, Replay, Torso
from boonta.agents.muzero.groups import Puct, SelfPlay


@documented
@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters of MuZero. The defaults suit small tasks; `preset` gives what programs start from.

    Sources: [M] MuZero (https://arxiv.org/abs/1911.08265) and the pseudocode that comes with it, its code; [G] Gumbel
    MuZero (https://openreview.net/forum?id=bERaNdoegnO); [S] Stochastic MuZero
    (https://openreview.net/forum?id=X6D9bAHhBQ1); [E] EfficientZero (https://arxiv.org/abs/2111.00210); [Z] MooZi,
    whose shapes the tower has, with the exceptions in the README.
    """

    # Model.
    torso: Torso = field(
        Torso("mlp", widths=(128, 128), normalise=True),
        "The representation. A tower has no dense layers, and its dynamics two residual blocks; with any other kind a "
        "leaf's part of the hidden state has the last width, and the dynamics has as many dense layers.",
        source="[Z], section 5.3.6, the tower",
    )
    action_planes: Literal["each", "place"] = field(
        "each",
        'How an action is shown to a tower beside a hidden state. "each" action has a plane, all ones; or one plane '
        'shows its "place" on the board, a column or a cell, which a convolution then need not learn.',
        source="[M], App. E: each for Atari, place for Go",
    )
    head_width: int = field(
        128, "Width of the layer below each output.", unit="units", source="[Z], section 5.3.6", at_least=1
    )
    support_bins: int = field(
        51, "Z, bins of a reward or value.", unit="bins", source=f"[M], App. F, 601; 51 is our {MEASURED}", at_least=3
    )
    support_limit: float = field(
        10.0,
        "Largest value the categories reach, before the transform is applied.",
        unit="reward",
        source=f"the idea: [M], App. F, the ends of the support; 10 is our {MEASURED}",
        above=0,
    )
    frame_stack: int = field(
        1,
        "L, frames that the network sees at once; 1 for environments whose observation is the whole state.",
        unit="frames",
        source=f"[M], App. E, 32 for Atari; [E], 4; 1 is our {MEASURED}",
        at_least=1,
    )
    action_history: bool = field(
        False,
        "Whether the network sees, beside each frame, the action that led to it; for one player.",
        source="[M], App. E, for Atari; [Z], section 5.3.4",
    )
    normalise_observations: bool = field(
        False,
        "Whether real numbers and pixels are shifted and scaled by their running mean and deviation, each by its own. "
        "Where frames differ in few pixels, their hidden states become all the same without it.",
        source=f"{MEASURED}; the papers' networks normalise over a batch",
    )

    # Search, and acting by it.
    search: Literal["gumbel", "puct", "stochastic"] = field(
        "gumbel", 'The search; "stochastic" is for games with chance.', source="[G]; [M], App. B; [S]"
    )
    num_simulations: int = field(
        16,
        "Size of an actor's search.",
        unit="simulations",
        source=f"[M], App. C: 50 for Atari, 800 for board games; 16 is our {MEASURED}",
        at_least=1,
    )
    eval_simulations: int | None = field(
        None,
        "Size of a search that plays its best, in evaluations and matches; None is as many as an actor's.",
        unit="simulations",
        source=MEASURED,
        at_least=1,
    )
    max_considered_actions: int | None = field(
        None,
        '"gumbel": actions tried at the root; None is 16, or all if they are fewer.',
        unit="actions",
        source="[G], 16",
        at_least=1,
    )
    min_value_range: float = field(
        0.01,
        "\"gumbel\": values of a state's actions that differ by less than this aren't scaled to the whole of [0, 1] "
        "before they improve the policy: early in training such differences are noise, which would end exploration.",
        unit="reward",
        source="[E], the threshold of its soft minimum-maximum scaling, 0.01",
        above=0,
    )
    puct: Puct = field(Puct(), 'Constants of the searches "puct" and "stochastic".', source="[M], Eq. 2")
    chance_codes: int = field(32, '"stochastic": outcomes of a chance node.', unit="codes", source="[S]", at_least=1)

    self_play: SelfPlay = field(SelfPlay(), "How actors choose among the actions of a search.", source="[M], App. D")

    # Targets.
    discount: float = field(
        0.997,
        "The agent's discount; below 0 where two players take turns. In targets it multiplies the environment's, which "
        "should be 1 until the end: the model predicts none, so that the search plans with the agent's alone.",
        source="[M], App. C, 0.997 for Atari",
        at_least=-1,
        at_most=1,
    )
    unroll_length: int = field(
        5, "K, how far each root is unrolled.", unit="model steps", source="[M], App. G", at_least=1
    )
    bootstrap_length: int = field(
        5,
        "N, rewards in a value target before it bootstraps.",
        unit="env steps",
        source="[M], App. G: 10 for Atari, to the end for boards; App. H, 5",
        at_least=1,
    )
    trace_lambda: float = field(
        1.0,
        "Weight of longer returns among the N; 1 bootstraps after N only, below 1 gives lambda-returns.",
        source="[M], App. G, 1",
        at_least=0,
        at_most=1,
    )
    value_target: Literal["target", "search"] = field(
        "target",
        'What values bootstrap from: those of the "target" network, or of the "search" when acting.',
        source=f"[M], App. G, search; target is our {MEASURED}",
    )
    target_period: int = field(
        100, "Time between copies to the target network.", unit="updates", source="[E], 200 to 400", at_least=1
    )
    policy_target: Literal["search", "action"] = field(
        "search",
        'What the policy learns: the policy of the "search", or the recorded "action". With "action", and 0 for the '
        "other costs, this is behaviour cloning; it learns no values to search by, so play it with eval_simulations 1.",
        source="[M], Eq. 1, search",
    )

    # Loss.
    policy_cost: float = field(1.0, "Weight of the policy loss.", source="[M], Eq. 1", at_least=0)
    reward_cost: float = field(1.0, "Weight of the reward loss.", source="[M], Eq. 1", at_least=0)
    value_cost: float = field(0.25, "Weight of the value loss.", source="[M], App. H", at_least=0)
    consistency_cost: float = field(2.0, "Weight of the self-consistency loss; 0 is none.", source="[E]", at_least=0)
    chance_cost: float = field(1.0, '"stochastic": weight of the loss of chance codes.', source="[S]", at_least=0)

    # Data.
    roots: int = field(
        8,
        "Root states of a sequence that the update unrolls from. More share the rows around them.",
        unit="env steps",
        source=MEASURED,
        at_least=1,
    )
    replay: Replay = field(
        Replay(),
        "Sequences to learn from. Their error is |value - its target| / support_limit, compared with which a new "
        "sequence's 1 is large.",
        source="[M], App. G",
    )
    reanalyze_ratio: float = field(
        0.0,
        "r, share of an update's sequences whose targets come from a search with newer params than those that acted. "
        "Fresh ones are drawn replay.samples_per_insert times, and reanalyzed ones come on top: with 0.8 there are "
        "five times as many updates per env step. Below 1 one at least is fresh: of 32, 0.99 is 31. With 1 only "
        "reanalyzed ones are learned from, as often as fresh ones would be, so that any actor may play.",
        source="[M], App. H, 0.8; [E], 0.99",
        at_least=0,
        at_most=1,
    )
    reanalyze: Literal["nodes", "update"] = field(
        "nodes",
        'Who reanalyzes: "nodes" that write to a table of their own; or the "update", on the batch that was drawn, by '
        "the target network. There r is a share of the same batch: the updates per env step stay as they were.",
        source="[Z], section 5.3.13, nodes; update is our own choice",
    )
    reanalyzed_samples: float = field(
        4.0,
        '"nodes": how often a reanalyzed sequence is learned from, on average. More need less searching.',
        unit="samples",
        source=MEASURED,
        above=0,
    )

    optimiser: Optimiser = field(
        Optimiser("adam", learning_rate=1e-3, max_grad_norm=5.0, weight_decay=1e-4),
        "Gradient descent on all params.",
        source="[Z], section 5.3.9, Adam; [E], the gradient's norm and the weight decay",
    )

    @property
    def rows(self) -> int:
        """Raw steps of a sequence after its context: roots, steps to unroll into, and steps to bootstrap from."""
        return self.roots + self.unroll_length + self.bootstrap_length

    @property
    def context(self) -> int:
        """Raw steps of a sequence before `rows`, for the first stack: its frames, and the action before the oldest."""
        return self.frame_stack - 1 + self.action_history

    @property
    def sequence_length(self) -> int:
        """Raw steps of a sequence: its context, then `rows`."""
        return self.context + self.rows

    @classmethod
    def preset(cls, kind: str) -> Config:
        """The hyper-parameters to start from in an environment of this kind, such as "atari"; see `PRESETS`."""
        return recast(cls, PRESETS.get(kind, PRESETS["default"]))

    def __post_init__(self) -> None:
        check(self)
        torso = self.torso
        require(self, "torso.widths", torso.kind == "tower" or torso.widths != (), "one number at least, or None")
        for name in ("widths", "activation", "orthogonal") if torso.kind == "tower" else ():
            usual = getattr(Torso("tower"), name)
            require(self, f"torso.{name}", getattr(torso, name) == usual, f"{usual!r}: a tower has no dense layers")
        require(self, "discount", self.discount != 0, "in [-1, 1], and not 0")
        paced = self.replay.samples_per_insert is not None or not self.self_play.temperature_steps
        require(self, "replay.samples_per_insert", paced, "a number, unless self_play.temperature_steps is empty")
        require(self, "support_bins", self.support_bins % 2 == 1, "odd, so that one of them is 0, and at least 3")
        if self.action_planes == "place":
            where = "where action_planes is 'place'"
            require(self, "torso.kind", torso.kind == "tower", f"'tower' {where}")
            require(self, "torso.halvings", torso.halvings == 0, f"0 {where}: a board keeps its size")
            require(self, "search", self.search != "stochastic", f"another {where}: chance codes have no place")


# Measured; agents/muzero/README.md shows the curves.
CATCH = Config(
    torso=Torso("mlp", widths=(64,), normalise=True),
    head_width=64,
    num_simulations=8,
    min_value_range=0.3,
    discount=0.95,
    bootstrap_length=10,
    support_limit=2.0,
    support_bins=21,
    optimiser=dataclasses.replace(Config().optimiser, learning_rate=3e-3),
)
CARTPOLE = Config(min_value_range=1.0, bootstrap_length=10, support_limit=300.0)
BOARD = Config(
    num_simulations=25,
    min_value_range=0.3,
    self_play=SelfPlay(random_actions=0.1),
    discount=-1.0,
    bootstrap_length=3,
    value_target="search",
    support_limit=1.0,
    support_bins=21,
    optimiser=dataclasses.replace(Config().optimiser, learning_rate=2e-3),
)
# Convolutions find lines sooner; games are short enough to bootstrap after their outcome alone.
CONNECT_FOUR = dataclasses.replace(
    BOARD,
    torso=Torso("tower", channels=(16,), blocks=1, normalise=True),
    action_planes="place",
    num_simulations=16,
    eval_simulations=400,
    min_value_range=0.5,
    unroll_length=3,
    bootstrap_length=30,
    value_cost=1.0,
    consistency_cost=0.0,
    replay=Replay(samples_per_insert=2.0),
)
MINATAR = Config(
    torso=Torso("mlp", widths=(128,), normalise=True),
    consistency_cost=0.0,
    min_value_range=0.3,
    discount=0.99,
    unroll_length=3,
    support_limit=30.0,
)
ATARI = Config(
    torso=Torso("tower", channels=(32,), blocks=2, halvings=4, normalise=True),
    frame_stack=4,
    normalise_observations=True,
    support_limit=300.0,
)

PRESETS = {
    "catch": CATCH,
    "cartpole": CARTPOLE,
    "board": BOARD,
    "connect_four": CONNECT_FOUR,
    "minatar": MINATAR,
    "atari": ATARI,
    "grid_world": Config(),
    # Nothing is known of its rewards, and a value beyond the support is learned wrong; a wide one keeps small values.
    "default": Config(support_limit=300.0),
}
