"""Measures how fast a fused program plays while it learns, and how its time is divided.

    ./run python benchmarks/anakin.py
    ./run python benchmarks/anakin.py --envs cartpole --num-envs 64 1024 4096 --seconds 10
    XLA_FLAGS=--xla_force_host_platform_device_count=2 ./run python benchmarks/anakin.py --devices 1 2
    ./run python benchmarks/anakin.py --agent muzero --num-envs 64

The agent is IMPALA with an MLP of two layers, T = 16 and one update per rollout, or MuZero with the settings of
`programs/muzero.py --launch anakin`, which searches once for each env step. The division of time is measured by leaving
parts out: rollouts with random actions need only the environments; then come rollouts with the policy, and the whole.
The benchmark also prints how busy an NVIDIA GPU is (the rest of the time it waits, for example for the host to launch
kernels), and the compile time of each program: the start, the rounds, a copy to save, an evaluation.
`benchmarks/peers/purejaxrl.py` and `stoix.sh` measure peers. On CPU several devices are simulated, and share its cores.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import tyro

from boonta.agents import impala, muzero
from boonta.agents.base import Agent, Policy
from boonta.agents.config import replaced
from boonta.benchmarks import timing
from boonta.envs.jax.base import JaxEnv
from boonta.envs.jax.catch import Catch
from boonta.envs.jax.grid_world import GridWorld
from boonta.envs.jax.gymnax import Gymnax
from boonta.envs.jax.minatar import MinAtar
from boonta.nodes.fused import fusion
from boonta.nodes.fused.compiled import Compiled, shapes_of
from boonta.nodes.fused.learners import Setup, one_learner

EnvName = Literal["catch", "grid_world", "cartpole", "breakout"]
ENVS: dict[str, JaxEnv] = {
    "catch": Catch(),
    "grid_world": GridWorld(),
    "cartpole": Gymnax("CartPole-v1"),
    "breakout": MinAtar("breakout"),
}
MUZERO: dict[str, muzero.Config] = {
    "catch": muzero.CATCH,
    "grid_world": muzero.CATCH,
    "cartpole": muzero.CARTPOLE,
    "breakout": muzero.MINATAR,
}
PARTS = ("environments", "rollouts", "all")


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      agent: the agent.
      envs: the environments, one row each.
      num_envs: numbers of slots; IMPALA's batch has as many sequences.
      devices: numbers of devices that the slots are spread over.
      unroll_length: T, env steps per slot and round, for IMPALA.
      width: width of the two layers of IMPALA's MLP.
      value_torso: whether IMPALA's policy and value share these layers or have two layers each.
      seconds: time to measure each part, after a warm-up.
    """

    agent: Literal["impala", "muzero"] = "impala"
    envs: tuple[EnvName, ...] = ("catch", "grid_world", "cartpole", "breakout")
    num_envs: tuple[int, ...] = (64, 1024)
    devices: tuple[int, ...] = (1,)
    unroll_length: int = 16
    width: int = 64
    value_torso: Literal["shared", "own"] = "shared"
    seconds: float = 3.0


def main(options: Options) -> None:
    """Measures and prints the table."""
    print(f"{jax.device_count()} {jax.devices()[0].device_kind}, jax {jax.__version__}")
    names = f"{'num_envs':>8s} {'devices':>7s} {'env steps/s':>12s} {'env':>6s} {'policy':>7s} {'update':>7s}"
    print(f"{'':12s} {names} {'simulations/s':>14s} {'GPU busy':>9s}  compile")
    for env_name, num_envs, devices in itertools.product(options.envs, options.num_envs, options.devices):
        env = ENVS[env_name]
        agent, simulations = make(options, env_name, num_envs)
        of = [measure(without(part, agent, env), env, num_envs, devices, options.seconds) for part in PARTS]
        env_s, act_s, all_s = (1 / part.rate for part in of)  # Seconds per env step.
        shares = (env_s / all_s, max(0.0, act_s - env_s) / all_s, max(0.0, all_s - act_s) / all_s)
        shown = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in of[-1].compile_s.items())
        print(
            f"{env_name:12s} {num_envs:8,d} {devices:7d} {1 / all_s:12,.0f} {shares[0]:6.0%} {shares[1]:7.0%} "
            f"{shares[2]:7.0%} {simulations / all_s:14,.0f} {timing.share(of[-1].busy):>9s}  {shown}",
            flush=True,
        )


def make(options: Options, env_name: EnvName, num_envs: int) -> tuple[Agent, int]:
    """Makes the agent; returns it and its number of simulations per env step."""
    spec = ENVS[env_name].spec
    if options.agent == "muzero":
        return muzero.make(MUZERO[env_name], spec), MUZERO[env_name].num_simulations
    shape = {"batch_size": num_envs, "unroll_length": options.unroll_length}
    nets = {"torso.widths": (options.width,) * 2, "value_torso": options.value_torso}
    return impala.make(replaced(impala.CATCH, {**shape, **nets}), spec), 0


def without(part: str, agent: Agent, env: JaxEnv) -> Agent:
    """Returns the agent without its update, or without its update and its policy, depending on `part`."""
    if part == "all":
        return agent
    update = agent.update._replace(step=lambda state, batch: (state, None, {}))
    if part == "rollouts":
        return agent._replace(update=update)
    number = env.spec.actions.num_values

    def step(params, key, timestep, state):
        action = jax.random.randint(key, timestep.step_type.shape, 0, number, jnp.int32)
        return action, {}, state

    return agent._replace(update=update, policy=Policy(lambda slots: (), step))


class Measured(NamedTuple):
    """A fused program as it was measured.

    Attributes:
      rate: env steps per second.
      compile_s: the compile time by program.
      busy: samples of how busy the GPUs are; none without one.
    """

    rate: float
    compile_s: dict[str, float]
    busy: list[float]


def measure(agent: Agent, env: JaxEnv, num_envs: int, devices: int, seconds: float) -> Measured:
    """Compiles a fused program and runs it for about so many seconds, after a warm-up."""
    fused = one_learner(Setup("benchmark", agent, env, num_envs, devices))
    learner = jax.jit(fused.begin, out_shardings=fused.place_learner)()
    program = Compiled(fused, shapes_of(fused, learner))
    state, _ = program.init(learner, 0, fused.run_key)
    number, elapsed = 1, 0.0
    while elapsed < 0.5:  # This warms up, and finds a number of rounds that takes long enough to be measured.
        number *= 2
        state, elapsed = timed(program, state, number)
    number = max(1, round(number * seconds / elapsed))
    with timing.gpu_busy(jax.local_devices()[:devices]) as busy:
        state, elapsed = timed(program, state, number)
    return Measured(fused.program.env_steps * number / elapsed, program.seconds, busy)


def timed(program: Compiled, state: fusion.State, number: int) -> tuple[fusion.State, float]:
    """Runs rounds; returns the state after them and the seconds that they took."""
    began = time.perf_counter()
    state, outcome = program.rounds(state, number)
    jax.block_until_ready((state, outcome))
    return state, time.perf_counter() - began


if __name__ == "__main__":
    main(tyro.cli(Options))
