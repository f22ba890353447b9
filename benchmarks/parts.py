"""Measures the parts of a program, each alone, on all cores: stepping, acting, updating, and the way through Reverb.

All rates are env steps per second; an update counts as the env steps after which the table asks for the next one. Their
inverses are added up, so each is a rate of all cores: that of the way through Reverb, which by itself keeps about one
core busy, is computed from its processor time. Only this part, "reverb", needs Reverb, and so CPython 3.10.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import psutil
from jax.sharding import NamedSharding, PartitionSpec

from boonta.agents.base import Agent, Batch, Slots, Steps
from boonta.benchmarks.envs import step_of
from boonta.benchmarks.replay_server import served
from boonta.benchmarks.timing import LIMIT, REVERB_LIMIT, on_all_cores, per_cpu_second, per_second
from boonta.envs.actions import random_actions
from boonta.envs.base import Env, EnvSpec
from boonta.nodes.acting.local import jit_policy, step_shapes
from boonta.nodes.base import Node, Stopped
from boonta.nodes.hosts.agreement import Agreement
from boonta.nodes.hosts.placement import batch_sharding, make_mesh
from boonta.nodes.learning.step import compile_step
from boonta.nodes.tables import contract
from boonta.programs.wiring.machine import cores

END_S = 10.0  # Time in which a thread ends.


def rate(part: str, agent: Agent, env: Env, num_envs: int, seconds: float) -> float:
    """One part of a program of `num_envs` environments, in two groups: "env", "act", "learn" or "reverb"."""
    if part == "env":
        return env_rate(env, num_envs // 2, seconds)
    if part == "act":
        return act_rate(agent, env, num_envs // 2, seconds)
    if part == "learn":
        return learn_rate(agent, env, seconds)
    return reverb_rate(agent, env, num_envs, seconds)


def limit(rates: dict[str, float], *ways: str) -> float:
    """The rate that no design can exceed on these cores, of all parts that compute and of some `ways` of data.

    Args:
      rates: rates by part, each of all cores.
      ways: the parts that pass data on and count, too.
    """
    return 1 / sum(1 / rates[part] for part in ("env", "act", "learn", *ways))


def labelled(rates: dict[str, float], acting: dict[str, float] | None = None) -> dict[str, float]:
    """The rates of the parts and their limits, by the labels of `timing.print_table`.

    Args:
      rates: rates by part: "env", "act", "learn" and "reverb".
      acting: rates by label in the place of the one of "act".
    """
    return {
        "stepping the environments, alone": rates["env"],
        **(acting or {"acting, alone": rates["act"]}),
        "updating, alone": rates["learn"],
        "writing and sampling through Reverb, alone": rates["reverb"],
        LIMIT: limit(rates),
        REVERB_LIMIT: limit(rates, "reverb"),
    }


def env_rate(env: Env, size: int, seconds: float) -> float:
    """Measures steps of `size` environments at once, with random actions."""

    def make_work(i: int) -> Callable[[], float]:
        batch = env(size, i)
        batch.reset()
        return step_of(batch)

    return on_all_cores(make_work, seconds)


def act_rate(agent: Agent, env: Env, size: int, seconds: float) -> float:
    """Measures the policy on one batch of `size` observations; actions and extras are copied to the host."""
    params = agent.update.params(jax.jit(agent.update.init)(jax.random.PRNGKey(0)))
    act = jit_policy(agent.policy).step

    def make_work(i: int) -> Callable[[], float]:
        timestep, key = env(size, i).reset(), jax.random.PRNGKey(i)
        state = [agent.policy.initial_state(Slots(size))]

        def work() -> float:
            *out, state[0] = act(params, key, 0, timestep, state[0])
            jax.device_get(out)
            return size

        return work

    return on_all_cores(make_work, seconds)


def learn_rate(agent: Agent, env: Env, seconds: float) -> float:
    """Measures updates on batches that stay on the device, compiled and dispatched as a learner does by default."""
    (table,) = agent.tables
    mesh = make_mesh(1, table.batch_size)
    replicated, over_batch = NamedSharding(mesh, PartitionSpec()), batch_sharding(mesh)
    steps = contract.with_one_core(table, noise(agent, env.spec, (table.sequence_length, table.batch_size)))
    batch = jax.device_put(Batch(steps, np.ones(table.batch_size, np.float32)), over_batch)
    batches = (batch,) * agent.update.at_once
    shardings = (replicated, (over_batch,) * len(batches), None, over_batch.probability)
    state = [jax.jit(agent.update.init, out_shardings=replicated)(jax.random.PRNGKey(0))]
    report = Agreement().report(False, over_batch.probability)
    step = compile_step("benchmark", agent, env.spec, shardings, state[0], report)

    def work() -> float:
        state[0], outcome = step(state[0], batches, 0, report)
        jax.block_until_ready(outcome)
        return len(batches) * table.env_steps_per_update

    return per_second(work, seconds)


def reverb_rate(agent: Agent, env: Env, size: int, seconds: float) -> float:
    """Measures a writer of `size` slots and a dataset on one table, with observations of a real game.

    The server has a process of its own, as in a program, so that all goes through gRPC. The rate is what all cores
    would make: their number, divided by the processor time that both processes take for an env step.
    """
    from boonta.nodes.tables.reverb.client import Client
    from boonta.nodes.tables.reverb.dataset import ReverbDataset

    (table,) = agent.tables
    signature, node = step_shapes(agent, env.spec), Node("benchmark")
    with served([table], signature) as (port, server), contextlib.ExitStack() as ends:
        client = Client(f"localhost:{port}")
        sharding = batch_sharding(make_mesh(1, table.batch_size))
        dataset = ReverbDataset([client], [table], sharding, signature, node.wait_for, updates=0)
        ends.callback(dataset.close)
        ends.enter_context(written(client, agent, env, size, node))

        def work() -> float:
            try:
                node.wait_for("a batch", dataset.next)
            except Stopped:
                raise RuntimeError(node.own_failure) from None
            return table.env_steps_per_update

        return cores.usable() * per_cpu_second(work, seconds, [psutil.Process(), server])


@contextlib.contextmanager
def written(client: Any, agent: Agent, env: Env, size: int, node: Node) -> Iterator[None]:
    """Writes steps of `size` slots in a thread while `with` lasts; an error of its own ends the node."""
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    row = noise(agent, env.spec, (size,))
    batch, rng = env(size, 0), np.random.default_rng(0)
    actions = random_actions(env.spec.actions, (64, size), rng)
    observations = [batch.reset().observation, *[batch.step(action).observation for action in actions]]
    writer = ReverbWriter(client, agent.tables, size, node.wait_for)

    def write() -> None:
        try:
            for observation in itertools.cycle(observations):
                if node.stopping:
                    return
                writer.append(row._replace(observation=observation))
        except Stopped:
            pass
        except BaseException as error:
            node.fail(error)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        node.stop()
        thread.join(END_S)


def zeros(agent: Agent, spec: EnvSpec, leading: tuple[int, ...]) -> Steps:
    """Raw steps of nothing but zeros."""
    return jax.tree.map(lambda leaf: np.zeros((*leading, *leaf.shape), leaf.dtype), step_shapes(agent, spec))


def noise(agent: Agent, spec: EnvSpec, leading: tuple[int, ...]) -> Steps:
    """Raw steps in the middle of an episode; they are zeros, except for observations of noise."""
    rng = np.random.default_rng(0)
    steps = zeros(agent, spec, leading)
    observation = jax.tree.map(lambda leaf: rng.integers(0, 255, leaf.shape).astype(leaf.dtype), steps.observation)
    ones = np.ones(leading, np.float32)
    return steps._replace(observation=observation, step_type=np.ones(leading, np.int32), discount=ones)
