"""The fused learner that the Anakin node runs: pure functions of a learner and its environments, and their placement.

`nodes.fused.population` makes the same for many learners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.agents.base import Agent, Batch, Nest, Slots
from boonta.envs.jax.base import JaxEnv
from boonta.envs.jax.purity import check_pure, where
from boonta.nodes.acting.local import evaluated_policy, step_shapes
from boonta.nodes.acting.outputs import OutputError, shown
from boonta.nodes.actor import NUM_ENVS
from boonta.nodes.fused import fusion, stage
from boonta.nodes.hosts.placement import batch_sharding, make_mesh
from boonta.nodes.learning.loops import convolves_on_cpu
from boonta.nodes.learning.step import batch_shapes, require_finite
from boonta.nodes.tables import contract
from boonta.nodes.watch.evaluation import Evaluation
from boonta.nodes.watch.stopping import StopRule

Row = dict[str, float]
Metrics = dict[str, Any]  # Arrays of scalars by name: [] for one learner, [members] for a population.


class Setup(NamedTuple):
    """The parts to fuse, and their settings.

    Attributes:
      name: the node's name, for messages.
      agent: an agent with one queue, or with replay tables.
      env: the environment of a slot.
      num_envs: B, environment slots of each learner.
      devices: how many of this process's devices to use; None takes all.
      seed: seed of the params, the environments, and all randomness.
      evaluation: how it is evaluated; each episode has a slot of its own.
      num_replayed: most sequences that are replayed at once, where reanalyzers would fill a table.
    """

    name: str
    agent: Agent
    env: JaxEnv
    num_envs: int
    devices: int | None = None
    seed: int = 0
    evaluation: Evaluation = Evaluation()
    num_replayed: int = NUM_ENVS

    @property
    def evaluates(self) -> bool:
        """Whether evaluations are made."""
        return self.evaluation.interval(fused=True)[1] > 0


class EvaluationResult(NamedTuple):
    """The result of an evaluation.

    Attributes:
      metrics: metrics of the episodes.
      values: the hyper-parameters that are part of the learner state, by field.
    """

    metrics: Metrics
    values: Metrics


class FusedLearner(NamedTuple):
    """One learner, or a population of them, fused with its environments and not yet compiled.

    Attributes:
      mesh: the mesh of devices.
      in_loop: whether many rounds are one program; otherwise the host dispatches them one by one, because the update
        computes gradients of convolutions on CPU.
      program: its `init` gets the updates so far and `run_key`.
      begin: `() -> learner state`, before the first update.
      run_key: PRNG key of environments, policy and replay; one for each learner.
      eval_key: PRNG key of evaluations; one for each learner.
      evaluate: `(learner state, updates so far, eval_key) -> evaluation`.
      place: `(shapes of the state) -> shardings`.
      place_learner: the sharding of the learner state.
      summarise: `(metrics, updates) -> scalars` that the monitor logs. It raises FloatingPointError if the loss of no
        learner is finite.
      member_rows: `(evaluation, metrics, episodes, updates) -> rows`, one for each member of a population.
      best: `(learner state, metrics, rows) -> (member, learner state)`, of a population the best member, from whose
        state other programs start; None for one learner, whose state itself they start from.
      names: what messages call each learner; empty for one that is alone.
    """

    mesh: Mesh
    in_loop: bool
    program: fusion.Fusion
    begin: Callable[[], Nest]
    run_key: jax.Array
    eval_key: jax.Array
    evaluate: Callable[[Nest, jax.Array, jax.Array], EvaluationResult]
    place: Callable[[fusion.State], fusion.State]
    place_learner: NamedSharding
    summarise: Callable[[Metrics, int], dict[str, float]]
    member_rows: Callable[[EvaluationResult, Metrics, stage.Episodes, int], list[Row]]
    best: Callable[[Nest, Metrics, Sequence[Row]], tuple[int, Nest]] | None
    names: Sequence[str] = ("",)

    @property
    def learners(self) -> int:
        """The number of learners."""
        return len(self.names)


def check_setup(setup: Setup, stop: StopRule) -> None:
    """Refuses what can't be fused, or evaluated.

    Args:
      setup: the parts and their settings.
      stop: the program's stop rule.

    Raises:
      ValueError: the environment is not pure, the agent is for another environment or lacks the policy to evaluate, or
        a setting can't work; the message names it, its value and what it must be.
    """
    name, env = setup.name, setup.env
    check_pure(env)
    if setup.num_envs < 1 or setup.num_replayed < 1:
        raise ValueError(
            f"{name}: num_envs is {setup.num_envs}, num_replayed {setup.num_replayed}; they must be at least 1"
        )
    games = setup.evaluation.episodes
    if setup.evaluates and env.spec.num_players == 2 and games % 2:
        raise ValueError(
            f"{name}: evaluation.episodes is {games}; it must be even, because half are played as either player"
        )
    for field in ("eval_return", "patience"):
        if getattr(stop, field) is not None and not setup.evaluates:
            raise ValueError(
                f"{name}: stop.{field} is {getattr(stop, field)}; evaluation.every_updates is 0, nothing measures it"
            )
    check_fits(setup.agent, env)
    evaluated_policy(setup.agent, setup.evaluation.deterministic)


def one_learner(setup: Setup) -> FusedLearner:
    """Fuses one agent: environment slots and batches are split over the devices, the learner is replicated.

    Raises:
      ValueError: there are too few devices, or slots and batches don't divide over them.
    """
    agent, num_envs = setup.agent, setup.num_envs
    mesh = make_mesh(setup.devices, contract.learned_from(agent.tables)[0].batch_size)
    if num_envs % mesh.size:
        raise ValueError(f"{setup.name}: num_envs is {num_envs}; it must divide over {mesh.size} devices")
    in_loop = may_loop(setup, mesh)
    fused = fusion.fuse(
        agent,
        setup.env,
        num_envs,
        num_replayed=setup.num_replayed,
        devices=mesh.size,
        constrain=batch_by_slot(mesh),
        unrolled=not in_loop,
    )
    learner_key, run_key, eval_key = streams(setup.seed)

    def init(learner: Nest, version: jax.Array, key: jax.Array) -> tuple[fusion.State, stage.Episodes]:
        return fused.init(learner, version, jax.random.fold_in(key, version))

    def summarise(metrics: Metrics, updates: int) -> dict[str, float]:
        require_finite(metrics, updates)
        return {name: float(value) for name, value in metrics.items()}

    return FusedLearner(
        mesh=mesh,
        in_loop=in_loop,
        program=fused._replace(init=init),
        begin=lambda: agent.update.init(learner_key),
        run_key=run_key,
        eval_key=eval_key,
        evaluate=lambda *evaluated: EvaluationResult(play(setup, agent, *evaluated), {}),
        place=lambda shapes: by_slot(shapes, mesh),
        place_learner=NamedSharding(mesh, PartitionSpec()),
        summarise=summarise,
        member_rows=lambda *evaluated: [],
        best=None,
    )


def play(setup: Setup, agent: Agent, learner: Nest, version: jax.Array, key: jax.Array) -> dict[str, jax.Array]:
    """Plays an evaluation's episodes with the params of one learner; see `stage.play`."""
    key, evaluation = jax.random.fold_in(key, version), setup.evaluation
    most_steps = evaluation.cut_after(setup.env.spec.num_players)
    policy, params = evaluated_policy(agent, evaluation.deterministic), agent.update.params(learner)
    return stage.play(setup.env, policy, params, evaluation.episodes, most_steps, key)


