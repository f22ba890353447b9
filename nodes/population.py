"""Populations: many learners at once, each with its own seed and hyper-parameters, in one compiled program."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.agents.base import Agent, MakeAgent
from boonta.agents.config import replaced, with_values
from boonta.nodes import metrics
from boonta.nodes.anakin import Anakin, Pending, streams
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.fused import fusion, stage
from boonta.nodes.learner import make_mesh

Values = dict[str, jax.Array]  # by field: [members], or [] within a member's program


class Population(Anakin):
    """Trains an agent for every combination of seeds and hyper-parameters: Anakin's program under one more `vmap`.

    Members share nothing but the program; they are split over the devices, each whole on one. A member learns what
    Anakin with its seed and hyper-parameters would, up to float error. Each evaluation adds a row per member to
    `members.jsonl` in the run's folder. The state of all members is kept in `members/`; at the end the best one's goes
    to `checkpoints/`, for `programs.tools.play` and for others to go on from.

    A member whose loss is no longer finite has diverged. The others go on, until none is left: metrics, but for those
    of episodes played, are means over the others, "diverged" counts, and the best one is never one of those.

    Args:
      make: makes an agent of a config.
      config: hyper-parameters that all members share.
      vary: those that differ, numbers by field; members take all combinations.
      seeds: of each combination, counted from `seed`.
      others: see `Anakin`; `num_envs` are each member's, env steps are counted over all, updates of one.

    Raises:
      ValueError: as `Anakin`; or a field can't vary, for the program's shape depends on it or nothing does, or its
        values are none.
    """

    _learner_axes = PartitionSpec("batch")  # members over devices

    def __init__(
        self,
        name: str,
        agent: Agent,
        env: Any,
        monitor: Any = None,
        *,
        make: MakeAgent,
        config: Any,
        vary: Mapping[str, Sequence[float]],
        seeds: int = 1,
        seed: int = 0,
        **settings: Any,
    ):
        if seeds < 1 or seed < 0:
            raise ValueError(f"{name}: seeds is {seeds}, seed {seed}; they must be at least 1 and 0")
        for field, numbers in vary.items():
            if not numbers or not all(map(math.isfinite, numbers)) or len(set(numbers)) < len(numbers):
                raise ValueError(
                    f"{name}: {field} is to vary over {numbers}; it must be finite numbers, none of them twice"
                )
        combinations = [dict(zip(vary, chosen)) for chosen in itertools.product(*vary.values())]
        for fields in combinations:
            replaced(config, fields)  # raises the ValueError of settings that can't be
        self.members = [{"seed": seed + i, **fields} for fields in combinations for i in range(seeds)]
        self._make, self._config = make, config
        self._values = {field: jnp.array([member[field] for member in self.members], jnp.float32) for field in vary}
        keys = [streams(int(member["seed"])) for member in self.members]
        self._learner_keys, self._run_keys, _ = jnp.stack(keys, axis=1)  # [members, ...] each
        super().__init__(name, agent, env, monitor, seed=seed, **settings)
        for field in vary:
            self._require_traced(field)
        self._members_folder = self._folder.parent / "members"
        self._best_folder, self._folder = self._folder, self._members_folder
        self._last: list[dict[str, float]] = []

    def start(self) -> None:
        super().start()
        self._rows = metrics.Rows(self._members_folder.parent / metrics.MEMBERS)

    def close(self) -> None:
        super().close()
        if self._last and not self.failed:
            best = self._best()
            learner = jax.tree.map(lambda x: np.asarray(x[best]), self._state.learner)
            Checkpointer(self._best_folder).save(self._updates, jax.tree.map(jnp.asarray, learner), self._counters())
        if hasattr(self, "_rows"):
            self._rows.close()

    def _best(self) -> int:
        """The member whose last evaluation was the best, of those that have not diverged, then or since."""
        params = jax.tree.leaves(self._agent.update.params(self._state.learner))  # [members, ...]
        sound = np.isfinite(self._loss)
        for leaf in params:
            sound &= np.asarray(jnp.isfinite(leaf).reshape(len(self.members), -1).all(axis=1))
        if not sound.any():
            raise FloatingPointError(self._all_diverged(self._updates))
        returns = np.array([row["eval_return"] for row in self._last])
        return int(np.argmax(np.where(sound, returns, -np.inf)))

    # What differs from Anakin.

    def _make_mesh(self, devices: int | None) -> Mesh:
        number = len(jax.devices()) if devices is None else devices
        if 1 <= number <= len(jax.devices()) and len(self.members) % number:
            raise ValueError(f"{self.name}: members are {len(self.members)}; they must divide over {number} devices")
        return make_mesh(devices, len(self.members))

    def _fuse(self) -> fusion.Fusion:
        one, values = self._fused({}), self._values

        def init(learner: Any, version: jax.Array, key: jax.Array) -> Any:
            del key  # each has its own

            def member(values: Values, run_key: jax.Array, learner: Any) -> Any:
                return self._fused(values).init(learner, version, jax.random.fold_in(run_key, version))

            return jax.vmap(member)(values, self._run_keys, learner)

        def round(state: fusion.State) -> Any:
            return jax.vmap(lambda values, state: self._fused(values).round(state))(values, state)

        def rounds(state: fusion.State, number: jax.Array) -> Any:
            return jax.vmap(lambda values, state: self._fused(values).rounds(state, number))(values, state)

        size = len(self.members)
        steps = {"env_steps": size * one.env_steps, "first_steps": size * one.first_steps}
        return one._replace(init=init, round=round, rounds=rounds, **steps)

    def _member(self, values: Values) -> Agent:
        """The agent of a member with these traced values."""
        return self._make(with_values(self._config, values))

    def _fused(self, values: Values) -> fusion.Fusion:
        return fusion.fuse(self._member(values), self._env, self._num_envs, unrolled=not self._in_loop)

    def _place(self, shapes: Any, mesh: Mesh) -> Any:
        return jax.tree.map(lambda _: NamedSharding(mesh, PartitionSpec("batch")), shapes)

    def _begin(self, key: jax.Array) -> Any:
        del key  # each has its own
        return jax.vmap(lambda values, key: self._member(values).update.init(key))(self._values, self._learner_keys)

    def _play(self, learner: Any, key: jax.Array) -> dict[str, jax.Array]:
        def one(values: Values, learner: Any) -> dict[str, jax.Array]:
            return self._evaluate(self._member(values), learner, key)  # all in the same episodes

        return jax.vmap(one)(self._values, learner)

    def _summary(self, measured: dict[str, Any], updates: int) -> dict[str, float]:
        self._loss = measured.get("loss", np.zeros(len(self.members)))
        sound = np.isfinite(self._loss)
        if not sound.any():
            raise FloatingPointError(self._all_diverged(updates))
        means = {name: float(np.mean(values[sound])) for name, values in measured.items()}
        return {**means, "diverged": float(np.sum(~sound))}

    def _all_diverged(self, updates: int) -> str:
        return f"all {len(self.members)} members have diverged after {updates:,} updates: lower their learning rates"

    def _take(self, pending: Pending, outcomes: list[fusion.Outcome], evaluation: dict[str, Any]) -> None:
        super()._take(pending, outcomes, evaluation)
        if not evaluation:
            return
        episodes = jax.tree.map(lambda *sums: sum(sums), *(outcome.episodes for outcome in outcomes))
        self._last = [self._row(i, pending, episodes, evaluation) for i in range(len(self.members))]
        for row in self._last:
            self._rows.write(row)

    def _row(self, i: int, pending: Pending, episodes: stage.Episodes, evaluation: dict[str, Any]) -> dict[str, float]:
        """What is known of a member; its loss is not finite if it has diverged."""
        row = {"member": i, **self.members[i], "updates": pending.updates, "loss": float(self._loss[i])}
        if episodes.number[i]:
            row["return"] = float(episodes.returns[i] / episodes.number[i])
        return {**row, **{name: float(values[i]) for name, values in evaluation.items()}}

    def _require_traced(self, field: str) -> None:
        """Refuses a field that the program's shape depends on, or nothing at all; traced, and nothing is compiled."""

        def trace(value: jax.Array) -> Any:
            member, fused = self._member({field: value}), self._fused({field: value})
            key = jax.random.PRNGKey(0)
            learner = member.update.init(key)
            state, _ = fused.round(fused.init(learner, jnp.int32(0), key)[0])
            return state, self._evaluate(member, learner, key) if self._eval_every else ()

        try:
            traced = jax.make_jaxpr(trace)(jax.ShapeDtypeStruct((), jnp.float32))
        except (TypeError, ValueError, jax.errors.JAXIndexError) as error:  # of a tracer where a number is needed
            raise ValueError(
                f"{self.name}: {field} can't vary within a population: the program needs its value before it is "
                "compiled (a shape, a number of steps or a choice); run a program for each value"
            ) from error
        if not _reaches(traced.jaxpr):
            raise ValueError(
                f"{self.name}: {field} has no effect with these settings: members that differ in it would be the same"
            )


def _reaches(jaxpr: Any) -> bool:
    """Whether the first argument of a traced program has a part in what it returns."""
    needed = {id(variable) for variable in jaxpr.outvars}
    for equation in reversed(jaxpr.eqns):
        if any(id(variable) in needed for variable in equation.outvars):
            needed.update(id(variable) for variable in equation.invars)
    return id(jaxpr.invars[0]) in needed
