"""Measures how fast IMPALA learns Atari on this machine: the parts, the whole, and the whole as a share of its limit.

    ./run python benchmarks/impala_atari.py

An env step costs a step of the simulator, a forward pass and a share of an update. Each of the three is measured alone,
on all cores; no design can then exceed 1 / (1/env + 1/act + 1/learn) steps per second. Every part runs in a process of
its own, with the environment variables that its group has in a program. All rates are env steps per second; an env step
is four frames.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import tyro

from boonta.agents import impala
from boonta.agents.base import Agent
from boonta.agents.config import replaced
from boonta.benchmarks import parts, sebulba, timing
from boonta.envs.atari import Atari
from boonta.nodes.hosts.placement import Placement

THREADS = "whole, threads of one process, in-process queue"


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      game: the Atari game.
      network: the agent's torso.
      num_envs: environment slots, in two groups.
      batch_size: sequences per update.
      seconds: time to measure each part, after a warm-up; the whole program is measured four times as long.
      turns: how often everything is measured.
      part: measures only this part and prints only its rate; the benchmark uses it to start its own processes.
    """

    game: str = "Pong"
    network: Literal["shallow", "nature", "deep"] = "shallow"
    num_envs: int = 32
    batch_size: int = 32
    seconds: float = 15.0
    turns: int = 3
    part: Literal["env", "act", "learn", "reverb", "pipe"] | None = None

    @property
    def env(self) -> Atari:
        return Atari(self.game)

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the program's preset, by the name of the field."""
        return {"torso.kind": self.network, "batch_size": self.batch_size, "queue_size": self.batch_size}

    @property
    def agent(self) -> Agent:
        return impala.make(replaced(impala.ATARI, self.settings), self.env.spec)


def main(options: Options) -> None:
    """Measures one part, or all parts and the whole, and prints the table."""
    if options.part is not None:
        timing.answer(rate(options.part, options))
    flags = [f"--game={options.game}", f"--num-envs={options.num_envs}"]
    flags += timing.as_flags({f"config.{name}": value for name, value in options.settings.items()})
    turns = []
    for _ in range(options.turns):
        rates = {part: timing.in_process(__file__, options, part) for part in ("env", "act", "learn", "reverb", "pipe")}
        row = timing.whole("impala_atari.py", flags, 4 * options.seconds)
        turns.append({**parts.labelled(rates), THREADS: rates["pipe"], timing.PROCESSES: row["env_steps_per_s"]})
    timing.print_table(turns, {THREADS: timing.LIMIT, timing.PROCESSES: timing.REVERB_LIMIT})
    print("\nof the last turn:")
    timing.print_profile(row)


def rate(part: str, options: Options) -> float:
    """Measures a part in this process."""
    if part == "pipe":
        whole = sebulba.Options(
            game=options.game, network=options.network, batch_size=options.batch_size, seconds=2 * options.seconds
        )
        return sebulba.measure(whole, Placement(), options.num_envs // 2).rate
    return parts.rate(part, options.agent, options.env, options.num_envs, options.seconds)


if __name__ == "__main__":
    main(tyro.cli(Options))