def streams(seed: int) -> jax.Array:
    """Keys [3] of a seed: for the learner; for environments, policy and replay; for evaluations.

    No two streams have a key in common. `split(key)[i]` is `fold_in(key, i)`, so if one stream splits a key, another
    must not fold into it: each stream gets a child of the seed's key, which itself is used by none.
    """
    return jax.random.split(jax.random.PRNGKey(seed), 3)


def may_loop(setup: Setup, mesh: Mesh) -> bool:
    """Whether rounds may run in a loop inside of the program on these devices."""
    agent = setup.agent
    learner, batch = jax.eval_shape(agent.update.init, jax.random.PRNGKey(0)), batch_shapes(agent, setup.env.spec)
    return not convolves_on_cpu(mesh.devices.flat[0].platform, agent.update, learner, batch)


def by_slot(shapes: fusion.State, mesh: Mesh) -> fusion.State:
    """The shardings of a fused program's state: leaves with a slot axis are split along it, the rest are replicated."""
    everywhere, slots, columns = (
        NamedSharding(mesh, PartitionSpec(*axes))
        for axes in ((), ("batch",), (None, "batch"))  # [], [B, …], [T, B, …]
    )
    place = jax.tree.map(lambda _: everywhere, shapes)
    spread = jax.tree.map(lambda _: slots, shapes.stage)
    replay = dict(place.replay)
    for writer, held in shapes.replay.items():
        spread_rows = jax.tree.map(lambda _: slots, held.buffer.experience)  # [B, time, …]
        buffer = replay[writer].buffer.replace(experience=spread_rows)
        replay[writer] = replay[writer]._replace(buffer=buffer, cores=jax.tree.map(lambda _: slots, held.cores))
    return place._replace(
        stage=spread._replace(key=everywhere), kept=jax.tree.map(lambda _: columns, shapes.kept), replay=replay
    )


def batch_by_slot(mesh: Mesh) -> Callable[[Batch], Batch]:
    """Lays a batch out as the learner does: its sequences are split over the mesh."""

    def constrain(batch: Batch) -> Batch:
        return jax.lax.with_sharding_constraint(batch, batch_sharding(mesh))

    return constrain


def check_fits(agent: Agent, env: JaxEnv) -> None:
    """Traces the agent's policy on the environment's observations.

    Args:
      agent: an agent, which doesn't keep the spec that it was made for.
      env: the environment of a slot.

    Raises:
      ValueError: the policy can't take the observations, its actions are not the environment's, or its step returns
        what no policy does; or another of the agent's parts fails, whatever the environment.
    """
    spec, name = env.spec, type(env).__name__
    try:
        step_shapes(agent, spec)
    except (OutputError, jax.errors.JAXTypeError):
        raise  # It says what is wrong, and where; that isn't the spec.
    except (AttributeError, TypeError, ValueError) as error:
        _check_parts(agent)
        shapes = jax.tree.map(shown, spec.observations)
        raise ValueError(
            f"the agent's policy can't take observations of {name}, {shapes} ({str(error).strip()}{where(error)}); "
            f"make the agent with the spec of this {name}, if it isn't"
        ) from error


def _check_parts(agent: Agent) -> None:
    """Traces what an agent does without an environment, so that its own mistakes aren't taken for those of the spec."""
    part = "update.init"
    try:
        learner = jax.eval_shape(agent.update.init, jax.random.PRNGKey(0))
        part = "update.params"
        jax.eval_shape(agent.update.params, learner)
        part = "policy.initial_state"
        jax.eval_shape(lambda: agent.policy.initial_state(Slots(1)))
    except jax.errors.JAXTypeError:
        raise  # It says what is wrong, and where.
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"the agent's {part} fails{where(error)}: {type(error).__name__}: {error}") from error
