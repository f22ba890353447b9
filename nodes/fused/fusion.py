"""Environment, policy and update as one program: rounds of acting and learning that stay on the device.

See "Podracer architectures for scalable Reinforcement Learning" (https://arxiv.org/abs/2104.06272), "Online Learning
with Anakin". These are pure functions over one state; `nodes.anakin` compiles them over a mesh, `nodes.population` for
many learners at once.
"""

from __future__ import annotations

import fractions
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents.base import Agent, Batch, Nest, Steps, Table
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.fused import stage
from boonta.nodes.fused.updates import allowed_lag, looped, one_by_one, policy_lag, priority_metrics, require_few
from boonta.nodes.tables import contract
from boonta.nodes.tables.device import make_device_table
from boonta.nodes.tables.freshness import require_slots

MOST_ROLLOUTS = 64  # Rollouts in a round; a ratio of samples to inserts that needs more is refused.


class State(NamedTuple):
    """The whole state of a fused program.

    Attributes:
      learner: the learner state, the same as a cluster's learner and checkpoints have.
      stage: the state of environments and policy.
      kept: raw steps [rows, B, ...] that the next sequences begin with; a queue's sequences overlap.
      replay: the state of a replay table; () for a queue.
      key: PRNG key for draws from the replay table.
      updates: int32 [], the number of updates so far, which is the version of the params.
    """

    learner: Nest
    stage: stage.Stage
    kept: Nest
    replay: Nest
    key: jax.Array
    updates: jax.Array


class RoundResult(NamedTuple):
    """The results of some rounds, for the host.

    Attributes:
      metrics: scalars of the last update, by name.
      episodes: sums over the episodes that ended.
    """

    metrics: dict[str, jax.Array]
    episodes: stage.Episodes


class Fusion(NamedTuple):
    """A fused program, not yet compiled.

    Attributes:
      init: `(learner state, number of updates before, key) -> (state, episodes)`: starts the environments, and fills a
        replay table up to its minimum.
      round: `(state) -> (state, outcome)`: rollouts of one period, then updates.
      rounds: `(state, number) -> (state, outcome)`: many rounds; their number may change without a compilation.
      updates: updates per round.
      env_steps: env steps per round, over all slots.
      first_steps: env steps that `init` takes.
    """

    init: Callable[[Nest, jax.Array, jax.Array], tuple[State, stage.Episodes]]
    round: Callable[[State], tuple[State, RoundResult]]
    rounds: Callable[[State, jax.Array], tuple[State, RoundResult]]
    updates: int
    env_steps: int
    first_steps: int


def fuse(
    agent: Agent,
    env: Any,
    num_envs: int,
    *,
    constrain: Callable[[Batch], Batch] = lambda batch: batch,
    unrolled: bool = False,
) -> Fusion:
    """Fuses an agent with a JAX environment.

    A round keeps the table's contract. With a queue, each slot acts for a period, which completes a sequence that
    begins with the rows kept from before, and each sequence is learned from once: update i of the round takes slots
    `i, i + m, i + 2m, …` of the `m * batch_size`. With a replay table, each slot inserts a sequence per rollout, and
    the numbers of rollouts and updates are such that each sequence is drawn `samples_per_insert` times on average.

    Args:
      agent: an agent with one table.
      env: a `JaxEnv`.
      num_envs: B, the number of slots.
      constrain: may lay a batch over devices.
      unrolled: whether a round makes its updates without a loop: inside of one, XLA on CPU computes the gradient of
        convolutions 10 to 30 times slower. They are few, see `require_few`, because each one is compiled.

    Raises:
      ValueError: the device can't keep this table; the message names the field, its value and what it must be.
    """
    (table,) = one_table(agent)
    rollouts, updates = ratio(table, num_envs)
    if unrolled:
        sizes = f"num_envs is {num_envs}, batch_size {table.batch_size}, samples_per_insert {table.samples_per_insert}"
        require_few(updates, f"{sizes}: that makes {updates} updates a round")
    learn = _make_learn(agent, constrain)
    in_turn = one_by_one if unrolled else looped
    if table.kind == "queue":
        first, fill, round = _queue(agent, env, table, updates, learn, in_turn)
    else:
        first, fill, round = _replay(agent, env, table, num_envs, rollouts, updates, learn, in_turn)

    def init(learner: Nest, version: jax.Array, key: jax.Array) -> tuple[State, stage.Episodes]:
        key, stage_key = jax.random.split(key)
        begun = stage.begin(env, agent.policy, num_envs, stage_key)
        return fill(State(learner, begun, (), (), key, jnp.asarray(version, jnp.int32)))

    return Fusion(
        init=init,
        round=round,
        rounds=_repeat(round),
        updates=updates,
        env_steps=rollouts * table.period * num_envs,
        first_steps=first * num_envs,
    )


