"""Measures what a step of Atari costs on its way into a replay server and in it: bytes sent, bytes kept, and time.

    ./run python benchmarks/replay_bytes.py --game Pong --steps 20000

For each bootstrap length it fills the table of `dqn.DQN` with real frames. A proxy between writer and server counts the
bytes that writers send; the server's resident memory, and what its checkpoint takes, are those of all steps. The last
column draws batches while nobody writes. The last row is the replay in this process, which compresses nothing. Only
CPython 3.10 has Reverb.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import socket
import tempfile
import threading
import time
from typing import Any

import numpy as np
import psutil
import tyro

from boonta.agents import dqn
from boonta.agents.base import Agent
from boonta.agents.config import replaced
from boonta.benchmarks import parts
from boonta.benchmarks.replay_server import served
from boonta.benchmarks.timing import per_second
from boonta.envs.atari import Atari
from boonta.envs.base import EnvSpec
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import batch_sharding, make_mesh
from boonta.nodes.tables.host import HostStore
from boonta.nodes.tables.reverb import writer
from boonta.nodes.tables.rows import Groups


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      game: the game, played at random.
      steps: env steps that are written.
      num_envs: slots of the writer.
      lengths: bootstrap lengths.
      rows_under_way: steps that share the wait for the server; None is the writer's own number.
      seconds: time to draw batches.
    """

    game: str = "Pong"
    steps: int = 20_000
    num_envs: int = 16
    lengths: tuple[int, ...] = (1, 3, 5)
    rows_under_way: int | None = None
    seconds: float = 5.0


def main(options: Options) -> None:
    """Prints a row for each bootstrap length."""
    writer.ROWS_UNDER_WAY = options.rows_under_way or writer.ROWS_UNDER_WAY
    env = Atari(options.game)
    rows = frames(env, options)
    print(f"{'N':>2s} {'sent':>8s} {'resident':>9s} {'saved':>8s} {'steps/s':>9s} {'drawn/s':>9s}   (bytes by step)")
    for length in options.lengths:
        agent = make_agent(env, 2 * options.steps, bootstrap_length=length)
        sent, resident, saved, written, drawn = measure(agent, env.spec, rows, options)
        print(f"{length:2d} {sent:8,.0f} {resident:9,.0f} {saved:8,.0f} {written:9,.0f} {drawn:9,.0f}", flush=True)
    print(f"in this process {in_process(env, rows, options):9,.0f} bytes by step")


def make_agent(env: Atari, size: int, **settings: Any) -> Agent:
    """`dqn.DQN` with a table of this size, from which batches may be drawn without limit."""
    config = replaced(dqn.DQN, {"replay.min_size": 1, "replay.size": size, **settings})
    agent = dqn.make(config, env.spec)
    (table,) = agent.tables
    return agent._replace(tables=(dataclasses.replace(table, samples_per_insert=None),))


def in_process(env: Atari, shown: list[Any], options: Options) -> float:
    """Bytes by step that the replay of threads takes when it is full."""
    number = (len(shown) - 1) // 2 * options.num_envs  # It is filled, and then written over.
    agent = make_agent(env, number)
    (table,) = agent.tables
    store = HostStore([table], {table.writer: Groups(1, options.num_envs)})
    stream = store.open_writer([table], options.num_envs, Node("benchmark").wait_for, 0)
    zeros = parts.zeros(agent, env.spec, (options.num_envs,))
    before = psutil.Process().memory_info().rss
    for timestep in shown:
        stream.append(zeros._replace(**timestep._asdict()))
    return (psutil.Process().memory_info().rss - before) / number


def frames(env: Atari, options: Options) -> list[Any]:
    """Time steps of all slots, played at random."""
    batch, rng = env(options.num_envs, 0), np.random.default_rng(0)
    shown = [batch.reset()]
    while len(shown) * options.num_envs < options.steps:
        shown.append(batch.step(rng.integers(0, env.spec.actions.num_values, options.num_envs).astype(np.int32)))
    return shown


def measure(agent: Agent, spec: EnvSpec, shown: list[Any], options: Options) -> tuple[float, ...]:
    """Bytes by step that are sent, resident and saved; steps written and sequences drawn in a second."""
    from boonta.nodes.tables.reverb.client import Client
    from boonta.nodes.tables.reverb.dataset import ReverbDataset

    (table,) = agent.tables
    like = step_shapes(agent, spec)
    zeros = parts.zeros(agent, spec, (options.num_envs,))
    node = Node("benchmark")
    with contextlib.ExitStack() as ends:
        folder = ends.enter_context(tempfile.TemporaryDirectory())
        port, process = ends.enter_context(served([table], like, folder))
        proxy = ends.enter_context(Proxy(port))
        before = process.memory_info().rss
        stream = writer.ReverbWriter(Client(f"localhost:{proxy.port}"), [table], options.num_envs, node.wait_for)
        began = time.perf_counter()
        for timestep in shown:
            stream.append(zeros._replace(**timestep._asdict()))
        stream.flush()
        seconds = time.perf_counter() - began
        resident = process.memory_info().rss - before
        client = Client(f"localhost:{port}")
        saved = sum(file.stat().st_size for file in pathlib.Path(client.checkpoint()).rglob("*") if file.is_file())
        sharding = batch_sharding(make_mesh(1, table.batch_size))
        dataset = ReverbDataset([client], [table], sharding, like, node.wait_for, updates=0)

        def draw() -> float:
            node.wait_for("a batch", dataset.next)
            return table.batch_size

        drawn = per_second(draw, options.seconds)
        dataset.close()
        number = len(shown) * options.num_envs
        return proxy.sent / number, resident / number, saved / number, number / seconds, drawn


class Proxy:
    """Passes connections on to a port of this machine, while `with` lasts.

    Attributes:
      port: where it listens.
      sent: bytes that clients have sent.
    """

    def __init__(self, target: int):
        self.sent = 0
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *error: Any) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # It has been closed.
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for each in (client, server):  # Small messages must not wait for each other.
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for pair in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.sent += len(data) if counted else 0
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main(tyro.cli(Options))
