"""Measures Sebulba's replay where rows lie on the host, and where they lie on the device that learns.

    ./run python benchmarks/replay_place.py --agent dqn --env-name atari/Pong
    ./run python benchmarks/replay_place.py --agent muzero --env-name atari/Pong

One thread writes random rows of a group of slots, and draws batches at the table's ratio until each has arrived on the
device; no environment steps and nothing is learned. So this is the most that a learner could be given. On the host a
batch is gathered there and all of it is sent; on the device only new rows are sent. The agent has its preset, but for
the table's size. On a CPU both lie in the same memory, and what differs is who copies: NumPy or XLA.
"""

from __future__ import annotations

import dataclasses
import importlib
import math

import jax
import tyro

from boonta.agents.base import Agent, Batch, Table
from boonta.benchmarks import parts
from boonta.benchmarks.timing import per_second, ratios, spread
from boonta.envs.base import Env
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import batch_sharding, make_mesh
from boonta.nodes.tables.host import HostStore
from boonta.nodes.tables.rows import Groups
from boonta.programs.wiring.environments import kind_of, make_env

PLACES = ("host", "device")


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      agent: an agent with one replay table, such as dqn, r2d2, muzero or sac.
      env_name: the environment, as programs take it.
      num_envs: slots of the writer.
      size: sequences that the table keeps; it is full when measuring begins.
      seconds: time to measure each place in a turn.
      turns: how often both are measured.
    """

    agent: str = "dqn"
    env_name: str = "atari/Pong"
    num_envs: int = 32
    size: int = 20_000
    seconds: float = 5.0
    turns: int = 5


def main(options: Options) -> None:
    """Prints the sequences drawn in a second in each place, and their ratio, over all turns."""
    env = make_env(options.env_name)
    module = importlib.import_module(f"boonta.agents.{options.agent}")
    agent: Agent = module.make(module.Config.preset(kind_of(env)), env.spec)
    (table,) = agent.tables
    table = dataclasses.replace(table, size=options.size, min_size=1)
    loads = {place: Load(place, agent, env, table, options.num_envs) for place in PLACES}
    turns = [{place: load.measure(options.seconds) for place, load in loads.items()} for _ in range(options.turns)]
    drawn = {place: [turn[place] for turn in turns] for place in PLACES}
    print(f"{options.agent} on {options.env_name}, {jax.devices()[0].device_kind}, medians of {options.turns} turns")
    batch, new = loads["host"].batch_bytes / 1e6, loads["host"].new_bytes / 1e6
    print(f"a batch has {batch:,.2f} MB, and {new:,.2f} MB of rows are new with each")
    for place in PLACES:
        print(f"{place:6s} {spread(drawn[place], ',.0f'):>24s} sequences/s")
    print(f"device / host {ratios(drawn['device'], drawn['host'])}")


class Load:
    """A full table in one place, its writer and its reader.

    Attributes:
      batch_bytes: bytes of a batch.
      new_bytes: bytes of the rows that are written for each batch.
    """

    def __init__(self, place: str, agent: Agent, env: Env, table: Table, num_envs: int):
        device = jax.devices()[0] if place == "device" else None
        store = HostStore([table], {"actor": Groups(1, num_envs)}, device=device)
        self._row = parts.noise(agent, env.spec, (num_envs,))
        wait_for = Node("benchmark").wait_for
        self._writer = store.open_writer([table], num_envs, wait_for, 0)
        self._dataset = store.open_dataset([table], batch_sharding(make_mesh(1, table.batch_size)), wait_for, 0)
        for _ in range(math.ceil(table.size / num_envs) * table.period + table.sequence_length):
            self._writer.append(self._row)
            while self._dataset.ready():
                self._dataset.next(0.0)
        self.batch_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(self._draw()))
        row = sum(leaf.nbytes for leaf in jax.tree.leaves(self._row)) / num_envs
        self.new_bytes = row * table.env_steps_per_update if table.samples_per_insert else 0.0

    def measure(self, seconds: float) -> float:
        """Sequences drawn in a second."""
        return per_second(lambda: len(jax.block_until_ready(self._draw()).probability), seconds)

    def _draw(self) -> Batch:
        """The next batch, once so many rows are written that the table's ratio allows it."""
        while (found := self._dataset.next(0.0)) is None:
            self._writer.append(self._row)
        return found[0]


if __name__ == "__main__":
    main(tyro.cli(Options))
