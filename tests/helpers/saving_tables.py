"""A replay server that saves a table again and again until it is killed; it is in a process of its own."""

from __future__ import annotations

import dataclasses
import itertools
from multiprocessing.connection import Connection

import numpy as np
import portpicker

from boonta.agents.base import Steps
from boonta.envs.catch import Catch
from boonta.nodes.replay import Replay
from boonta.nodes.tables.reverb.client import Client
from boonta.nodes.tables.reverb.writer import ReverbWriter
from boonta.tests.helpers import tiny

LENGTH, SLOTS = 5, 500
TABLE = dataclasses.replace(tiny.make(Catch().spec).tables[0], size=10**6)


def save_on(folder: str, said: Connection) -> None:
    """Resumes the table, adds to it and saves it under the number of its sequences, over and over.

    Sends ("resumed", number of the snapshot, sequences in it, warnings), and of each save ("saving", number) before and
    ("saved", number) after it.
    """
    address = f"localhost:{portpicker.pick_unused_port()}"
    agent = tiny.make(Catch().spec)._replace(tables=(TABLE,))
    node = Replay("replay", address, agent, Catch().spec, folder)
    node.start()
    size = node._client.server_info()[TABLE.name].current_size
    said.send(("resumed", node._number, size, node.warnings))
    for number in itertools.count(size + SLOTS, SLOTS):
        _add(address)
        said.send(("saving", number))
        node._take_checkpoint(number)
        said.send(("saved", number))


def _add(address: str) -> None:
    """Adds a sequence of every slot, of noise, which can't be compressed."""
    writer = ReverbWriter(Client(address), [TABLE], SLOTS, lambda what, poll, **_: poll(60.0))
    noise = np.random.default_rng().random((LENGTH, SLOTS, 10, 5), np.float32)
    zeros, ones = np.zeros(SLOTS, np.int32), np.ones(SLOTS, np.float32)
    for observation in noise:
        writer.append(Steps(observation, zeros, ones, ones, zeros, {}, zeros))
    writer.close()
