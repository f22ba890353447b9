"""Measures DQN in Anakin and PureJaxRL's DQN in turns: medians of env steps per second while learning, and ratios.

    git clone https://github.com/luchris429/purejaxrl FOLDER
    BOONTA_PYTHON=3.13 ./run python benchmarks/peers/dqn.py --purejaxrl FOLDER

Both run in this environment, with the settings of PureJaxRL's `main`: 10 slots, layers of 120 and 84, a table of 10,000
transitions, and an update on 128 of them for every 10 env steps. PureJaxRL logs to wandb, which it doesn't need, and
uses a name that JAX has given up; both are supplied. What differs: PureJaxRL resets within the step that ends an
episode, and draws from all slots' last rows; Anakin's reset is a step of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
import statistics
import sys
import time
import types
from typing import Any, Literal

import jax
import tyro

from boonta.agents import dqn
from boonta.agents.config import replaced
from boonta.benchmarks import timing
from boonta.benchmarks.anakin import ENVS, measure

EnvName = Literal["catch", "cartpole", "breakout"]
GYMNAX: dict[EnvName, str] = {"cartpole": "CartPole-v1", "catch": "Catch-bsuite", "breakout": "Breakout-MinAtar"}
SLOTS, BATCH, SIZE, FIRST = 10, 128, 10_000, 1_000


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      purejaxrl: its clone.
      envs: the environments, one row each.
      rounds: number of measurements of each.
      seconds: time to measure, at least.
      part: measures one program here in one environment; None runs both in turns, in processes of their own.
    """

    purejaxrl: pathlib.Path
    envs: tuple[EnvName, ...] = ("catch", "cartpole", "breakout")
    rounds: int = 5
    seconds: float = 4.0
    part: Literal["boonta", "purejaxrl"] | None = None


def main(options: Options) -> None:
    """Runs the rounds and prints the table."""
    if options.part is not None:
        if len(options.envs) != 1:
            raise SystemExit(f"--part {options.part} measures one environment: give one name as --envs")
        measure_part = boonta if options.part == "boonta" else purejaxrl
        timing.answer(measure_part(options.envs[0], options))
    rates: dict[tuple[str, str], list[float]] = {}
    for _, env_name, part in itertools.product(range(options.rounds), options.envs, ("boonta", "purejaxrl")):
        rate = timing.in_process(__file__, dataclasses.replace(options, envs=(env_name,)), part)
        rates.setdefault((env_name, part), []).append(rate)
        print(f"{env_name}: {part} {rates[env_name, part][-1]:,.0f}", flush=True)
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")
    print(f"{'':12s} {'Boonta':>10s} {'PureJaxRL':>10s} {'ratio by round':>18s}")
    for env_name in options.envs:
        own, peer = (rates[env_name, part] for part in ("boonta", "purejaxrl"))
        medians = f"{statistics.median(own):10,.0f} {statistics.median(peer):10,.0f}"
        print(f"{env_name:12s} {medians} {timing.ratios(own, peer):>18s}")


def boonta(env_name: EnvName, options: Options) -> float:
    """Env steps per second of DQN in Anakin."""
    settings = {
        "torso.widths": (120, 84),
        "double": False,
        "bootstrap_length": 1,
        "huber": None,
        "target_period": 50,
        "replay.batch_size": BATCH,
        "replay.size": SIZE,
        "replay.min_size": FIRST,
        "replay.samples_per_insert": BATCH / SLOTS,
        "optimiser.learning_rate": 2.5e-4,
        "optimiser.max_grad_norm": math.inf,
    }
    agent = dqn.make(replaced(dqn.CATCH, settings), ENVS[env_name].spec)
    return measure(agent, ENVS[env_name], SLOTS, 1, options.seconds).rate


def purejaxrl(env_name: EnvName, options: Options) -> float:
    """Env steps per second of PureJaxRL's DQN, without compiling."""
    sys.modules.setdefault("wandb", types.ModuleType("wandb"))
    if not hasattr(jax, "tree_map"):
        vars(jax)["tree_map"] = jax.tree.map
    sys.path.insert(0, str(options.purejaxrl / "purejaxrl"))
    from dqn import make_train  # type: ignore[import-not-found]

    config: dict[str, Any] = {
        "NUM_ENVS": SLOTS,
        "BUFFER_SIZE": SIZE,
        "BUFFER_BATCH_SIZE": BATCH,
        "TOTAL_TIMESTEPS": 200_000,
        "EPSILON_START": 1.0,
        "EPSILON_FINISH": 0.05,
        "EPSILON_ANNEAL_TIME": 25e4,
        "TARGET_UPDATE_INTERVAL": 500,
        "LR": 2.5e-4,
        "LEARNING_STARTS": FIRST,
        "TRAINING_INTERVAL": 10,
        "GAMMA": 0.99,
        "TAU": 1.0,
        "ENV_NAME": GYMNAX[env_name],
    }
    train = jax.jit(make_train(config)).lower(jax.random.PRNGKey(0)).compile()
    jax.block_until_ready(train(jax.random.PRNGKey(0)))
    done, elapsed = 0, 0.0
    while elapsed < options.seconds:
        began = time.perf_counter()
        jax.block_until_ready(train(jax.random.PRNGKey(1)))
        elapsed += time.perf_counter() - began
        done += config["TOTAL_TIMESTEPS"]
    return done / elapsed


if __name__ == "__main__":
    main(tyro.cli(Options))