def one_table(agent: Agent) -> tuple[Table]:
    """The agent's tables, of which there must be one.

    Raises:
      ValueError: there are more; a fused program doesn't have the nodes that fill the others.
    """
    if len(agent.tables) != 1:
        names = [table.name for table in agent.tables]
        raise ValueError(f"the agent has tables {names}; a fused program takes an agent with one")
    return agent.tables


def ratio(table: Table, num_envs: int) -> tuple[int, int]:
    """The number of rollouts of one period in a round, and of updates after them.

    A program that acts and learns in turn needs a definite number even of a table whose `samples_per_insert` is None;
    see `nodes.tables.contract.definite_samples_per_insert`.

    Raises:
      ValueError: the slots' sequences don't make whole batches, or no small round has the table's ratio.
    """
    size = table.batch_size
    if table.kind == "queue":
        if num_envs % size:
            raise ValueError(f"num_envs is {num_envs}; it must be a multiple of batch_size, {size}")
        require_slots("a fused program", table, num_envs)
        return 1, num_envs // size
    per_insert = contract.definite_samples_per_insert(table)
    wanted = per_insert * num_envs / size  # Updates per rollout.
    exact = fractions.Fraction(wanted).limit_denominator(MOST_ROLLOUTS)
    if not math.isclose(exact, wanted, rel_tol=1e-3):
        raise ValueError(
            f"samples_per_insert is {per_insert}, num_envs {num_envs}, batch_size {size}: that makes {wanted:g} "
            f"updates a rollout; it must be a fraction over at most {MOST_ROLLOUTS}, and not 0: take a larger "
            "num_envs, or one that divides batch_size"
        )
    return exact.denominator, exact.numerator


Learn = Callable[[Nest, jax.Array, Batch], tuple[Nest, Any, dict[str, jax.Array]]]
InTurn = Callable[[Callable, State, Nest, int], tuple[State, dict[str, jax.Array]]]  # Metrics are [updates].


def _make_learn(agent: Agent, constrain: Callable[[Batch], Batch]) -> Learn:
    """The agent's update with the metrics that a cluster's learner adds."""
    core_row = agent.tables[0].core_row
    allowed = {name: jnp.float32(value) for name, value in allowed_lag(agent.tables).items()}

    def learn(learner: Nest, updates: jax.Array, batch: Batch) -> tuple[Nest, Any, dict[str, jax.Array]]:
        batch = constrain(batch)
        learner, priorities, metrics = agent.update.step(learner, batch)
        return learner, priorities, metrics | policy_lag(updates, batch.steps.version[core_row:]) | allowed

    return learn


def _queue(agent: Agent, env: Any, table: Table, updates: int, learn: Learn, in_turn: InTurn) -> tuple[int, Any, Any]:
    """The number of rows that fill the queue first, and the functions `fill` and `round` of a program with a queue."""
    overlap = contract.overlap(table)

    def fill(state: State) -> tuple[State, stage.Episodes]:
        return _act(agent, env, state, overlap)

    def round(state: State) -> tuple[State, RoundResult]:
        state, episodes = _act(agent, env, state, table.period)
        block = state.kept  # [overlap + period, B, ...]
        sequences = jax.tree.map(lambda x: x[: table.sequence_length], block)
        sequences = contract.with_one_core(table, sequences)
        batches = jax.tree.map(lambda x: _split(x, updates), sequences)  # [m, T, N, ...]
        state = state._replace(kept=jax.tree.map(lambda x: x[contract.first_row(table, 1) :], block))

        def one(state: State, steps: Steps) -> tuple[State, dict[str, jax.Array]]:
            batch = Batch(steps=steps, probability=jnp.ones(table.batch_size))
            learner, _, metrics = learn(state.learner, state.updates, batch)
            return state._replace(learner=learner, updates=state.updates + 1), metrics

        state, metrics = in_turn(one, state, batches, updates)
        return state, RoundResult(_last(metrics), episodes)

    return overlap, fill, round


