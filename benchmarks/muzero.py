"""Measures how fast MuZero learns CartPole on this machine: the parts, the whole, and the whole's share of its limit.

    ./run python benchmarks/muzero.py
    ./run python benchmarks/muzero.py --cadences 1/1,4/1,1/10,4/10
    BOONTA_PYTHON=3.13 ./run python benchmarks/muzero.py --part learn

As in `benchmarks/impala_atari.py`, an env step costs a step of the simulator, a search and a share of an update. Each
of the three is measured alone, on all cores; no design can exceed 1 / (1/env + 1/act + 1/learn) steps per second, and
none whose data goes through Reverb that rate with Reverb's own time, which is measured, too.

With `--cadences` the benchmark runs only the whole program, with several settings of the learner, in turns, so that a
machine that becomes slower or faster favours none of them.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import tyro

from boonta.agents import muzero
from boonta.agents.base import Agent
from boonta.benchmarks import parts, timing
from boonta.envs.gymnasium import Gymnasium

ENV = Gymnasium("CartPole-v1")
FEW_SIMULATIONS = muzero.CARTPOLE.num_simulations
CADENCE = ("--updates-per-step", "--publish-every", "--refresh-every")


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      num_simulations: simulations per search.
      num_envs: environment slots, in two groups; a batch of searches has half as many.
      seconds: time to measure each part, after a warm-up; the whole program is measured four times as long.
      part: measures only this part and prints only its rate; the benchmark uses it to start its own processes.
      cadences: the settings to compare, each as UPDATES_PER_STEP/PUBLISH_EVERY, or with /REFRESH_EVERY after these; the
        first is the reference.
      turns: number of times that everything is measured.
    """

    num_simulations: int = 50
    num_envs: int = 64
    seconds: float = 15.0
    part: Literal["env", "act", "learn", "reverb"] | None = None
    cadences: str = ""
    turns: int = 3

    @property
    def agent(self) -> Agent:
        config = dataclasses.replace(muzero.CARTPOLE, num_simulations=self.num_simulations)
        return muzero.make(config, ENV.spec)

    def whole(self, *flags: str) -> dict[str, float]:
        """Runs the whole program; returns medians."""
        size = [f"--num-envs={self.num_envs}", f"--config.num-simulations={self.num_simulations}"]
        return timing.whole(
            "muzero.py", ["gymnasium/CartPole-v1", timing.NO_EVALUATION, *size, *flags], 4 * self.seconds
        )


def main(options: Options) -> None:
    """Measures one part, or all parts and the whole, and prints the table."""
    if options.part is not None:
        timing.answer(parts.rate(options.part, options.agent, ENV, options.num_envs, options.seconds))
    if options.cadences:
        return compare(options)
    turns = []
    for _ in range(options.turns):
        rates = {part: timing.in_process(__file__, options, part) for part in ("env", "act", "learn", "reverb")}
        few = timing.in_process(__file__, dataclasses.replace(options, num_simulations=FEW_SIMULATIONS), "act")
        row = options.whole()
        acting = {
            f"searching, {FEW_SIMULATIONS} simulations, alone": few,
            f"searching, {options.num_simulations} simulations, alone": rates["act"],
        }
        turns.append({**parts.labelled(rates, acting), timing.PROCESSES: row["env_steps_per_s"]})
    timing.print_table(turns, {timing.PROCESSES: timing.REVERB_LIMIT})
    print("\nof the last turn:")
    print(f"simulations/s, alone: {few * FEW_SIMULATIONS:,.0f} and {rates['act'] * options.num_simulations:,.0f}")
    per_update = options.agent.tables[0].env_steps_per_update
    print(f"updates/s: {rates['learn'] / per_update:,.1f} alone, {row['updates_per_s']:,.1f} in the whole")
    timing.print_profile(row)


def compare(options: Options) -> None:
    """Runs the whole program with each cadence, in turns, and prints medians, and the ratios to the first by turn."""
    cadences = options.cadences.split(",")
    turns: dict[str, list[dict[str, float]]] = {cadence: [] for cadence in cadences}
    for _ in range(options.turns):
        for cadence in cadences:
            chosen = zip(CADENCE, map(int, cadence.split("/")))
            turns[cadence].append(options.whole(*(f"{flag}={number}" for flag, number in chosen)))
    print(f"medians of {options.turns} turns, from the least to the greatest; share: of the learner's thread")
    print("a cadence is: " + "/".join(flag.removeprefix("--") for flag in CADENCE))
    head = f"{'cadence':>12s} {'steps/s':>23s} {'ratio':>18s} {'updates/s':>9s}"
    print(f"{head} {'updating':>8s} {'publishing':>10s} {'lag':>6s}")
    rates = {cadence: [row["env_steps_per_s"] for row in rows] for cadence, rows in turns.items()}
    for cadence, rows in turns.items():
        middle = timing.medians(rows)
        shares = (middle.get(f"share/learner/{activity}", 0.0) for activity in ("updating", "publishing"))
        print(
            f"{cadence:>12s} {timing.spread(rates[cadence], ',.0f'):>23s} "
            f"{timing.ratios(rates[cadence], rates[cadences[0]]):>18s} "
            f"{middle['updates_per_s']:9.1f} {next(shares):8.0%} {next(shares):10.0%} {middle['policy_lag']:6.1f}"
        )


if __name__ == "__main__":
    main(tyro.cli(Options))
