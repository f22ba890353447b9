"""Writes steps to a replay server until it is killed: `LIFE ADDRESS`. Each step tells its life, slot and number."""

from __future__ import annotations

import itertools
import sys

import numpy as np

from boonta.agents.base import Steps, Table
from boonta.nodes.base import Node
from boonta.nodes.tables.reverb.client import Client
from boonta.nodes.tables.reverb.writer import ReverbWriter

SLOTS, LENGTH = 2, 6
TABLE = Table("trajectories", "queue", LENGTH, LENGTH - 1, 1, size=4)


def step(life: int, t: int) -> Steps:
    """Step t of every slot of a writer; the observation says which step, slot and writer it is of."""
    observation = np.random.default_rng(t).random((SLOTS, 10, 5)).astype(np.float32)  # It doesn't compress.
    observation[:, 0, 0], observation[:, 0, 1], observation[:, 0, 2] = life, range(SLOTS), t
    zeros = np.zeros(SLOTS, np.int32)
    numbers = zeros.astype(np.float32)
    return Steps(observation, zeros, numbers, numbers, zeros, {}, np.full(SLOTS, t, np.int32))


def main(life: int, address: str) -> None:
    """Writes without an end."""
    writer = ReverbWriter(Client(address), [TABLE], SLOTS, Node("actor/0").wait_for)
    for t in itertools.count():
        writer.append(step(life, t))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
