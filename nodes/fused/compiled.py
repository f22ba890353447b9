"""A fused program compiled over a mesh, ahead of its use: what would need another compile later is an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.agents.base import Agent, Batch, Nest
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.fused import fusion, stage

Place = Callable[[fusion.State, Mesh], fusion.State]  # `(state's shapes, mesh) -> shardings`
Play = Callable[[Nest, jax.Array], dict[str, jax.Array]]  # `(learner state, key) -> metrics`


class Compiled:
    """The programs of a fused agent.

    Args:
      fused: what to compile.
      play: evaluates; None leaves it out.
      learner: its state, placed; its values are not used.
      mesh: of devices.
      place: says where the state lives.
      in_loop: whether many rounds are one program, or the host calls one after the other.

    Attributes:
      seconds: that compiling took, by program.
    """

    def __init__(
        self, fused: fusion.Fusion, play: Play | None, learner: Nest, mesh: Mesh, place: Place, in_loop: bool = True
    ):
        self.seconds: dict[str, float] = {}
        self._in_loop = in_loop
        everywhere = NamedSharding(mesh, PartitionSpec())
        version = jax.ShapeDtypeStruct((), jnp.int32, sharding=everywhere)
        key = jax.ShapeDtypeStruct((2,), jnp.uint32, sharding=everywhere)
        state = jax.eval_shape(fused.init, learner, version, key)[0]
        where = place(state, mesh)
        state = jax.tree.map(lambda leaf, at: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=at), state, where)
        self._everywhere = everywhere
        ends = {"out_shardings": (where, everywhere)}
        self._init = self._compile("init", fused.init, learner, version, key, **ends)
        if in_loop:
            self._rounds = self._compile("rounds", fused.rounds, state, version, donate_argnums=0, **ends)
        else:
            self._round = self._compile("round", fused.round, state, donate_argnums=0, **ends)
        self._copy = self._compile("copy", lambda nest: jax.tree.map(jnp.copy, nest), learner)
        self._play = None if play is None else self._compile("play", play, learner, key, out_shardings=everywhere)

    def init(self, learner: Nest, version: int, key: jax.Array) -> tuple[fusion.State, stage.Episodes]:
        """See `fusion.Fusion.init`."""
        return self._init(learner, self._put(jnp.int32(version)), self._put(key))

    def rounds(self, state: fusion.State, number: int) -> tuple[fusion.State, list[fusion.Outcome]]:
        """Enqueues rounds; `state` is donated, and the outcomes are to be added up."""
        if self._in_loop:
            state, outcome = self._rounds(state, self._put(jnp.int32(number)))
            return state, [outcome]
        outcomes = []
        for _ in range(number):
            state, outcome = self._round(state)
            outcomes.append(outcome)
        return state, outcomes

    def play(self, learner: Nest, key: jax.Array) -> dict[str, jax.Array]:
        """Enqueues an evaluation."""
        assert self._play is not None
        return self._play(learner, self._put(key))

    def copy(self, learner: Nest) -> Nest:
        """Enqueues a copy, which stays when the state is donated."""
        return self._copy(learner)

    def _put(self, x: jax.Array) -> jax.Array:
        return jax.device_put(x, self._everywhere)

    def _compile(self, name: str, function: Callable, *args: Any, **options: Any) -> Any:
        began = time.monotonic()
        program = jax.jit(function, **options).lower(*args).compile()
        self.seconds[name] = time.monotonic() - began
        return program


def by_slot(shapes: fusion.State, mesh: Mesh) -> fusion.State:
    """Where each leaf of a fused program's state lives: what has a slot axis is split along it, the rest replicated."""
    everywhere, slots, columns = (
        NamedSharding(mesh, PartitionSpec(*axes))
        for axes in ((), ("batch",), (None, "batch"))  # [], [B, …], [T, B, …]
    )
    place = jax.tree.map(lambda _: everywhere, shapes)
    spread = jax.tree.map(lambda _: slots, shapes.stage)
    replay = place.replay
    if replay != ():
        replay = replay.replace(experience=jax.tree.map(lambda _: slots, shapes.replay.experience))  # [B, time, …]
    return place._replace(
        stage=spread._replace(key=everywhere), kept=jax.tree.map(lambda _: columns, shapes.kept), replay=replay
    )


def check_fits(agent: Agent, env: Any) -> None:
    """Traces the agent's policy on what the environment shows.

    Args:
      agent: made for some spec, which it does not remember.
      env: a `JaxEnv`.

    Raises:
      ValueError: the policy can't take the observations, or its actions are not the environment's.
    """
    spec, name = env.spec, type(env).__name__
    remade = f"make the agent with the spec of this {name}"
    try:
        action = step_shapes(agent, spec).action
    except (AttributeError, TypeError, ValueError) as error:
        shapes = jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", spec.observations)
        raise ValueError(
            f"the agent's policy can't take observations of {name}, {shapes} ({str(error).strip()}); {remade}"
        ) from error
    wanted = spec.actions
    if (action.shape, action.dtype) != (wanted.shape, wanted.dtype):
        raise ValueError(
            f"the agent's actions are {action.dtype}{list(action.shape)}, those of {name} are "
            f"{wanted.dtype}{list(wanted.shape)}; {remade}"
        )


def convolves(agent: Agent, env: Any) -> bool:
    """Whether the agent's update has convolutions; it is traced, not compiled."""
    (table,) = agent.tables
    rows = (table.sequence_length, table.batch_size)
    steps = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((*rows, *leaf.shape), leaf.dtype), step_shapes(agent, env.spec)
    )
    learner = jax.eval_shape(agent.update.init, jax.random.PRNGKey(0))
    batch = Batch(steps=steps, probability=jax.ShapeDtypeStruct((table.batch_size,), np.float32))
    return "conv_general_dilated" in str(jax.make_jaxpr(agent.update.step)(learner, batch))


def batch_by_slot(mesh: Mesh) -> Callable[[Batch], Batch]:
    """Lays a batch out as the learner does: its sequences are split over the mesh."""

    def constrain(batch: Batch) -> Batch:
        columns, slots = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((None, "batch"), ("batch",)))
        steps, probability = jax.lax.with_sharding_constraint((batch.steps, batch.probability), (columns, slots))
        return batch._replace(steps=steps, probability=probability)

    return constrain
