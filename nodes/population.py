"""Populations: many learners at once, each with its own seed and hyper-parameters, in one compiled program."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from boonta.agents.base import Agent, MakeAgent, Nest
from boonta.agents.config import replaced
from boonta.envs.jax.base import JaxEnv
from boonta.nodes.anakin import Anakin
from boonta.nodes.fused.learners import FusedLearner, Setup
from boonta.nodes.fused.population import population
from boonta.nodes.watch.reporter import MonitorHandle


class Population(Anakin):
    """Anakin with a learner for every combination of seeds and hyper-parameters.

    Members share only the program; they are split over the devices, each whole on one. A member learns what
    Anakin with its seed and hyper-parameters would, up to float error. Each evaluation adds a row per member to
    `members.jsonl` in the run's folder. The state of all members, hyper-parameters included, is kept in `members/`; a
    resumed run goes on with the hyper-parameters found there. At the end the best member's state goes to
    `checkpoints/`, for `boonta play` and for other runs to start from.

    A member whose loss is no longer finite has diverged. The others go on, until none is left. Metrics, except those of
    episodes played, are means over the others; "diverged" is the number of diverged members, which are never the best.

    Args:
      make: makes an agent from a config.
      config: hyper-parameters that all members share.
      vary: hyper-parameters that differ, numbers by field; members take all combinations.
      seeds: number of seeds of each combination, counted from `seed`.
      members: in the place of these two, for each member its "seed", and its values of the fields that differ, which
        are the same fields for all.
      others: see `Anakin`; `num_envs` is each member's, env steps are counted over all members, updates of one.

    Attributes:
      members: the seed and the initial hyper-parameters of each member.
      make, config, env: as given.

    Raises:
      ValueError: as in `Anakin`; or a field can't vary, because the program's shape depends on it or nothing does; or a
        field has no values, equal ones, or some that aren't finite; or members have unlike fields.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: JaxEnv,
        monitor: MonitorHandle | None = None,
        *,
        make: MakeAgent,
        config: Any,
        vary: Mapping[str, Sequence[float]] | None = None,
        seeds: int = 1,
        members: Sequence[Mapping[str, float]] = (),
        seed: int = 0,
        **settings: Any,
    ):
        if seeds < 1 or seed < 0:
            raise ValueError(f"{name}: seeds is {seeds}, seed {seed}; they must be at least 1 and 0")
        vary = vary or {}
        for field, numbers in vary.items():
            if not numbers or not all(map(math.isfinite, numbers)) or len(set(numbers)) < len(numbers):
                raise ValueError(
                    f"{name}: {field} is to vary over {numbers}; it must be finite numbers, none of them twice"
                )
        combinations = [dict(zip(vary, chosen)) for chosen in itertools.product(*vary.values())]
        every = [{"seed": seed + i, **fields} for fields in combinations for i in range(seeds)]
        self.members = [dict(member) for member in members] or every
        if len({frozenset(member) for member in self.members}) > 1 or "seed" not in self.members[0]:
            raise ValueError(
                f"{name}: members have {[sorted(member) for member in self.members]}; all must have one set "
                "of fields, and a seed"
            )
        for member in self.members:  # It raises ValueError for values that the config doesn't allow.
            replaced(config, {field: value for field, value in member.items() if field != "seed"})

        def fuse(setup: Setup) -> FusedLearner:
            return population(setup, make, config, self.members)

        self.make, self.config, self.env = make, config, env
        super().__init__(name, agent, env, monitor, seed=seed, fuse=fuse, **settings)

    @property
    def initial_state(self) -> Nest:
        """The learner state of all members before the first update."""
        return jax.jit(self._fused.begin)()
