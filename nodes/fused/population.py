"""Many learners at once, each with its own seed and hyper-parameters: the fused program of one under one more `vmap`.

A member's hyper-parameters are part of its learner state: checkpoints hold them, and they may be changed between rounds
without a compile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.agents.base import Agent, MakeAgent, Nest
from boonta.agents.config import with_values
from boonta.agents.meta import NEEDS_VALUE, inputs_behind
from boonta.nodes.acting.outputs import OutputError
from boonta.nodes.fused import fusion, stage
from boonta.nodes.fused.learners import EvaluationResult, FusedLearner, Metrics, Row, Setup, may_loop, play, streams
from boonta.nodes.hosts.placement import make_mesh
from boonta.nodes.watch.history import norms
from boonta.nodes.watch.means import EPISODE, EVAL_EPISODE

Values = dict[str, jax.Array]  # Hyper-parameters by field of the config, float32 [], or [members] of a population.


class Member(NamedTuple):
    """A member's learner state; a population's state has a leading axis [members].

    Attributes:
      values: its hyper-parameters.
      learner: the state of the agent's update, as if the member were alone.
    """

    values: Values
    learner: Nest


def population(setup: Setup, make: MakeAgent, config: Any, members: Sequence[Mapping[str, float]]) -> FusedLearner:
    """Fuses a population: members are split over the devices, each whole on one.

    Args:
      setup: each member's setup; all share its seed and its agent's tables.
      make: makes an agent from a config.
      config: hyper-parameters that all members share.
      members: a row for each: its "seed", and its values of the fields that differ.

    Raises:
      ValueError: there are too few devices, or members don't divide over them; or a field can't differ between members,
        because the program's shape depends on it or nothing does.
    """
    size, hosts = len(members), jax.process_count()
    devices = len(jax.devices()) if setup.devices is None else setup.devices * hosts
    if 1 <= devices <= len(jax.devices()) and size % devices:
        raise ValueError(f"{setup.name}: members are {size}; they must divide over {devices} devices")
    mesh = make_mesh(setup.devices, size)
    fields = [field for field in members[0] if field != "seed"]
    values = {field: jnp.array([member[field] for member in members], jnp.float32) for field in fields}
    keys = [streams(int(member["seed"])) for member in members]
    learner_keys, run_keys, eval_keys = jnp.stack(keys, axis=1)  # [members, 2] each
    in_loop = may_loop(setup, mesh)
    one = _Member(setup, make, config, in_loop)
    for field in fields:
        _require_traced(one, setup, field)
    spread = NamedSharding(mesh, PartitionSpec("batch"))  # [members, ...]
    return FusedLearner(
        mesh=mesh,
        in_loop=in_loop,
        program=one.program(size),
        begin=lambda: jax.vmap(one.begin)(values, learner_keys),
        run_key=run_keys,
        eval_key=eval_keys,
        evaluate=jax.vmap(one.evaluate, in_axes=(0, None, 0)),
        place=lambda shapes: jax.tree.map(lambda _: spread, shapes),
        place_learner=spread,
        summarise=lambda metrics, updates: _summarise(metrics, [each["seed"] for each in members], updates),
        member_rows=lambda *evaluated: _rows(members, *evaluated),
        best=_Best(setup.agent, mesh),
        names=[f"member {i} (seed {member['seed']:g})" for i, member in enumerate(members)],
    )


class _Member:
    """Pure functions of one member; its values may be traced."""

    def __init__(self, setup: Setup, make: MakeAgent, config: Any, in_loop: bool):
        self._setup = setup
        self._make, self._config = make, config
        self._unrolled = not in_loop

    def begin(self, values: Values, key: jax.Array) -> Member:
        return Member(values, self._agent(values).update.init(key))

    def init(self, member: Member, version: jax.Array, key: jax.Array) -> tuple[fusion.State, stage.Episodes]:
        key = jax.random.fold_in(key, version)
        state, episodes = self._fuse(member.values).init(member.learner, version, key)
        return state._replace(learner=member._replace(learner=state.learner)), episodes

    def round(self, state: fusion.State) -> tuple[fusion.State, fusion.RoundResult]:
        return self._lift(lambda fused, alone: fused.round(alone), state)

    def rounds(self, state: fusion.State, number: jax.Array) -> tuple[fusion.State, fusion.RoundResult]:
        return self._lift(lambda fused, alone: fused.rounds(alone, number), state)

    def evaluate(self, member: Member, version: jax.Array, key: jax.Array) -> EvaluationResult:
        agent = self._agent(member.values)
        return EvaluationResult(play(self._setup, agent, member.learner, version, key), member.values)

    def program(self, size: int) -> fusion.Fusion:
        """The program of `size` members; updates are counted for each member, all else over all."""
        fused = self._fuse({})
        return fused._replace(
            init=jax.vmap(self.init, in_axes=(0, None, 0)),
            round=jax.vmap(self.round),
            rounds=jax.vmap(self.rounds, in_axes=(0, None)),
            env_steps=size * fused.env_steps,
            first_steps=size * fused.first_steps,
            renewed=size * fused.renewed,
            first_renewed=size * fused.first_renewed,
        )

    def _lift(self, call: Callable[..., Any], state: fusion.State) -> tuple[fusion.State, fusion.RoundResult]:
        """Runs a function of one fused learner on its part of a member's state."""
        member = state.learner
        alone, outcome = call(self._fuse(member.values), state._replace(learner=member.learner))
        return alone._replace(learner=member._replace(learner=alone.learner)), outcome

    def _agent(self, values: Values) -> Agent:
        return self._make(with_values(self._config, values))

    def _fuse(self, values: Values) -> fusion.Fusion:
        setup, agent = self._setup, self._agent(values)
        return fusion.fuse(agent, setup.env, setup.num_envs, num_replayed=setup.num_replayed, unrolled=self._unrolled)


