"""Environment, policy and update as one program: rounds of acting and learning that stay on the device.

See "Podracer architectures for scalable Reinforcement Learning" (https://arxiv.org/abs/2104.06272), "Online Learning
with Anakin". These are pure functions over one state; `nodes.anakin` compiles them over a mesh, `nodes.population` for
many learners at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents.base import Agent, Batch, Nest, Steps, Table
from boonta.envs.jax.base import JaxEnv
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.actor import NUM_ENVS
from boonta.nodes.fused import stage
from boonta.nodes.fused.nans import at_start, joined
from boonta.nodes.fused.schedule import Schedule, make_schedule
from boonta.nodes.fused.tables import first_renewals, first_rows, make_tables
from boonta.nodes.learning.loops import in_turn, require_few
from boonta.nodes.learning.outputs import checked_update
from boonta.nodes.learning.step import allowed_lag, policy_lag, priority_metrics
from boonta.nodes.tables import contract


class State(NamedTuple):
    """The whole state of a fused program.

    Attributes:
      learner: the learner state, the same as a cluster's learner and checkpoints have.
      stage: the state of environments and policy.
      kept: raw steps [rows, B, ...] that the next sequences begin with; a queue's sequences overlap.
      replay: the states of replay tables, by the kind of node that would fill them; none for a queue.
      key: PRNG key for draws from replay tables, and for renewals.
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
      renewed: sequences that are renewed per round, as reanalyzers would.
      first_renewed: sequences that `init` renews.
    """

    init: Callable[[Nest, jax.Array, jax.Array], tuple[State, stage.Episodes]]
    round: Callable[[State], tuple[State, RoundResult]]
    rounds: Callable[[State, jax.Array], tuple[State, RoundResult]]
    updates: int
    env_steps: int
    first_steps: int
    renewed: int = 0
    first_renewed: int = 0


def fuse(
    agent: Agent,
    env: JaxEnv,
    num_envs: int,
    *,
    num_replayed: int = NUM_ENVS,
    devices: int = 1,
    constrain: Callable[[Batch], Batch] = lambda batch: batch,
    unrolled: bool = False,
) -> Fusion:
    """Fuses an agent with a JAX environment.

    A round keeps the table's contract. With a queue, each slot acts for a period, which completes a sequence that
    begins with the rows kept from before, and each sequence is learned from once: update i of the round takes slots
    `i, i + m, i + 2m, …` of the `m * batch_size`. With replay tables, each slot inserts a sequence per rollout, and
    the numbers of rollouts and updates are such that each sequence is drawn `samples_per_insert` times on average.

    Where reanalyzers would fill a table, the program does: between updates it draws sequences of the table that they
    would read, plays them back to the policy with the newest params, and inserts them, as often as the table's ratio
    asks for.

    Args:
      agent: an agent with one queue, or with replay tables.
      env: the environment of a slot.
      num_envs: B, the number of slots.
      num_replayed: most sequences that are replayed at once, see `make_schedule`.
      devices: devices over which sequences that are renewed must divide.
      constrain: may lay a batch over devices.
      unrolled: whether a round makes its updates and renewals without a loop: inside of one, XLA on CPU computes the
        gradient of convolutions 10 to 30 times slower. They are few, see `require_few`, because each one is compiled.

    Raises:
      ValueError: the device can't keep this table; the message names the field, its value and what it must be.
    """
    schedule = make_schedule(agent.tables, num_envs, num_replayed, devices)
    table = contract.learned_from(agent.tables)[0]
    if unrolled:
        sizes = f"num_envs is {num_envs}, batch_size {table.batch_size}, samples_per_insert {table.samples_per_insert}"
        compiled = schedule.updates + schedule.renewals
        works = "updates and renewals" if schedule.renewals else "updates"
        require_few(compiled, f"{sizes}: that makes {compiled} {works} a round")
    learn = _make_learn(agent, constrain)
    turns = functools.partial(in_turn, unrolled=unrolled)
    if table.kind == "queue":
        first, fill, round = _queue(agent, env, table, schedule.updates, learn, turns)
    else:
        first, fill, round = _replay(agent, env, num_envs, schedule, constrain, learn, turns)

    def init(learner: Nest, version: jax.Array, key: jax.Array) -> tuple[State, stage.Episodes]:
        key, stage_key = jax.random.split(key)
        begun = stage.begin(env, agent.policy, num_envs, stage_key)
        state, episodes = fill(State(learner, begun, (), {}, key, jnp.asarray(version, jnp.int32)))
        return state, episodes._replace(nans=joined(at_start(begun.timestep), episodes.nans))

    return Fusion(
        init=init,
        round=round,
        rounds=_repeat(round),
        updates=schedule.updates,
        env_steps=schedule.rollouts * schedule.period * num_envs,
        first_steps=first * num_envs,
        renewed=schedule.renewed * schedule.renewals,
        first_renewed=schedule.renewed * first_renewals(agent.tables, schedule),
    )


Learn = Callable[[Nest, jax.Array, Batch], tuple[Nest, Any, dict[str, jax.Array]]]
Turns = Callable[[Callable, State, Nest, int], tuple[State, dict[str, jax.Array]]]  # Metrics are [updates].


def _make_learn(agent: Agent, constrain: Callable[[Batch], Batch]) -> Learn:
    """The agent's update with the metrics that a cluster's learner adds."""
    allowed = {name: jnp.float32(value) for name, value in allowed_lag(agent.tables).items()}
    tables = contract.learned_from(agent.tables)

    def learn(learner: Nest, updates: jax.Array, batch: Batch) -> tuple[Nest, Any, dict[str, jax.Array]]:
        batch = constrain(batch)
        learner, priorities, metrics = checked_update(agent.update, learner, batch, tables)
        return learner, priorities, metrics | policy_lag(updates, batch.steps.version[tables[0].core_row :]) | allowed

    return learn


def _queue(agent: Agent, env: JaxEnv, table: Table, updates: int, learn: Learn, turns: Turns) -> tuple[int, Any, Any]:
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

        state, metrics = turns(one, state, batches, updates)
        return state, RoundResult(_last(metrics), episodes)

    return overlap, fill, round


def _replay(
    agent: Agent,
    env: JaxEnv,
    num_envs: int,
    schedule: Schedule,
    constrain: Callable[[Batch], Batch],
    learn: Learn,
    turns: Turns,
) -> tuple[int, Any, Any]:
    """The same for a program with replay tables."""
    tables = make_tables(agent.tables, num_envs, schedule)
    # Rollouts until the actors' tables may be sampled.
    first = -(-first_rows(agent.tables, num_envs) // schedule.period)

    def insert_many(state: State, number: int) -> tuple[State, stage.Episodes]:
        def one(carry: tuple[State, stage.Episodes], _: None) -> tuple[tuple[State, stage.Episodes], None]:
            state, before = carry
            state, episodes = _act(agent, env, state, schedule.period)
            state = state._replace(replay=tables.add(state.replay, "actor", state.kept), kept=())
            return (state, stage.total(before, episodes)), None

        none = _nothing(lambda state: _act(agent, env, state, schedule.period), state)
        return jax.lax.scan(one, (state, none), None, length=number)[0]

    def renew(state: State, _: None = None) -> tuple[State, None]:
        """Renews sequences of the past with the newest params; see `nodes.reanalyzer`."""
        key, draw_key, act_key = jax.random.split(state.key, 3)
        past = tables.recall(state.replay, draw_key)
        past = constrain(Batch(steps=past, probability=jnp.ones(schedule.renewed))).steps
        params = agent.update.params(state.learner)
        steps = stage.play_back(agent.policy, params, state.updates, past, act_key)
        return state._replace(replay=tables.add(state.replay, "reanalyzer", steps), key=key), None

    def fill(state: State) -> tuple[State, stage.Episodes]:
        row = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), step_shapes(agent, env.spec))
        state, episodes = insert_many(state._replace(replay=tables.init(row)), first)
        if schedule.renewed:
            state, _ = jax.lax.scan(renew, state, None, length=first_renewals(agent.tables, schedule))
        return state, episodes

    def update(state: State, _: None) -> tuple[State, dict[str, jax.Array]]:
        key, sample_key = jax.random.split(state.key)
        batch, places = tables.draw(state.replay, sample_key)
        learner, priorities, metrics = learn(state.learner, state.updates, batch)
        metrics |= tables.origin(state.updates, batch)
        replay = state.replay
        if priorities is not None:
            replay = tables.prioritise(replay, places, priorities)
            metrics |= priority_metrics(priorities)
        return state._replace(learner=learner, replay=replay, key=key, updates=state.updates + 1), metrics

    def turn(state: State, _: None) -> tuple[State, dict[str, jax.Array]]:
        if schedule.renewed:
            state, _ = renew(state)
        state, metrics = turns(update, state, None, schedule.every)
        return state, _last(metrics)

    def round(state: State) -> tuple[State, RoundResult]:
        state, episodes = insert_many(state, schedule.rollouts)
        state, metrics = turns(turn, state, None, schedule.updates // schedule.every)
        return state, RoundResult(_last(metrics), episodes)

    return first * schedule.period, fill, round


def _act(agent: Agent, env: JaxEnv, state: State, rows: int) -> tuple[State, stage.Episodes]:
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
            return state, RoundResult(outcome.metrics, stage.total(before.episodes, outcome.episodes))

        return jax.lax.fori_loop(0, number, one, (state, _nothing(round, state)))

    return rounds


def _nothing(call: Callable[[State], tuple[State, Any]], state: State) -> Any:
    """Zeros like what a call returns besides the state."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(call, state)[1])
