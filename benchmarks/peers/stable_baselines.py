"""Measures SAC or DQN of Boonta, Stable-Baselines3 and SBX in turns: medians of env steps per second while learning.

    BOONTA_PYTHON=3.13 ./run python benchmarks/peers/stable_baselines.py --agent sac --env HalfCheetah-v5 --updates 1 20
    BOONTA_PYTHON=3.13 ./run python benchmarks/peers/stable_baselines.py --agent dqn --env Pong --updates 0.25

SAC has two layers of 256 and batches of 256; DQN plays Atari with the Nature network, four stacked frames, and batches
of 32 from a table of 20,000 transitions. All have as many environments. Boonta runs as `--launch` says: "sebulba" is
one process, as the peers are; "local_mp" is the cluster. `stable_baselines.sh`, beside this file, makes the peers'
folder. The peers of a row run directly after each other, because the speed of a shared machine changes from minute to
minute.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import statistics
import subprocess
import tempfile
from typing import Literal

import tyro

from boonta.benchmarks import timing
from boonta.nodes import metrics

HERE = pathlib.Path(__file__).parent
WARM_UP_S = 10.0
LIMIT_S = 3_600.0  # Most time of a peer beyond what is measured; its first measurement makes its environment.
RATE = re.compile(r"([\d.]+) env steps/s$")


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      agent: the agent, and the program of its name.
      env: Gymnasium's name of the environment; for DQN that of an Atari game.
      updates: updates for each env step; a row of the table for each.
      num_envs: environments.
      launch: how Boonta runs.
      peers: the libraries to measure beside it.
      folder: the peers' folder.
      rounds: number of measurements of each row.
      seconds: time to measure each.
    """

    agent: Literal["sac", "dqn"] = "sac"
    env: str = "HalfCheetah-v5"
    updates: tuple[float, ...] = (1.0, 20.0)
    num_envs: int = 4
    launch: str = "sebulba"
    peers: tuple[str, ...] = ("stable_baselines3", "sbx")
    folder: pathlib.Path = pathlib.Path("runs/peers/stable_baselines")
    rounds: int = 3
    seconds: float = 60.0


def main(options: Options) -> None:
    """Runs the rounds and prints the table."""
    names = ("boonta", *options.peers)
    rates: dict[float, dict[str, list[float]]] = {updates: {name: [] for name in names} for updates in options.updates}
    for _, updates, name in itertools.product(range(options.rounds), options.updates, names):
        rate = own_rate(options, updates) if name == "boonta" else peer_rate(options, name, updates)
        rates[updates][name].append(rate)
        print(f"{updates:g} updates a step: {name} {rate:,.1f}", flush=True)
    print(f"{'updates a step':>16s}", *(f"{name:>18s}" for name in names), f"{'of the better':>18s}")
    for updates, by_name in rates.items():
        ratios = timing.ratios(by_name["boonta"], *(by_name[name] for name in options.peers))
        print(f"{updates:16g}", *(f"{statistics.median(by_name[name]):18,.1f}" for name in names), f"{ratios:>18s}")


def own_rate(options: Options, updates: float) -> float:
    """Env steps per second of Boonta's program, from `WARM_UP_S` after learning began."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [*own_settings(options, updates), "--launch", options.launch, "--num-envs", str(options.num_envs)]
        flags += [timing.NO_EVALUATION]
        timing.run_program(f"{options.agent}.py", flags, folder, options.seconds + 2 * WARM_UP_S)
        return slope(metrics.read(pathlib.Path(folder)))


def own_settings(options: Options, updates: float) -> list[str]:
    """The environment and the flags of Boonta's program; its other settings are the agent's for such environments."""
    if options.agent == "sac":
        # SBX makes as many in one compiled call; with few, waiting for all their batches costs more than the calls do.
        at_once = round(updates * options.num_envs) if updates > 1 else 1
        ratio = f"--config.replay.updates-per-env-step={updates:g}"
        return [f"gymnasium/{options.env}", ratio, f"--updates-per-step={at_once}", "--config.replay.min-size=1000"]
    table = {"samples-per-insert": 32 * updates, "size": 20_000, "min-size": 1_000}
    return [f"atari/{options.env}", *(f"--config.replay.{name}={value:g}" for name, value in table.items())]


def slope(rows: list[dict]) -> float:
    """Env steps per second over a run's rows that were written `WARM_UP_S` after learning began, or later."""
    learning = [row for row in rows if row.get("updates", 0) > 0]
    steady = [row for row in learning if row["seconds"] >= learning[0]["seconds"] + WARM_UP_S]
    if len(steady) < 2:
        raise ValueError(f"{len(learning)} of {len(rows)} rows are of a learner; measure for longer")
    first, last = steady[0], steady[-1]
    return (last["env_steps"] - first["env_steps"]) / (last["seconds"] - first["seconds"])


def peer_rate(options: Options, library: str, updates: float) -> float:
    """Env steps per second of a peer."""
    given = [library, options.agent, options.env, f"{updates:g}", str(options.num_envs), f"{options.seconds:g}"]
    command = [str(HERE / "stable_baselines.sh"), str(options.folder.absolute()), *given]
    limit_s = LIMIT_S + 2 * options.seconds
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=limit_s).stdout
    match = RATE.search(printed.strip())
    if not match:
        raise ValueError(f"no rate in {printed!r}")
    return float(match[1])


if __name__ == "__main__":
    main(tyro.cli(Options))
