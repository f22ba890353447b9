"""How fast a fused program plays while it learns, and what its time goes to.

    ./run python benchmarks/anakin.py
    ./run python benchmarks/anakin.py --worlds cartpole --num-envs 64 1024 4096 --seconds 10

IMPALA with an MLP of two layers, T = 16, one update a rollout. What the time goes to is measured by leaving parts out:
rollouts with random actions, which leave environments; rollouts with the policy; the whole.
`benchmarks/peers/purejaxrl.py` measures a peer.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Literal

import jax
import jax.numpy as jnp
import tyro

from agents import impala
from agents.base import Agent, Policy
from envs.jax.base import JaxEnv
from envs.jax.catch import Catch
from envs.jax.grid_world import GridWorld
from envs.jax.gymnax import Gymnax
from envs.jax.minatar import MinAtar
from nodes import fusion

World = Literal["catch", "grid_world", "cartpole", "breakout"]
WORLDS: dict[str, JaxEnv] = {
    "catch": Catch(),
    "grid_world": GridWorld(),
    "cartpole": Gymnax("CartPole-v1"),
    "breakout": MinAtar("breakout"),
}
PARTS = ("environments", "rollouts", "all")


@dataclasses.dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
      worlds: environments.
      num_envs: slots; a batch has as many sequences.
      unroll_length: T, env steps of a slot in a round.
      width: of the MLP's two layers.
      seconds: measured for each part, after one as a warm-up.
    """

    worlds: tuple[World, ...] = ("catch", "grid_world", "cartpole", "breakout")
    num_envs: tuple[int, ...] = (64, 1024)
    unroll_length: int = 16
    width: int = 64
    seconds: float = 3.0


def main(options: Options) -> None:
    """Measures and prints the table."""
    print(f"{jax.device_count()} {jax.devices()[0].device_kind}, jax {jax.__version__}")
    print(f"{'':12s} {'num_envs':>8s} {'env steps/s':>12s} {'env':>6s} {'policy':>7s} {'update':>7s} {'compile':>8s}")
    for world in options.worlds:
        for num_envs in options.num_envs:
            env = WORLDS[world]
            shape = {"batch_size": num_envs, "unroll_length": options.unroll_length, "mlp_width": options.width}
            config = dataclasses.replace(impala.CATCH, **shape)
            agent = impala.make(config, env.spec)
            cost, compiling = {}, 0.0
            for part in PARTS:
                rate, compiling = measure(without(part, agent, env), env, num_envs, options.seconds)
                cost[part] = 1 / rate  # seconds an env step
            env_s, act_s, all_s = (cost[part] for part in PARTS)
            shares = (env_s / all_s, max(0.0, act_s - env_s) / all_s, max(0.0, all_s - act_s) / all_s)
            print(
                f"{world:12s} {num_envs:8,d} {1 / all_s:12,.0f} {shares[0]:6.0%} {shares[1]:7.0%} {shares[2]:7.0%} "
                f"{compiling:6.1f} s",
                flush=True,
            )


def without(part: str, agent: Agent, env: JaxEnv) -> Agent:
    """The agent without what `part` leaves out: updates, and choosing actions."""
    if part == "all":
        return agent
    update = agent.update._replace(step=lambda state, batch: (state, None, {}))
    if part == "rollouts":
        return agent._replace(update=update)
    number = env.spec.actions.num_values

    def step(params, key, timestep, state):
        action = jax.random.randint(key, timestep.step_type.shape, 0, number, jnp.int32)
        return action, {}, state

    return agent._replace(update=update, policy=Policy(lambda size: (), step))


def measure(agent: Agent, env: JaxEnv, num_envs: int, seconds: float) -> tuple[float, float]:
    """Env steps a second, and the seconds that compiling took."""
    fused = fusion.fuse(agent, env, num_envs)
    learner = jax.jit(agent.update.init)(jax.random.PRNGKey(0))
    state, _ = jax.jit(fused.init)(learner, jnp.int32(0), jax.random.PRNGKey(1))
    began = time.perf_counter()
    rounds = jax.jit(fused.rounds, donate_argnums=0).lower(state, jnp.int32(1)).compile()
    compiling = time.perf_counter() - began
    number, elapsed = 1, 0.0
    while elapsed < 0.5:  # warms up, and finds how many rounds take long enough
        number *= 2
        state, elapsed = timed(rounds, state, number)
    number = max(1, round(number * seconds / elapsed))
    state, elapsed = timed(rounds, state, number)
    return fused.env_steps * number / elapsed, compiling


def timed(rounds, state: fusion.State, number: int) -> tuple[fusion.State, float]:
    """Makes rounds; the state after them, and the seconds that they took."""
    began = time.perf_counter()
    state, outcome = rounds(state, jnp.int32(number))
    jax.block_until_ready((state, outcome))
    return state, time.perf_counter() - began


if __name__ == "__main__":
    main(tyro.cli(Options))
