"""Measures a replay server and a variable server under many simulated actors, and how long a large table takes to save.

    ./run python benchmarks/load.py
    ./run python benchmarks/load.py --actors 8 64 --replay-servers 2 --gigabytes 0

Each actor has a stream of its own to the replay server. Eight share a process, its variable client and its
interpreter's lock, since 64 processes would take minutes to start on two cores. They share the processor with the
servers, so latencies are those of a full machine. A consumer checks that every sequence arrives once, whole and in
order; the last turn has a slow one, so that the actors have to wait.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
import threading
import time
from typing import Any

import numpy as np
import tyro

from boonta.benchmarks import load_program, timing

PROGRAM = str(pathlib.Path(load_program.__file__))
STREAMS = 8  # Actors of a process.
SLOW_S = 0.5  # Rest of the slow consumer after each batch.
ROWS = 20  # Steps of a sequence of the large table.
CALM_S = 5.0  # Most time for which its reader is measured undisturbed.


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      actors: numbers of actors, one turn each; above 8 a multiple of it.
      seconds: time to measure each, after a minute for its start.
      gigabytes: size of the large table; 0 leaves it out.
      replay_servers: number of replay servers that share the queue.
    """

    actors: tuple[int, ...] = (1, 8, 64)
    seconds: float = 30.0
    gigabytes: float = 1.0
    replay_servers: int = 1


def main(options: Options) -> None:
    """Measures all turns, one after the other, and prints their figures."""
    turns = [(f"{actors} actors", actors, 0.0) for actors in options.actors]
    turns += [(f"{options.actors[-1]}, slow consumer", options.actors[-1], SLOW_S)] if options.actors else []
    found = {}
    for label, actors, rest_s in turns:
        processes = max(1, actors // STREAMS)
        flags = [f"--processes={processes}", f"--streams={actors // processes}", f"--rest-s={rest_s}"]
        flags.append(f"--replay-servers={options.replay_servers}")
        found[label] = figures(timing.whole(PROGRAM, flags, options.seconds))
    if found:
        print(f"{'':34s}" + "".join(f"{label:>20s}" for label in found))
        for name in next(iter(found.values())):
            print(f"{name:34s}" + "".join(f"{row[name]:20,.2f}" for row in found.values()))
    if options.gigabytes:
        for name, value in saving(options.gigabytes, min(CALM_S, options.seconds)).items():
            print(f"{name:60s} {value:9,.2f}")


def figures(row: dict[str, float]) -> dict[str, float]:
    """Extracts the compared figures from a row of metrics."""
    frame = float(np.prod(load_program.FRAME))
    latencies = {
        f"{what}, p{percent}, ms": row[f"{key}_ms_p{percent}"]
        for key, what in (("step", "a step"), ("sequence", "a step that completes one"), ("params", "params"))
        for percent in (50, 99)
    }
    return {
        "steps/s": row["env_steps_per_s"],
        "MB/s": row["env_steps_per_s"] * frame / 1e6,
        **latencies,
        "memory of the replay servers, MB": sum(row[name] for name in row if name.startswith("rss_mb/replay")),
        "memory of the variable server, MB": row["rss_mb/variables"],
        "sequences in the queue": row["trajectories/size"],
        "sequences lost or out of order": row["lost"],
        "sequences torn": row["torn"],
    }


class _Address:
    def __init__(self, port: int):
        self._port = port

    def resolve(self) -> str:
        return f"localhost:{self._port}"


def saving(gigabytes: float, calm_s: float) -> dict[str, float]:
    """Seconds to save and to restore a replay table of noise, and how long a reader waits meanwhile.

    Args:
      gigabytes: size of the table, of two sequences at least.
      calm_s: seconds for which the reader is measured before the save.
    """
    from boonta.agents import rlax_first  # noqa: F401

    # isort: split
    import portpicker
    import reverb

    from boonta.nodes.replay import Replay
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    size = int(gigabytes * 1e9 / (ROWS * np.prod(load_program.FRAME)))
    changes = {"sequence_length": ROWS, "period": ROWS, "size": size, "samples_per_insert": None, "sampler": "uniform"}
    table = dataclasses.replace(load_program.TABLE, kind="replay", **changes)
    agent = load_program.make_agent()._replace(tables=(table,))
    with tempfile.TemporaryDirectory() as folder:

        def replay() -> Replay:
            address, tables = _Address(portpicker.pick_unused_port()), str(pathlib.Path(folder, "replay"))
            return Replay("replay", address, agent, load_program.Noise.spec, tables)

        node = replay()
        node.start()
        writer = ReverbWriter(reverb.Client(node._address.resolve()), [table], 2, node.wait_for)
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
    import reverb

    waits: list[float] = []
    over = threading.Event()

    def read() -> None:
        client = reverb.Client(node._address.resolve())
        while not over.is_set():
            began = time.monotonic()
            for _ in client.sample(table, 1):
                pass
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
