"""Measures how fast R2D2 and DQN learn on this machine: the parts, the whole, and the whole's share of its limits.

    ./run python benchmarks/values.py --agent r2d2 --env-name catch
    ./run python benchmarks/values.py --agent r2d2 --env-name atari/Pong
    ./run python benchmarks/values.py --agent dqn --env-name atari/Pong

As in `benchmarks/impala_atari.py`, an env step costs a step of the simulator, a forward pass and a share of an update.
Each of the three is measured alone, on all cores; no design can exceed 1 / (1/env + 1/act + 1/learn) steps per second.
Sequences that are written and drawn are compared with those that Reverb alone would deliver on all cores, from a writer
of the same slots and to a dataset of the same batches, at the table's ratio.

Agents have the environment's preset. But tables are small and soon full enough, so that a short run learns nearly from
its start; and R2D2 on Atari, whose paper leaves the ratio free, draws each sequence once.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import tyro

from boonta.agents import dqn, r2d2
from boonta.agents.base import Agent
from boonta.agents.config import replaced
from boonta.benchmarks import parts, timing
from boonta.envs.base import Env
from boonta.programs.wiring.environments import kind_of, make_env

AGENTS: dict[str, Any] = {"dqn": dqn, "r2d2": r2d2}
SIZE = {"dqn": (20_000, 1_000), "r2d2": (2_000, 100)}  # Sequences that a table keeps, and has before it is sampled.


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      agent: the agent, and the program of its name.
      env_name: the environment, as programs take it.
      num_envs: environment slots, in two groups.
      seconds: time to measure each part, after a warm-up; the whole program is measured four times as long.
      turns: how often everything is measured.
      part: measures only this part and prints only its rate; the benchmark uses it to start its own processes.
    """

    agent: Literal["dqn", "r2d2"] = "r2d2"
    env_name: str = "catch"
    num_envs: int = 32
    seconds: float = 15.0
    turns: int = 3
    part: Literal["env", "act", "learn", "reverb"] | None = None

    @property
    def env(self) -> Env:
        return make_env(self.env_name)

    @property
    def preset(self) -> Any:
        """The agent's config for the environment."""
        return AGENTS[self.agent].Config.preset(kind_of(self.env))

    @property
    def replay(self) -> dict[str, Any]:
        """What differs from the preset, by the name of the field."""
        size, min_size = SIZE[self.agent]
        (table,) = AGENTS[self.agent].make(self.preset, self.env.spec).tables
        ratio = table.definite_samples_per_insert
        return {"replay.size": size, "replay.min_size": min_size, "replay.samples_per_insert": ratio}

    def make(self) -> Agent:
        made: Agent = AGENTS[self.agent].make(replaced(self.preset, self.replay), self.env.spec)
        return made


def main(options: Options) -> None:
    """Measures one part, or all parts and the whole, and prints the tables."""
    agent = options.make()
    if options.part is not None:
        timing.answer(parts.rate(options.part, agent, options.env, options.num_envs, options.seconds))
    flags = [options.env_name, timing.NO_EVALUATION, f"--num-envs={options.num_envs}"]
    flags += timing.as_flags({f"config.{name}": value for name, value in options.replay.items()})
    turns = []
    for _ in range(options.turns):
        rates = {part: timing.in_process(__file__, options, part) for part in ("env", "act", "learn", "reverb")}
        row = timing.whole(f"{options.agent}.py", flags, 4 * options.seconds)
        turns.append({**parts.labelled(rates), timing.PROCESSES: row["env_steps_per_s"]})
    timing.print_table(turns, {timing.PROCESSES: timing.REVERB_LIMIT})
    (table,) = agent.tables
    print("\nof the last turn:")
    for name, times in {"written": 1.0, "drawn": options.replay["replay.samples_per_insert"]}.items():
        alone, found = (times * rate / table.period for rate in (rates["reverb"], row["env_steps_per_s"]))
        print(f"sequences/s {name}: {alone:,.1f} by Reverb alone, {found:,.1f} in the whole, {found / alone:.0%}")
    print(
        f"updates/s: {rates['learn'] / table.env_steps_per_update:,.1f} alone, {row['updates_per_s']:,.1f} in the whole"
    )
    timing.print_profile(row)


if __name__ == "__main__":
    main(tyro.cli(Options))
