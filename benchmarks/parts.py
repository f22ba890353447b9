"""Measures the parts of a program, each alone, on all cores: stepping, acting, updating, and the way through Reverb.

All rates are env steps per second; an update counts as the env steps after which the table asks for the next one. Only
the part "reverb" needs Reverb, and so CPython 3.10.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import jax
import numpy as np

from boonta.agents.base import Agent, Batch, Slots, Steps
from boonta.benchmarks.envs import step_of
from boonta.benchmarks.timing import LIMIT, REVERB_LIMIT, on_all_cores, per_second
from boonta.envs.actions import random_actions
from boonta.envs.base import Env, EnvSpec
from boonta.nodes.acting.local import jit_policy, step_shapes
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import batch_sharding, make_mesh
from boonta.nodes.tables import contract


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
    """The rate that no design can exceed on these cores, of all parts that compute and of some `ways` of data."""
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
    act = jit_policy(agent.policy)

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
    """Measures updates on one batch that stays on the device."""
    (table,) = agent.tables
    steps = contract.with_one_core(table, noise(agent, env.spec, (table.sequence_length, table.batch_size)))
    batch = jax.device_put(Batch(steps, np.ones(table.batch_size, np.float32)))
    step = jax.jit(agent.update.step, donate_argnums=0)
    state = [jax.jit(agent.update.init)(jax.random.PRNGKey(0))]

    def work() -> float:
        state[0], _, metrics = step(state[0], batch)
        jax.block_until_ready(metrics)
        return table.env_steps_per_update

    return per_second(work, seconds)


def reverb_rate(agent: Agent, env: Env, size: int, seconds: float) -> float:
    """Measures a writer of `size` slots and a dataset on one table in one process, with observations of a real game."""
    from boonta.nodes.tables.reverb.dataset import ReverbDataset
    from boonta.nodes.tables.reverb.server import Server, make_table
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    (table,) = agent.tables
    signature = step_shapes(agent, env.spec)
    server = Server([make_table(table, signature)])
    client = server.client()
    node = Node("benchmark")
    dataset = ReverbDataset([client], [table], batch_sharding(make_mesh(1, table.batch_size)), signature)
    row = noise(agent, env.spec, (size,))
    batch, rng = env(size, 0), np.random.default_rng(0)
    actions = random_actions(env.spec.actions, (64, size), rng)
    observations = [batch.reset().observation, *[batch.step(action).observation for action in actions]]
    writer = ReverbWriter(client, [table], size, node.wait_for)

    def write() -> None:
        for t in range(10**9):
            if node.stopping:
                return
            writer.append(row._replace(observation=observations[t % len(observations)]))

    threading.Thread(target=write, daemon=True).start()

    def work() -> float:
        node.wait_for("a batch", dataset.next)
        return table.env_steps_per_update

    return per_second(work, seconds)


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
