"""MuZero's hyper-parameters."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from boonta.agents.base import Sampler


@dataclasses.dataclass(frozen=True)
class Config:
    """Hyper-parameters of MuZero. The defaults suit small tasks; the presets below are what programs start from.

    Sources: [M] "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model" (MuZero,
    https://arxiv.org/abs/1911.08265), [G] "Policy improvement by planning with Gumbel" (Gumbel MuZero,
    https://openreview.net/forum?id=bERaNdoegnO), [E] "Mastering Atari Games with Limited Data" (EfficientZero,
    https://arxiv.org/abs/2111.00210), [P] "Prioritized Experience Replay" (https://arxiv.org/abs/1511.05952),
    [Z] MooZi, whose shapes the tower has, but for what the README says.

    Attributes:
      network: "mlp" flattens any observation; "tower" is residual convolutions over images and boards.
      width: units of the hidden state and of each layer of "mlp".
      layers: of "mlp", in the representation; the dynamics has as many.
      channels: of "tower" ([Z]: 32).
      blocks: residual blocks of the tower's representation ([Z]: 6); the other functions have one or two, always.
      halvings: how often the tower's representation halves rows and columns first; Atari's 84 x 84 needs 4 ([M]).
      action_planes: how "tower" sees an action beside a hidden state: "each" action has a plane, all ones ([M], Atari);
        or one plane shows its "place" on the board, a column or a cell ([M], Go), which a convolution need not learn.
      head_width: units of the layer below each output ([Z]: 128).
      support_bins: Z, categories of a reward or value.
      support_limit: largest value the categories reach, before the transform is applied. The ends of the support.
      frame_stack: L, frames the network sees at once; 1 for environments whose observation tells all.

      search: "gumbel" [G], "puct" [M], or "stochastic", for games with chance.
      num_simulations: of an actor's search.
      eval_simulations: of a search that plays its best, in evaluations and matches; None is as many as an actor's.
      max_considered_actions: "gumbel": actions tried at the root ([G]: 16); None is 16, or all if they are fewer.
      min_value_range: "gumbel": values of a state's actions that differ by less than this aren't spread over the whole
        of [0, 1] before they improve the policy ([E]: 0.01): early on they would be noise, and exploration would end.
      random_actions: share of the actors' actions that are drawn from all legal ones. Without some, self-play narrows
        down to a few games, and forgets how to meet other moves.
      dirichlet_alpha: "puct": of the root's noise ([M], board games: 0.3 for chess, 0.25 for Atari).
      dirichlet_fraction: "puct": the noise's share of the root's prior ([M]: 0.25).
      temperature: "puct": actors act by visits ** (1 / temperature) ([M]: 1, later less).
      pb_c_init: "puct": constant c1 of the exploration term ([M]: 1.25).
      pb_c_base: "puct": constant c2 ([M]: 19652).
      chance_codes: "stochastic": outcomes a chance node tells apart.

      discount: of the agent; below 0 where two players take turns, since what is good for one is bad for the other. In
        targets it multiplies the environment's; the search plans with this one alone, since the model foresees no
        discount. So the environment's should be 1 until the end.
      unroll_length: K, model steps unrolled from each root ([M]: 5).
      bootstrap_length: N, rewards in a value target before it bootstraps ([M]: 10 for Atari, to the end for boards).
      trace_lambda: weight of longer returns among the N; 1 bootstraps after N only ([M]), below 1 gives lambda-returns.
      value_target: bootstraps from the "target" network's value, or from what the "search" found when acting ([M]).
      target_period: updates between copies to the target network ([E]: 200 to 400).
      policy_target: the policy learns what the "search" found, or the recorded "action". With that, and the other costs
        0, the agent is cloned; without them it has no values to search by, so play it with `eval_simulations` 1.

      policy_cost, reward_cost: weights of these losses ([M]: 1).
      value_cost: weight of the value loss ([M] with replay: 0.25).
      consistency_cost: weight of the self-consistency loss ([E]: 2); 0 leaves it out.
      chance_cost: "stochastic": weight of the loss of chance codes.
      weight_decay: decoupled, see `agents.optimisation.make_optimiser` ([M]: 1e-4).

      roots: states of a sequence that the update unrolls from. More of them share the rows around them.
      batch_size: sequences in an update, over all learner devices.
      replay_size: sequences kept.
      min_replay_size: sequences before learning starts.
      samples_per_insert: how often a sequence is learned from, on average.
      sampler: "uniform", "proportional" or "rank" [P]; the latter two by |value - its target| over support_limit,
        beside which a new sequence's 1 is large.
      priority_exponent: alpha of [P]: 0 is uniform (their 0.6 and 0.7).
      importance_exponent: beta of [P] at the start (theirs: 0.4 and 0.5).
      importance_anneal_updates: updates over which beta grows to 1, in a line.

      reanalyze_ratio: r, share of an update's sequences whose policy and value targets come from a search with newer
        params than those that acted ([M], Appendix H: 0.8; [E]: 0.99). Each fresh sequence is still drawn
        `samples_per_insert` times, and the reanalyzed ones come on top: with 0.8 there are five times as many updates
        per env step.
      reanalyze: "nodes" leaves it to reanalyzers, which write to a table of their own; "update" searches within the
        update, with the target network and on the batch that was drawn, without nodes or tables for it. There r is a
        share of the same batch: the updates per env step stay as they were.
      reanalyzed_samples: "nodes": how often a reanalyzed sequence is learned from, on average. More of them is less
        searching and older targets.

      learning_rate: of Adam, at the start.
      anneal_updates: updates over which it falls to 0, in a line; None keeps it.
      max_grad_norm: longer gradients are scaled down to it.
    """

    # Model.
    network: Literal["mlp", "tower"] = "mlp"
    width: int = 128
    layers: int = 2
    channels: int = 32
    blocks: int = 6
    halvings: int = 0
    action_planes: Literal["each", "place"] = "each"
    head_width: int = 128
    support_bins: int = 51
    support_limit: float = 10.0
    frame_stack: int = 1

    # Search.
    search: Literal["gumbel", "puct", "stochastic"] = "gumbel"
    num_simulations: int = 16
    eval_simulations: int | None = None
    max_considered_actions: int | None = None
    min_value_range: float = 0.01
    random_actions: float = 0.0
    dirichlet_alpha: float = 0.3
    dirichlet_fraction: float = 0.25
    temperature: float = 1.0
    pb_c_init: float = 1.25
    pb_c_base: float = 19652.0
    chance_codes: int = 32

    # Targets.
    discount: float = 0.997
    unroll_length: int = 5
    bootstrap_length: int = 5
    trace_lambda: float = 1.0
    value_target: Literal["target", "search"] = "target"
    target_period: int = 100
    policy_target: Literal["search", "action"] = "search"

    # Loss.
    policy_cost: float = 1.0
    reward_cost: float = 1.0
    value_cost: float = 0.25
    consistency_cost: float = 2.0
    chance_cost: float = 1.0
    weight_decay: float = 1e-4

    # Replay.
    roots: int = 8
    batch_size: int = 32
    replay_size: int = 20_000
    min_replay_size: int = 200
    samples_per_insert: float = 4.0
    sampler: Sampler = "uniform"
    priority_exponent: float = 0.6
    importance_exponent: float = 0.4
    importance_anneal_updates: int = 100_000

    # Reanalyze.
    reanalyze_ratio: float = 0.0
    reanalyze: Literal["nodes", "update"] = "nodes"
    reanalyzed_samples: float = 4.0

    # Optimiser.
    learning_rate: float = 1e-3
    anneal_updates: int | None = None
    max_grad_norm: float = 5.0

    @property
    def rows(self) -> int:
        """Raw steps of a sequence after its context: roots, what the last unrolls into, what that bootstraps from."""
        return self.roots + self.unroll_length + self.bootstrap_length

    @property
    def sequence_length(self) -> int:
        """Raw steps of a sequence: frames for the first stack, then `rows`."""
        return self.frame_stack - 1 + self.rows

    def __post_init__(self) -> None:
        for field, allowed in (
            ("network", ("mlp", "tower")),
            ("action_planes", ("each", "place")),
            ("search", ("gumbel", "puct", "stochastic")),
            ("value_target", ("target", "search")),
            ("policy_target", ("search", "action")),
            ("sampler", ("uniform", "proportional", "rank")),
            ("reanalyze", ("nodes", "update")),
        ):
            self._require(field, getattr(self, field) in allowed, f"one of {allowed}")
        for field in (
            *("width", "layers", "channels", "head_width", "frame_stack", "num_simulations", "chance_codes"),
            *("unroll_length", "bootstrap_length", "target_period", "roots", "batch_size", "replay_size"),
            *("min_replay_size", "importance_anneal_updates"),
        ):
            self._require(field, getattr(self, field) >= 1, "at least 1")
        for field in (
            *("blocks", "halvings", "policy_cost", "reward_cost", "value_cost", "consistency_cost", "chance_cost"),
            "weight_decay",
        ):
            self._require(field, 0 <= getattr(self, field) < math.inf, "at least 0, and finite")
        for field in (
            "support_limit",
            "learning_rate",
            "samples_per_insert",
            "reanalyzed_samples",
            "dirichlet_alpha",
            "min_value_range",
            "pb_c_init",
            "pb_c_base",
        ):
            self._require(field, 0 < getattr(self, field) < math.inf, "above 0, and finite")
        self._require("max_grad_norm", self.max_grad_norm > 0, "above 0")
        for field in (
            "trace_lambda",
            "random_actions",
            "dirichlet_fraction",
            "priority_exponent",
            "importance_exponent",
        ):
            self._require(field, 0 <= getattr(self, field) <= 1, "in [0, 1]")
        some_fresh = 0 <= self.reanalyze_ratio < 1
        self._require("reanalyze_ratio", some_fresh, "in [0, 1): without fresh sequences there is nothing new to learn")
        self._require("discount", 0 < abs(self.discount) <= 1, "in [-1, 1], and not 0")
        self._require("temperature", self.temperature >= 0, "at least 0")
        odd = self.support_bins >= 3 and self.support_bins % 2 == 1
        self._require("support_bins", odd, "odd, so that one of them is 0, and at least 3")
        some = self.eval_simulations is None or self.eval_simulations >= 1
        self._require("eval_simulations", some, "at least 1, or None")
        few = self.max_considered_actions is None or self.max_considered_actions >= 1
        self._require("max_considered_actions", few, "at least 1, or None")
        self._require("anneal_updates", self.anneal_updates is None or self.anneal_updates >= 1, "at least 1, or None")
        if self.action_planes == "place":
            self._require("network", self.network == "tower", "'tower' where action_planes is 'place'")
            self._require("halvings", self.halvings == 0, "0 where action_planes is 'place': a board keeps its size")
            choice = self.search != "stochastic"
            self._require("search", choice, "another where action_planes is 'place': chance codes have no place")
        enough = self.min_replay_size <= self.replay_size
        self._require("min_replay_size", enough, f"at most replay_size, {self.replay_size}")

    preset = classmethod(lambda cls, kind: PRESETS.get(kind, CATCH))

    def _require(self, field: str, holds: bool, allowed: str) -> None:
        if not holds:
            raise ValueError(f"muzero.Config: {field} is {getattr(self, field)!r}; it must be {allowed}")


# What the programs start from; measured where agents/muzero/README.md shows the curves.
CATCH = Config(
    width=64,
    layers=1,
    head_width=64,
    num_simulations=8,
    min_value_range=0.3,
    discount=0.95,
    bootstrap_length=10,
    support_limit=2.0,
    support_bins=21,
    learning_rate=3e-3,
)
CARTPOLE = Config(min_value_range=1.0, bootstrap_length=10, support_limit=300.0)
BOARD = Config(
    num_simulations=25,
    min_value_range=0.3,
    random_actions=0.1,
    discount=-1.0,
    bootstrap_length=3,
    value_target="search",
    support_limit=1.0,
    support_bins=21,
    learning_rate=2e-3,
)
# Needs to see lines, which convolutions find sooner; games are short enough to wait for their outcome.
CONNECT_FOUR = dataclasses.replace(
    BOARD,
    network="tower",
    channels=16,
    blocks=1,
    action_planes="place",
    num_simulations=16,
    eval_simulations=400,
    min_value_range=0.5,
    unroll_length=3,
    bootstrap_length=30,
    value_cost=1.0,
    consistency_cost=0.0,
    samples_per_insert=2.0,
)
MINATAR = Config(
    width=128,
    layers=1,
    consistency_cost=0.0,
    min_value_range=0.3,
    discount=0.99,
    unroll_length=3,
    support_limit=30.0,
)
ATARI = Config(network="tower", blocks=2, halvings=4, frame_stack=4, support_limit=300.0)

REANALYZE_CATCH = dataclasses.replace(CATCH, reanalyze_ratio=0.8)
REANALYZE_ATARI = dataclasses.replace(ATARI, reanalyze_ratio=0.8)

PRESETS = {
    "catch": CATCH,
    "atari": ATARI,
    "cartpole": CARTPOLE,
    "minatar": MINATAR,
    "board": BOARD,
    "connect_four": CONNECT_FOUR,
}
