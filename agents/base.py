"""The vocabulary every agent and node shares.

Glossary of shapes: B batch, T time, A actions, K unroll, N bootstrap, L history, Z support.
Suffixes: `_tm1` the step an action was chosen in, `_t` the step it led to.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from boonta.envs.base import TimeStep

Nest = Any  # A pytree of arrays.


class Steps(NamedTuple):
    """Raw steps as the writer stores them; after the dataset every leaf is [T, B, ...], time-major.

    Row t holds the time step the environment showed and what the policy did in it: the reward and discount of row t
    belong to the action of row t-1. Shifting, masking and stacking happen once, in `agents.sequences`.

    Attributes:
      observation: nest [T, B, ...].
      step_type: int32 [T, B].
      reward: float32 [T, B], raw; 0 on FIRST.
      discount: float32 [T, B]; on LAST, 0 is termination and above 0 truncation.
      action: [T, B, ...]; on LAST it is ignored by the environment.
      extras: nest [T, B, ...], stored for the policy (behaviour logits, search statistics).
      version: int32 [T, B], version of the params that acted.
      core: nest, what the policy's recurrent core remembered before the step; () for policies without one. Writers are
        given that of every row, [T, B, ...]. A table keeps that of one row in each sequence, `Table.core_row`, so that
        after the dataset it is [1, B, ...].
    """

    observation: Nest
    step_type: Any
    reward: Any
    discount: Any
    action: Any
    extras: Nest
    version: Any
    core: Nest = ()

    @classmethod
    def of(cls, timestep: TimeStep, action: Any, extras: Nest, version: Any, core: Nest = ()) -> Steps:
        """The rows of a time step and of what the policy did in it."""
        step_type, reward, discount, observation = timestep
        return cls(observation, step_type, reward, discount, action, extras, version, core)

    @property
    def timestep(self) -> TimeStep:
        """What the environment showed."""
        return TimeStep(self.step_type, self.reward, self.discount, self.observation)


class Batch(NamedTuple):
    """A batch of sequences, which the dataset gives to the update.

    Attributes:
      steps: `Steps`, leaves [T, B, ...].
      probability: float32 [B], the probability with which each sequence was drawn, relative to a uniform draw: N p,
        where the table held N sequences. 1 for uniform tables and for queues.
    """

    steps: Steps
    probability: Any


class Slots(NamedTuple):
    """The slots that a policy acts in, among those of all the program's actors.

    Attributes:
      size: B, how many it acts in.
      first: number of the first of them, from 0; the others follow. Those of actors that have joined a running program
        are numbered from `total`.
      total: how many all actors have that the program names; None if these are all.
      alike: True if every slot explores like the actors' first one: for reanalyzers, whose slots are not actors' slots.
    """

    size: int
    first: int = 0
    total: int | None = None
    alike: bool = False

    @property
    def of_all(self) -> int:
        """How many slots all actors have that the program names."""
        return self.size if self.total is None else self.total


class Policy(NamedTuple):
    """An agent's way to act: pure functions, always batched, always with state (frame stack, LSTM core, or ()).

    Attributes:
      initial_state: `(slots) -> state`, leaves [B, ...], with which a stream of steps begins. It knows the slots' place
        among all of the program, for a policy whose slots explore differently.
      step: `(params, key, timestep [B], state) -> (action [B], extras [B], state)`. Resets its own state where
        `timestep.step_type` is FIRST.
      core: `(state) -> the part of it, [B, ...], with which a recurrent learner starts a sequence`, or (). The rest is
        made again from the rows before, as a stack of frames is.
      deterministic: whether `step` takes its best action, and so the same one in the same situation, whatever the key.
      executed: `(state, action [B, ...]) -> state` that remembers this action as its last, for a policy that remembers
        actions. Nodes call it after a step whose action the environment replaces, as a replayed one does.
    """

    initial_state: Callable[[Slots], Nest]
    step: Callable[[Nest, Any, Any, Nest], tuple[Any, Nest, Nest]]
    core: Callable[[Nest], Nest] = lambda state: ()
    deterministic: bool = False
    executed: Callable[[Nest, Any], Nest] = lambda state, action: state


class Update(NamedTuple):
    """An agent's way to learn: pure functions that the learner jits over its mesh.

    Attributes:
      init: `(key) -> learner state`, a pytree of arrays only, so that it can be placed and checkpointed.
      step: `(state, batch) -> (state, priorities [B] or None, metrics)`; metrics are scalars by name, some of which
        `nodes.watch.rules` judge, such as "entropy", "grad_norm" and "update_norm", and histograms, see
        `agents.metrics`. Priorities are the sequences' plain errors, at least 0, scaled so that 1 is large; the
        table's sampler decides what becomes of them.
      params: `(state) -> the params the policy acts with`.
      at_once: updates that a learner makes in one dispatch if its program names no number; several where an update
        takes a few milliseconds, of which a dispatch of its own would be a good part.
    """

    init: Callable[[Any], Nest]
    step: Callable[[Nest, Batch], tuple[Nest, Any, dict[str, Any]]]
    params: Callable[[Nest], Nest]
    at_once: int = 1


Sampler = Literal["uniform", "proportional", "rank"]
Author = Literal["actor", "reanalyzer"]

# Samples per insert where a table leaves them free: each sequence then counts as drawn once, as from a queue.
FREE_SAMPLES_PER_INSERT = 1.0


@dataclasses.dataclass(frozen=True)
class Table:
    """The contract between writer, replay and dataset: what one sequence is and how it is kept and drawn.

    These are its numbers; `nodes.tables.contract` derives the rules from them that every store follows.

    Attributes:
      name: name of the table in the replay server.
      kind: "queue" hands every sequence to the learner once, in order; "replay" keeps and samples them.
      sequence_length: raw steps in a sequence, the context for stacking and the bootstrap step included.
      period: raw steps between the starts of two sequences.
      batch_size: B, sequences in one update, over all tables and learner devices.
      size: most sequences kept; a full queue blocks its writers, a full replay drops its oldest.
      sampler: how a replay table draws; None for a queue. "uniform"; "proportional", p ~ error^alpha; "rank",
        p ~ (1 / rank)^alpha, rank 1 being the largest error. Until it is first drawn, a new sequence counts as rank 1,
        and as the error that `errors` gives it, or else as 1. Reverb's samplers can't be seeded, so a run on its
        replay table is not repeatable, not even under the serial schedule; a fused program draws by its seed.
      samples_per_insert: how often a sequence is drawn on average; None leaves it free, so that neither writer nor
        reader ever waits for the other. A queue's is 1.
      min_size: sequences a replay table holds before it serves any.
      priority_exponent: alpha, at least 0, where 0 draws uniformly; only "proportional" and "rank" use it. See
        "Prioritized Experience Replay" (https://arxiv.org/abs/1511.05952), section 3.3.
      writer: the kind of node that fills it. All tables of one kind of writer hold the same sequences.
      share: share of an update's sequences that come from this table, in [0, 1]. The learner takes none from a table
        with share 0: reanalyzers read it.
      core_row: row of a sequence with whose `Steps.core` the learner starts: with L stacked frames the row L-1.
      max_lag: a run warns where the params that acted are on average over a batch more than this many updates older
        than those that learn. None never warns.
      max_staleness: the learner leaves a sequence out if any of its steps was acted with params that are more than this
        many updates older than those that learn; 0 keeps only steps of the newest params. Only a queue can have it,
        see `nodes.tables.freshness`. None sets no bound.
      errors: `(steps, leaves [T, B, ...]) -> [B]`, the errors of fresh sequences, computed where they are written from
        what the policy has stored with the steps; None if the policy can't tell. Only "proportional" uses them. Writers
        may lack JAX, and get the leaves of `Steps.extras` alone, in their order; a fused program traces it. So it is a
        picklable value of a module without JAX that works on arrays of numpy and of JAX, see `agents.n_step`.
    """

    name: str
    kind: Literal["queue", "replay"]
    sequence_length: int
    period: int
    batch_size: int
    size: int
    sampler: Sampler | None = None
    samples_per_insert: float | None = 1.0
    min_size: int = 1
    priority_exponent: float = 1.0
    writer: Author = "actor"
    share: float = 1.0
    core_row: int = 0
    max_lag: float | None = None
    max_staleness: int | None = None
    errors: Callable[[Steps], Any] | None = None

    @property
    def is_prioritised(self) -> bool:
        """Whether sequences are drawn by their errors."""
        return self.sampler in ("proportional", "rank")

    @property
    def definite_samples_per_insert(self) -> float:
        """`samples_per_insert`, or FREE_SAMPLES_PER_INSERT where that is free.

        A fused program draws each sequence this many times on average: its parts run in turn, so no part can wait for
        another, and nothing else sets its pace.
        """
        return FREE_SAMPLES_PER_INSERT if self.samples_per_insert is None else self.samples_per_insert

    @property
    def env_steps_per_update(self) -> float:
        """Env steps per update, if the learner draws from this table alone.

        Each env step inserts 1 / period sequences, each of which is drawn `definite_samples_per_insert` times.
        """
        return self.batch_size * self.period / self.definite_samples_per_insert

    def __post_init__(self) -> None:
        for field in ("sequence_length", "period", "batch_size", "size", "min_size"):
            if getattr(self, field) < 1:
                raise ValueError(f"table {self.name!r}: {field} is {getattr(self, field)}; it must be at least 1")
        if self.kind not in ("queue", "replay"):
            raise ValueError(f"table {self.name!r}: kind is {self.kind!r}; allowed: 'queue', 'replay'")
        if self.writer not in ("actor", "reanalyzer"):
            raise ValueError(f"table {self.name!r}: writer is {self.writer!r}; allowed: 'actor', 'reanalyzer'")
        if not 0 <= self.core_row < self.sequence_length:
            raise ValueError(
                f"table {self.name!r}: core_row is {self.core_row}; it must be a row of a sequence, from 0 to "
                f"{self.sequence_length - 1}"
            )
        if self.max_lag is not None and not self.max_lag >= 0:
            raise ValueError(f"table {self.name!r}: max_lag is {self.max_lag}; it must be at least 0, or None")
        if self.max_staleness is not None:
            self._check_staleness(self.max_staleness)
        if not 0 <= self.share <= 1:
            raise ValueError(f"table {self.name!r}: share is {self.share}; it must be in [0, 1]")
        if self.kind == "queue" and (self.sampler is not None or self.samples_per_insert != 1.0):
            raise ValueError(
                f"table {self.name!r}: sampler is {self.sampler!r}, samples_per_insert {self.samples_per_insert}; a "
                "queue's must be None and 1, since it is read in order, and each sequence once"
            )
        if self.kind == "replay":
            self._check_replay()

    def _check_staleness(self, most: int) -> None:
        if most < 0:
            raise ValueError(f"table {self.name!r}: max_staleness is {most}; it must be at least 0, or None")
        if self.kind != "queue" or self.writer != "actor" or self.share != 1:
            raise ValueError(
                f"table {self.name!r}: max_staleness is {most}; only a queue that actors fill, and of which all of a "
                "batch is made, can keep it"
            )
        context = self.core_row  # Rows that are learned from begin after it.
        if self.period < self.sequence_length - context:
            raise ValueError(
                f"table {self.name!r}: max_staleness is {most}, and period {self.period}; it must be at least "
                f"{self.sequence_length - context}, so that no sequence begins with a step that older params acted"
            )

    def _check_replay(self) -> None:
        if self.sampler not in ("uniform", "proportional", "rank"):
            raise ValueError(
                f"table {self.name!r}: sampler is {self.sampler!r}; a replay table draws 'uniform', 'proportional' or "
                "'rank'"
            )
        if self.samples_per_insert is not None and not 0 < self.samples_per_insert < math.inf:
            raise ValueError(
                f"table {self.name!r}: samples_per_insert is {self.samples_per_insert}; it must be above 0, or None"
            )
        if not 0 <= self.priority_exponent < math.inf:
            raise ValueError(
                f"table {self.name!r}: priority_exponent is {self.priority_exponent}; it must be at least 0"
            )
        if self.min_size > self.size:
            raise ValueError(
                f"table {self.name!r}: min_size is {self.min_size}, but the table keeps at most {self.size} (size)"
            )


class Agent(NamedTuple):
    """All that nodes need to know of an agent.

    Attributes:
      policy: explores, for actors.
      eval_policy: plays its best, for evaluators.
      update: learns.
      tables: the tables that sequences are written to and drawn from.
      network: the name of a network that isn't the config's, as "module:name", for the user and the run's record.
    """

    policy: Policy
    eval_policy: Policy
    update: Update
    tables: tuple[Table, ...]
    network: str = ""


MakeAgent = Callable[[Any], Agent]  # `(config) -> agent`
