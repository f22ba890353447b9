"""How fast IMPALA learns Atari on this machine, part by part and as a whole, and how near the whole is to the limit.

    ./run python benchmarks/impala_atari.py

One env step costs stepping, one forward pass and its share of an update. With the three measured alone, each on all
cores, no design can do more than 1 / (1/env + 1/act + 1/learn) of them a second. Every part runs in a process of its
own, with the environment variables of its group in a program. All rates are agent (env) steps a second; an agent step
is four frames.
"""

from __future__ import annotations

from boonta.agents import rlax_first  # noqa: F401

# isort: split

import dataclasses
from typing import Literal

import tyro

from benchmarks import parts, sebulba, timing
from boonta.agents import impala
from boonta.agents.base import Agent
from boonta.agents.groups import Torso
from boonta.envs.atari import Atari
from boonta.nodes.hosts.placement import Placement


@dataclasses.dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
      game: of Atari.
      network: torso of the agent.
      num_envs: environments, over two groups.
      batch_size: sequences in an update.
      seconds: measured per part, after warming up; the whole program gets four times as long.
      part: only this one, and only its number is printed.
    """

    game: str = "Pong"
    network: Literal["shallow", "nature", "deep"] = "shallow"
    num_envs: int = 32
    batch_size: int = 32
    seconds: float = 15.0
    part: Literal["env", "act", "learn", "reverb", "pipe"] | None = None

    @property
    def env(self) -> Atari:
        return Atari(self.game)

    @property
    def agent(self) -> Agent:
        config = impala.Config(Torso(self.network), batch_size=self.batch_size, queue_size=self.batch_size)
        return impala.make(config, self.env.spec)


def main(options: Options) -> None:
    """Measures a part, or all of them and the whole, and prints the table."""
    if options.part is not None:
        timing.answer(rate(options.part, options))
    rates = {part: timing.in_process(__file__, options, part) for part in ("env", "act", "learn", "reverb", "pipe")}
    limit = parts.limit(rates)
    config = {"torso.kind": options.network, "batch-size": options.batch_size, "queue-size": options.batch_size}
    flags = [f"--game={options.game}", f"--num-envs={options.num_envs}"]
    flags += [f"--config.{name}={value}" for name, value in config.items()]
    row = timing.whole("impala_atari.py", flags, 4 * options.seconds)
    alone = {
        "stepping the environments, alone": rates["env"],
        "acting, alone": rates["act"],
        "updating, alone": rates["learn"],
        "writing and sampling through Reverb, alone": rates["reverb"],
    }
    together = {
        "whole, threads of one process, in-process queue": rates["pipe"],
        "whole, as processes, through Reverb": row["env_steps_per_s"],
    }
    timing.print_table(alone, limit, together)
    timing.print_profile(row)


def rate(part: str, options: Options) -> float:
    """The part that is asked for, in this process."""
    if part == "pipe":
        whole = sebulba.Options(
            game=options.game, network=options.network, batch_size=options.batch_size, seconds=2 * options.seconds
        )
        return sebulba.measure(whole, Placement(num_envs=options.num_envs // 2))[0]
    return parts.rate(part, options.agent, options.env, options.num_envs, options.seconds)


if __name__ == "__main__":
    main(tyro.cli(Options))