def _replay(
    agent: Agent, env: Any, table: Table, num_envs: int, rollouts: int, updates: int, learn: Learn, in_turn: InTurn
) -> tuple[int, Any, Any]:
    """The same for a program with a replay table."""
    replay = make_device_table(table, num_envs)
    rows = contract.rows_of(table, -(-table.min_size // num_envs))
    first = -(-rows // table.period)  # Rollouts until the table may be sampled.

    def insert_many(state: State, number: int) -> tuple[State, stage.Episodes]:
        def one(state: State, _: None) -> tuple[State, stage.Episodes]:
            state, episodes = _act(agent, env, state, table.period)
            return state._replace(replay=replay.add(state.replay, state.kept), kept=()), episodes

        state, episodes = jax.lax.scan(one, state, None, length=number)
        return state, jax.tree.map(jnp.sum, episodes)

    def fill(state: State) -> tuple[State, stage.Episodes]:
        row = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), step_shapes(agent, env.spec))
        return insert_many(state._replace(replay=replay.init(row)), first)

    def round(state: State) -> tuple[State, RoundResult]:
        state, episodes = insert_many(state, rollouts)

        def one(state: State, _: None) -> tuple[State, dict[str, jax.Array]]:
            key, sample_key = jax.random.split(state.key)
            drawn = replay.sample(state.replay, sample_key)
            batch = Batch(steps=drawn.steps, probability=drawn.probability)
            learner, priorities, metrics = learn(state.learner, state.updates, batch)
            table_state = state.replay
            if priorities is not None:
                table_state = replay.prioritise(table_state, drawn.indices, priorities)
                metrics |= priority_metrics(priorities)
            return state._replace(learner=learner, replay=table_state, key=key, updates=state.updates + 1), metrics

        state, metrics = in_turn(one, state, None, updates)
        return state, RoundResult(_last(metrics), episodes)

    return first * table.period, fill, round


def _act(agent: Agent, env: Any, state: State, rows: int) -> tuple[State, stage.Episodes]:
    """Plays `rows` steps with the newest params, and appends them to those kept."""
    params = agent.update.params(state.learner)
    begun, steps, episodes = stage.act(env, agent.policy, params, state.updates, state.stage, rows)
    if state.kept != ():
        steps = jax.tree.map(lambda old, new: jnp.concatenate([old, new]), state.kept, steps)
    return state._replace(stage=begun, kept=steps), episodes


def _split(x: jax.Array, parts: int) -> jax.Array:
    """Deals the slots to updates, so that each gets its share of every device: [T, N*m, ...] -> [m, T, N, ...]."""
    return jnp.moveaxis(x.reshape(x.shape[0], x.shape[1] // parts, parts, *x.shape[2:]), 2, 0)


def _last(metrics: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """The metrics of the last update: [updates] -> []."""
    return jax.tree.map(lambda x: x[-1], metrics)


def _repeat(
    round: Callable[[State], tuple[State, RoundResult]],
) -> Callable[[State, jax.Array], tuple[State, RoundResult]]:
    """A function that makes many rounds; their number is traced, so that it may change without a compilation."""

    def rounds(state: State, number: jax.Array) -> tuple[State, RoundResult]:
        def one(_: jax.Array, carry: tuple[State, RoundResult]) -> tuple[State, RoundResult]:
            state, before = carry
            state, outcome = round(state)
            return state, RoundResult(outcome.metrics, jax.tree.map(jnp.add, before.episodes, outcome.episodes))

        shapes = jax.eval_shape(round, state)[1]
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.fori_loop(0, number, one, (state, nothing))

    return rounds
