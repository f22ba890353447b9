"""A fused learner, compiled over its mesh ahead of its use; arguments that need another compilation are errors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from boonta.agents.base import Nest
from boonta.nodes.fused import fusion, stage
from boonta.nodes.fused.learners import Evaluation, FusedLearner
from boonta.nodes.fused.updates import compiler_options


class Compiled:
    """The programs of a fused learner.

    Args:
      fused: the fused learner.
      learner: its state, placed on the devices; the values are not used.
      evaluates: whether evaluation is compiled, too.

    Attributes:
      seconds: compile time by program.
    """

    def __init__(self, fused: FusedLearner, learner: Nest, evaluates: bool = True):
        self.seconds: dict[str, float] = {}
        self._in_loop = fused.in_loop
        program = fused.program
        everywhere = NamedSharding(fused.mesh, PartitionSpec())
        version = jax.ShapeDtypeStruct((), jnp.int32, sharding=everywhere)
        run_key, eval_key = (
            jax.ShapeDtypeStruct(key.shape, key.dtype, sharding=everywhere) for key in (fused.run_key, fused.eval_key)
        )
        state = jax.eval_shape(program.init, learner, version, run_key)[0]
        where = fused.place(state)
        state = jax.tree.map(lambda leaf, at: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=at), state, where)
        self._everywhere = everywhere
        ends = {"out_shardings": (where, everywhere)}
        self._init = self._compile("init", program.init, learner, version, run_key, **ends)
        if self._in_loop:
            self._rounds = self._compile("rounds", program.rounds, state, version, donate_argnums=0, **ends)
        else:
            self._round = self._compile("round", program.round, state, donate_argnums=0, **ends)
        self._copy = self._compile("copy", lambda nest: jax.tree.map(jnp.copy, nest), learner)
        if evaluates:
            self._evaluate = self._compile("play", fused.evaluate, learner, eval_key, out_shardings=everywhere)

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

    def evaluate(self, learner: Nest, key: jax.Array) -> Evaluation:
        """Enqueues an evaluation."""
        return self._evaluate(learner, self._put(key))

    def copy(self, learner: Nest) -> Nest:
        """Enqueues a copy, which stays valid when the state is donated."""
        return self._copy(learner)

    def _put(self, x: jax.Array) -> jax.Array:
        return jax.device_put(x, self._everywhere)

    def _compile(self, name: str, function: Callable, *args: Any, **options: Any) -> Any:
        began = time.monotonic()
        options["compiler_options"] = compiler_options(convolves_on_cpu=not self._in_loop)
        program = jax.jit(function, **options).lower(*args).compile()
        self.seconds[name] = time.monotonic() - began
        return program
