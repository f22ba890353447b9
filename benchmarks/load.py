"""Measures replay servers and variable servers under many simulated actors, and calculates what a pod would need.

    ./run python benchmarks/load.py
    ./run python benchmarks/load.py --actors 1 8 64 --servers 1
    ./run python benchmarks/load.py --actors --gigabytes 0 --pod

Each actor is a thread with a stream of its own to a replay server. Up to eight processes share the actors, since more
would take minutes to start on two cores. They share the processor with the servers, so latencies are those of a full
machine; the processor time by step, fetch and heartbeat says what each part costs, however full it is. A consumer
checks that every sequence arrives once, whole and in order; the last turn has a slow one, so that the actors have to
wait. At last, a large table is saved and restored.

The calculation for a pod takes those processor times from the table "200 actors" under "Load" in benchmarks/README.md,
and published speeds.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tyro

from boonta.benchmarks import load_pod, load_program, timing
from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.watch.stopping import StopRule

PROGRAM = str(pathlib.Path(load_program.__file__))
PROCESSES = 8  # Most processes of actors.
SLOW_S = 0.5  # Rest of the slow consumer after each batch.
ROWS = 20  # Steps of a sequence of the large table.
NODES, BEATS = (10, 100, 1_000), 1_000  # Numbers of nodes, whose monitor gets so many heartbeats in all.
CALM_S = 5.0  # Most time for which its reader is measured undisturbed.


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      actors: numbers of actors, 1 to 8 or a multiple of 8.
      servers: numbers of replay servers, and of variable servers; each number of actors has a turn with each.
      seconds: time to measure each turn, after a minute for its start.
      gigabytes: size of the large table; 0 leaves it out.
      pod: print the calculation for a pod.
    """

    actors: tuple[int, ...] = (200,)
    servers: tuple[int, ...] = (1, 2, 4)
    seconds: float = 30.0
    gigabytes: float = 1.0
    pod: bool = True


