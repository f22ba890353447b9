"""A fused learner, compiled over its mesh ahead of its use; arguments that need another compilation are errors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from boonta.agents.base import Nest
from boonta.nodes.fused import fusion, stage
from boonta.nodes.fused.learners import EvaluationResult, FusedLearner
from boonta.nodes.hosts.arrays import place, whole
from boonta.nodes.learning.loops import compiler_options


class Compiled:
    """The programs of a fused learner. Where its mesh spans hosts, all of them must call the same ones in one order.

    Args:
      fused: the fused learner.
      shapes: those of its program's state, from `shapes_of`.
      evaluates: whether evaluation is compiled, too.
      begins: whether `init` is.

    Attributes:
      seconds: compile time by program.
      by_device: the sharding of arrays [devices, ...] of which each device has a row.
    """

    def __init__(self, fused: FusedLearner, shapes: fusion.State, evaluates: bool = True, begins: bool = True):
        self.seconds: dict[str, float] = {}
        self._in_loop = fused.in_loop
        program = fused.program
        self._everywhere = everywhere = NamedSharding(fused.mesh, PartitionSpec())
        self.by_device = NamedSharding(fused.mesh, PartitionSpec("batch"))
        self._share = whole(fused.mesh)
        self._copy = jax.jit(lambda nest: jax.tree.map(jnp.copy, nest))
        ends = {"out_shardings": (jax.tree.map(lambda leaf: leaf.sharding, shapes), everywhere)}
        version = _shape(jnp.int32(0), everywhere)
        if begins:
            key = _shape(fused.run_key, everywhere)
            self._init = self._compile("init", program.init, shapes.learner, version, key, **ends)
        if self._in_loop:
            number = _shape(jnp.int32(0), everywhere)
            self._rounds = self._compile("rounds", program.rounds, shapes, number, donate_argnums=0, **ends)
        else:
            self._round = self._compile("round", program.round, shapes, donate_argnums=0, **ends)
        if evaluates:
            key = _shape(fused.eval_key, everywhere)
            played = shapes.learner, version, key
            self._evaluate = self._compile("play", fused.evaluate, *played, out_shardings=everywhere)

    def init(self, learner: Nest, version: int, key: jax.Array) -> tuple[fusion.State, stage.Episodes]:
        """See `fusion.Fusion.init`."""
        return self._init(learner, self._put(jnp.int32(version)), self._put(key))

    def rounds(self, state: fusion.State, number: int) -> tuple[fusion.State, list[fusion.RoundResult]]:
        """Enqueues rounds; `state` is donated, and the outcomes are to be added up."""
        if self._in_loop:
            state, outcome = self._rounds(state, self._put(jnp.int32(number)))
            return state, [outcome]
        outcomes = []
        for _ in range(number):
            state, outcome = self._round(state)
            outcomes.append(outcome)
        return state, outcomes

    def evaluate(self, learner: Nest, version: int, key: jax.Array) -> EvaluationResult:
        """Enqueues an evaluation."""
        return self._evaluate(learner, self._put(jnp.int32(version)), self._put(key))

    def copy(self, learner: Nest) -> Nest:
        """Enqueues a copy of a learner state, since the next rounds take the state's memory."""
        return self._copy(learner)

    def share(self, rows: Any) -> Any:
        """Enqueues an exchange between the hosts: of arrays with a row for each device each host gets all."""
        return self._share(rows)

    def _put(self, x: jax.Array) -> jax.Array:
        return place(np.asarray(x), self._everywhere)

    def _compile(self, name: str, function: Callable, *args: Any, **options: Any) -> Any:
        began = time.monotonic()
        options["compiler_options"] = compiler_options(convolves_on_cpu=not self._in_loop)
        program = jax.jit(function, **options).lower(*args).compile()
        self.seconds[name] = time.monotonic() - began
        return program


def shapes_of(fused: FusedLearner, learner: Nest) -> fusion.State:
    """The shapes, dtypes and shardings of a program's state, whose learner state is like `learner`."""
    version = jax.ShapeDtypeStruct((), jnp.int32)
    state, _ = jax.eval_shape(fused.program.init, learner, version, fused.run_key)
    return jax.tree.map(_shape, state, fused.place(state))


def _shape(leaf: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
