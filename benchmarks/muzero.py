"""How fast MuZero learns CartPole on this machine, part by part and as a whole, and how near the whole is to the limit.

    ./run python benchmarks/muzero.py

As in `benchmarks/impala_atari.py`: one env step costs stepping, one search and its share of an update. With the three
measured alone, each on all cores, no design can do more than 1 / (1/env + 1/act + 1/learn) of them a second.
"""

from __future__ import annotations

from boonta.agents import rlax_first  # noqa: F401

# isort: split

import dataclasses
from typing import Literal

import tyro

from benchmarks import parts, timing
from boonta.agents import muzero
from boonta.agents.base import Agent
from boonta.envs.gymnasium import Gymnasium

ENV = Gymnasium("CartPole-v1")
FEW_SIMULATIONS = muzero.CARTPOLE.num_simulations


@dataclasses.dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
      num_simulations: of a search.
      num_envs: environments, over two groups; a batch of searches has half as many.
      seconds: measured per part, after warming up; the whole program gets four times as long.
      part: only this one, and only its number is printed.
    """

    num_simulations: int = 50
    num_envs: int = 64
    seconds: float = 15.0
    part: Literal["env", "act", "learn", "reverb"] | None = None

    @property
    def agent(self) -> Agent:
        config = dataclasses.replace(muzero.CARTPOLE, num_simulations=self.num_simulations)
        return muzero.make(config, ENV.spec)


def main(options: Options) -> None:
    """Measures a part, or all of them and the whole, and prints the table."""
    if options.part is not None:
        timing.answer(parts.rate(options.part, options.agent, ENV, options.num_envs, options.seconds))
    rates = {part: timing.in_process(__file__, options, part) for part in ("env", "act", "learn", "reverb")}
    few = timing.in_process(__file__, dataclasses.replace(options, num_simulations=FEW_SIMULATIONS), "act")
    limit = parts.limit(rates)
    flags = [f"--num-envs={options.num_envs}", f"--config.num-simulations={options.num_simulations}"]
    row = timing.whole("muzero_cartpole.py", flags, 4 * options.seconds)
    alone = {
        "stepping the environments, alone": rates["env"],
        f"searching, {FEW_SIMULATIONS} simulations, alone": few,
        f"searching, {options.num_simulations} simulations, alone": rates["act"],
        "updating, alone": rates["learn"],
        "writing and sampling through Reverb, alone": rates["reverb"],
    }
    timing.print_table(alone, limit, {"whole, as processes, through Reverb": row["env_steps_per_s"]})
    print(f"\nsimulations/s, alone: {few * FEW_SIMULATIONS:,.0f} and {rates['act'] * options.num_simulations:,.0f}")
    per_update = parts.env_steps_per_update(options.agent.tables[0])
    print(f"updates/s: {rates['learn'] / per_update:,.1f} alone, {row['updates_per_s']:,.1f} in the whole")
    timing.print_profile(row)


if __name__ == "__main__":
    main(tyro.cli(Options))