def main(options: Options) -> None:
    """Measures all turns, one after the other, and prints their figures."""
    for actors in options.actors:
        if actors < 1 or (actors > PROCESSES and actors % PROCESSES):
            raise SystemExit(f"--actors {actors}: it must be 1 to {PROCESSES}, or a multiple of {PROCESSES}")
    turns = [(actors, servers, 0.0) for actors in options.actors for servers in options.servers]
    turns += [(*turns[-1][:2], SLOW_S)] if turns else []
    found = {}
    for actors, servers, rest_s in turns:
        processes = min(PROCESSES, max(1, actors // PROCESSES))
        flags = [f"--processes={processes}", f"--streams={actors // processes}", f"--rest-s={rest_s}"]
        flags += [f"--replay-servers={servers}", f"--variable-servers={servers}"]
        label = f"{actors} on {servers}" + (", slow" if rest_s else "")
        found[label] = figures(timing.rows(PROGRAM, flags, options.seconds), servers)
    if found:
        print(f"{'actors on servers of each kind':44s}" + "".join(f"{label:>16s}" for label in found))
        for name in next(iter(found.values())):
            print(f"{name:44s}" + "".join(f"{row[name]:16,.2f}" for row in found.values()))
        for nodes in NODES:
            print(f"{f'processor, heartbeat of one of {nodes:,} nodes, us':60s} {heartbeat_us(nodes):9,.0f}")
    if options.gigabytes:
        for name, value in saving(options.gigabytes, min(CALM_S, options.seconds)).items():
            print(f"{name:60s} {value:9,.2f}")
    if options.pod:
        load_pod.show(load_pod.MEASURED)


def figures(rows: Sequence[dict[str, float]], servers: int) -> dict[str, float]:
    """The compared figures of a turn, from its rows of metrics.

    Args:
      rows: the rows, the oldest first; processor times are those between the first and the last.
      servers: the number of replay servers, and of variable servers.
    """
    row, frame = timing.medians(rows), float(np.prod(load_program.FRAME))
    grown = {name: rows[-1].get(name, 0.0) - rows[0].get(name, 0.0) for name in rows[-1]}
    latencies = {
        f"{what}, p{percent}, ms": row[f"{key}_ms_p{percent}"]
        for key, what in (("step", "a step"), ("sequence", "a step that completes one"), ("params", "fetching params"))
        for percent in (50, 99)
    }
    memory = {
        f"memory of a {what} server, MB": sum(row[name] for name in row if name.startswith(f"rss_mb/{role}")) / servers
        for role, what in (("replay", "replay"), ("variables", "variable"))
    }
    cpu = {role: 1e6 * grown[f"cpu_s/{role}"] for role in ("actor", "replay", "learner", "variables", "monitor")}
    return {
        "steps/s": row["env_steps_per_s"],
        "MB/s": row["env_steps_per_s"] * frame / 1e6,
        "fetches/s": grown["fetches"] / grown["seconds"],
        **latencies,
        **memory,
        "sequences in the queue": row["trajectories/size"] * servers,
        "share of time that actors wait for room": row.get("share/actor/waiting_for_room_in_trajectories", 0.0),
        "sequences lost or out of order": rows[-1]["lost"],
        "sequences torn": rows[-1]["torn"],
        f"cores busy, of {os.cpu_count()}": sum(cpu.values()) / 1e6 / grown["seconds"],
        "processor, actors, us/step": cpu["actor"] / grown["env_steps"],
        "processor, replay servers, us/step": cpu["replay"] / grown["env_steps"],
        "processor, consumer, us/step": cpu["learner"] / grown["env_steps"],
        "processor, variable servers, us/fetch": cpu["variables"] / grown["fetches"],
    }


def heartbeat_us(nodes: int) -> float:
    """Microseconds of processor time for a heartbeat of one of so many nodes, without the call between processes."""
    with tempfile.TemporaryDirectory() as folder:
        monitor = Monitor("monitor", folder, StopRule())
        each = [Node(f"actor/{i}", monitor) for i in range(nodes)]
        for node in each:
            node.count(env_steps=1.0)
            node.heartbeat()
        began = time.process_time()
        for _ in range(BEATS // nodes):
            for node in each:
                node.heartbeat()
        return 1e6 * (time.process_time() - began) / BEATS


def saving(gigabytes: float, calm_s: float) -> dict[str, float]:
    """Seconds to save and to restore a replay table of noise, and how long a reader waits meanwhile.

    Args:
      gigabytes: size of the table, of two sequences at least.
      calm_s: seconds for which the reader is measured before the save.
    """
    from boonta.nodes.replay import Replay
    from boonta.nodes.rpc.wire import free_port
    from boonta.nodes.tables.reverb.client import Client
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    size = int(gigabytes * 1e9 / (ROWS * np.prod(load_program.FRAME)))
    table = dataclasses.replace(load_program.TABLE, sequence_length=ROWS, period=ROWS, size=size)
    table = dataclasses.replace(table, kind="replay", sampler="uniform", samples_per_insert=None)
    agent = load_program.make_agent()._replace(tables=(table,))
    with tempfile.TemporaryDirectory() as folder:

        def replay() -> Replay:
            address, tables = f"localhost:{free_port()}", str(pathlib.Path(folder, "replay"))
            return Replay("replay", address, agent, load_program.Noise.spec, tables)

        node = replay()
        node.start()
        writer = ReverbWriter(Client(node._address), [table], 2, node.wait_for)
        noise = np.random.default_rng(0)
        for t in range(size * ROWS // 2):
            writer.append(load_program.steps(0, t, noise.integers(256, size=(2, *load_program.FRAME), dtype=np.uint8)))
        writer.close()
        calm, stalls, save_s = _read_meanwhile(node, table.name, calm_s)
        node._server.stop()
        again = replay()
        began = time.monotonic()
        again.start()
        restore_s = time.monotonic() - began
        restored = again._client.server_info()[table.name].current_size
        again._server.stop()
    return {
        "sequences in the table": float(size),
        "sequences restored": float(restored),
        "seconds to save": save_s,
        "seconds to restore": restore_s,
        "longest wait of a reader, undisturbed, ms": 1e3 * max(calm),
        "longest wait of a reader while saving, ms": 1e3 * max(stalls),
        "samples/s, undisturbed": len(calm) / sum(calm),
        "samples/s while saving": len(stalls) / sum(stalls),
    }


def _read_meanwhile(node: Any, table: str, calm_s: float) -> tuple[list[float], list[float], float]:
    """A reader's waits in seconds, before and during a save, and the seconds of the save."""
    waits: list[float] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            began = time.monotonic()
            node._client.sample(table, 1)
            waits.append(time.monotonic() - began)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(calm_s)
    while len(waits) < 2 and reader.is_alive():  # The first one is left out, since it connects.
        time.sleep(0.01)
    calm, began = len(waits), time.monotonic()
    node._save(number=1)
    save_s = time.monotonic() - began
    over.set()
    reader.join()
    return waits[1:calm], waits[calm:], save_s


if __name__ == "__main__":
    main(tyro.cli(Options))