def _summarise(metrics: Metrics, seeds: Sequence[float], updates: int) -> dict[str, float]:
    """Means over the members that have not diverged, and the number of those that have."""
    sound = np.isfinite(_loss(metrics, len(seeds)))
    for name in norms(metrics, "update_norm"):  # As `require_finite` has it.
        sound &= np.isfinite(metrics[name])
    _require_any(sound, updates)
    means = {name: _mean(name, values[sound]) for name, values in metrics.items()}
    if "eval_return_se" in metrics:
        means["eval_return_se"] = _error_of_mean(metrics["eval_return_se"][sound], np.asarray(seeds)[sound])
    return {**means, "diverged": float(np.sum(~sound)), "members": float(len(seeds))}


def _mean(name: str, values: np.ndarray) -> float:
    """A metric's mean over members, except those that lack it because all of their episodes were cut."""
    if name.startswith(EVAL_EPISODE) and not np.isnan(values).all():
        values = values[~np.isnan(values)]
    return float(np.mean(values, dtype=np.float64))


def _error_of_mean(errors: np.ndarray, seeds: np.ndarray) -> float:
    """The standard error of a mean over members, from each one's.

    Members of one seed are evaluated on the same episodes, so that their errors add up; those of several seeds are
    independent.
    """
    of_seed = np.bincount(np.unique(seeds, return_inverse=True)[1], errors)
    return float(np.linalg.norm(of_seed) / len(errors))


def _rows(
    members: Sequence[Mapping[str, float]],
    evaluation: EvaluationResult,
    metrics: Metrics,
    episodes: stage.Episodes,
    updates: int,
) -> list[Row]:
    """The metrics of each member; the loss of a diverged one is not finite."""
    rows, loss = [], _loss(metrics, len(members))
    for i, member in enumerate(members):
        # In the order in which the fields were given; the state's own order is alphabetical.
        values = {field: _decimal(evaluation.values[field][i]) for field in member if field in evaluation.values}
        row = {"member": i, "seed": member["seed"], **values, "updates": updates, "loss": float(loss[i])}
        if episodes.number[i]:
            row["return"] = float(episodes.returns[i] / episodes.number[i])
            row |= {EPISODE + name: float(sums[i] / episodes.number[i]) for name, sums in episodes.metrics.items()}
        rows.append({**row, **{name: float(numbers[i]) for name, numbers in evaluation.metrics.items()}})
    return rows


class _Best:
    """`(population, metrics, rows) -> (member, its learner state)`: the member with the best last evaluation.

    It is among those that have not diverged then or since. Each of several hosts has some of the members, so all make
    this call together.
    """

    def __init__(self, agent: Agent, mesh: Mesh):
        def sound(learner: Nest) -> jax.Array:
            params = jax.tree.leaves(agent.update.params(learner))  # [members, ...]
            return jnp.stack([jnp.isfinite(leaf).reshape(leaf.shape[0], -1).all(axis=1) for leaf in params]).all(axis=0)

        everywhere = NamedSharding(mesh, PartitionSpec())
        self._sound = jax.jit(sound, out_shardings=everywhere)
        self._state = jax.jit(lambda learner, i: jax.tree.map(lambda leaf: leaf[i], learner), out_shardings=everywhere)

    def __call__(self, population: Member, metrics: Metrics, rows: Sequence[Row]) -> tuple[int, Nest]:
        sound = np.isfinite(_loss(metrics, len(rows))) & np.asarray(self._sound(population.learner))
        _require_any(sound, int(rows[0]["updates"]))
        returns = np.array([row["eval_return"] for row in rows])
        best = int(np.argmax(np.where(sound & np.isfinite(returns), returns, -np.inf)))
        state = self._state(population.learner, np.int32(best))
        return best, jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), state)


def _loss(metrics: Metrics, size: int) -> np.ndarray:
    return metrics.get("loss", np.zeros(size))


def _require_any(sound: np.ndarray, updates: int) -> None:
    if not sound.any():
        raise FloatingPointError(
            f"all {len(sound)} members have diverged after {updates:,} updates: lower their learning rates"
        )


def _decimal(value: np.ndarray) -> float:
    """The shortest decimal number that a float32 stands for: 0.1 rather than 0.10000000149."""
    return float(str(np.float32(value)))


def _require_traced(one: _Member, setup: Setup, field: str) -> None:
    """Refuses a field if the program's shape depends on it, or nothing does. The program is only traced for this."""

    def trace(value: jax.Array) -> Any:
        key = jax.random.PRNGKey(0)
        state, _ = one.init(one.begin({field: value}, key), jnp.int32(0), key)
        evaluation = one.evaluate(state.learner, jnp.int32(0), key).metrics if setup.evaluates else ()
        state, _ = one.round(state)
        return state._replace(learner=state.learner.learner), evaluation  # The value itself is left out.

    try:
        traced = jax.make_jaxpr(trace)(jax.ShapeDtypeStruct((), jnp.float32))
    except OutputError:
        raise  # No field is its cause.
    except NEEDS_VALUE as error:
        raise ValueError(
            f"{setup.name}: {field} can't vary within a population: the program needs its value before it is compiled "
            "(a shape, a number of steps or a choice); run a program for each value"
        ) from error
    if traced.jaxpr.invars[0] not in inputs_behind(traced.jaxpr, traced.jaxpr.outvars):
        raise ValueError(
            f"{setup.name}: {field} has no effect with these settings: members that differ in it would be equal"
        )
