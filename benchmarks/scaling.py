"""Measures how programs scale over hosts on this machine, and calculates how Sebulba would over a pod.

    ./run python benchmarks/scaling.py
    ./run python benchmarks/scaling.py --launch anakin --processes 1 2
    ./run python benchmarks/scaling.py --launch local_mp

The first table is measured weak scaling: 1, 2 and 4 processes stand for hosts. Each is pinned to one core, which
several share where there are too few, and has the same number of environments and the same batch; together they learn
as one. The column `apart` is their rate if each learns by itself; it is the reference because processes on one machine
also share caches and memory, which hosts don't. The share is the joint rate divided by that; the difference is the cost
of learning together: the all-reduce in each update, and the wait for the slowest. The last two columns are the time of
an all-reduce of all params, as one array and as the arrays that they are, each of which XLA sends by itself between
CPUs. A process of Sebulba plays Pong, and has two simulated devices, one to act and one to learn: with a single one,
XLA's only thread would wait in the reduction. One of Anakin plays MinAtar's Breakout, and has one device. With
`local_mp` it is learners that are counted: a program with as many actors shares their cores, and apart each learner has
a program.

The second table is calculated for a pod, from the 200,000 frames/s on 8 cores in "Podracer architectures for scalable
Reinforcement Learning" (https://arxiv.org/abs/2104.06272) and the number of bytes that are reduced.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax.sharding import NamedSharding, PartitionSpec

from boonta.agents import impala
from boonta.agents.groups import Torso
from boonta.benchmarks import timing
from boonta.benchmarks.sebulba import START_S, require_working, running, warm_up
from boonta.nodes.hosts.arrays import place
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.placement import Placement, make_mesh
from boonta.nodes.rpc.wire import free_port
from boonta.nodes.watch.ending import end_now
from boonta.programs.impala import impala as impala_program
from boonta.programs.impala_atari import impala_atari
from boonta.programs.wiring.environments import make_env
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.interpreters import anakin, sebulba
from boonta.programs.wiring.launch import Program, Run

FRAMES = 4  # Frames per env step.
# From Podracer's use cases of Sebulba: 8 cores, trajectories of 60 steps and acting batches of 128 give 200,000
# frames/s; 2,048 cores give 43 million.
PAPER_RATE, PAPER_CORES, PAPER_STEPS = 200_000.0, 8, 60 * 128
PAPER_POD = {2048: 43e6}
# TPU v3, which the paper used: 4 links of 70 GB/s for a chip of two cores, in a torus of two dimensions ("TPU v4: An
# Optically Reconfigurable Supercomputer", https://arxiv.org/abs/2304.01433, Table 4).
LINK_BYTES_S = 70e9
HOP_S = 1e-6  # Assumed time of one hop from chip to chip.
THREADS = 2  # Acting threads of each process.
LINGER_S = 5.0  # Time that a process stays, so that the others can finish measuring.
POLL_S = 0.2  # Time between two looks at the processes.
TAIL = 4_000  # Characters of a failed process's output that are shown.


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      launch: the way to run the program.
      processes: numbers of processes, or with local_mp of learners, one row each.
      num_envs: half of the environment slots of a process, or actor; two threads step them, where it isn't Anakin.
      batch_size: sequences per process and update.
      network: the torso of the agent; Anakin's is that of the preset.
      pinned: whether each process, or each program apart, keeps to one core, as hosts do; else they share all, with
        local_mp as many as there are learners.
      seconds: time to measure, after a warm-up.
      worker: the `Hosts` of a worker process, as JSON; the benchmark uses it to start its workers.
      folder: a worker's run folder.
    """

    launch: Literal["sebulba", "anakin", "local_mp"] = "sebulba"
    processes: tuple[int, ...] = (1, 2, 4)
    num_envs: int = 16
    batch_size: int = 16
    network: str = "shallow"
    pinned: bool = True
    seconds: float = 15.0
    worker: str = ""
    folder: str = ""

    def cores(self, number: int, present: Sequence[int]) -> list[int]:
        """The cores that so many processes, or learners, use of those present."""
        return list(present if not self.pinned and self.launch != "local_mp" else present[:number])


def main(options: Options) -> None:
    """Measures and prints both tables."""
    if options.worker:
        return work(options, Hosts(**json.loads(options.worker)))
    cores = sorted(os.sched_getaffinity(0))
    print(f"measured: weak scaling of {options.launch} on {len(cores)} cores, JAX {jax.__version__}")
    head = f"{'processes':>9s} {'cores':>6s} {'steps/s':>9s} {'apart':>9s} {'share':>6s}"
    print(f"{head} {'all-reduce':>11s} {'by array':>11s}")
    size = 0.0
    for number in options.processes:
        by, used = services if options.launch == "local_mp" else measure, options.cores(number, cores)
        apart, found = (by(options, number, used, together) for together in (False, True))
        rate, alone = (sum(one["steps_per_s"] for one in these) for these in (found, apart))
        size = found[0]["bytes"]
        slowest = (max(one[name] for one in found) for name in ("reduce_s", "by_array_s"))
        shown = [f"{1e3 * seconds:8.1f} ms" if number > 1 and seconds else "-" for seconds in slowest]
        row = f"{number:9d} {len(used):6d} {rate:9,.0f} {alone:9,.0f} {rate / alone:6.0%}"
        print(f"{row} {shown[0]:>11s} {shown[1]:>11s}", flush=True)
    if options.launch == "sebulba":
        print_pod(size)


def measure(options: Options, number: int, cores: list[int], together: bool) -> list[dict[str, float]]:
    """Starts `number` processes that learn together or each by itself; returns their measurements."""
    port = free_port()
    workers: list[subprocess.Popen] = []
    with tempfile.TemporaryDirectory() as name:
        folders = [pathlib.Path(name, str(index)) for index in range(number)]
        try:
            for index, folder in enumerate(folders):
                hosts = {"coordinator": f"127.0.0.1:{port}", "number": number, "index": index} if together else {}
                own = {cores[index % len(cores)]} if options.pinned else set(cores)
                workers.append(start_worker(options, hosts, own, folder))
            await_all(workers, folders, 2 * START_S + 10 * options.seconds)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        return [json.loads((folder / "out").read_text().splitlines()[-1]) for folder in folders]


def start_worker(options: Options, hosts: Mapping[str, Any], own: set[int], folder: pathlib.Path) -> subprocess.Popen:
    """Starts a worker on its own cores, with a run folder of its own; there it prints to the files `out` and `err`."""
    command = [sys.executable, __file__, *sys.argv[1:], "--worker", json.dumps(hosts), "--folder", str(folder)]
    devices = {"sebulba": 2, "anakin": 1}[options.launch]
    flags = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"  # The last one counts.
    )
    env = {**os.environ, "XLA_FLAGS": flags}
    pin = lambda: os.sched_setaffinity(0, own)  # noqa: E731  # JAX must count the cores after this.
    folder.mkdir()
    with open(folder / "out", "w") as out, open(folder / "err", "w") as err:
        return subprocess.Popen(command, env=env, stdout=out, stderr=err, preexec_fn=pin)


def await_all(workers: Sequence[subprocess.Popen], folders: Sequence[pathlib.Path], limit_s: float) -> None:
    """Waits until all workers, which have these folders, have ended.

    Raises:
      SystemExit: one has failed, after which others may wait for it for ever; or they take longer than `limit_s`.
    """
    until = time.monotonic() + limit_s
    while True:
        codes = [worker.poll() for worker in workers]
        for index, (code, folder) in enumerate(zip(codes, folders)):
            if code:
                raise SystemExit(f"process {index} ended with code {code}:\n{(folder / 'err').read_text()[-TAIL:]}")
        if None not in codes:
            return
        if time.monotonic() > until:
            late = ", ".join(str(index) for index, code in enumerate(codes) if code is None)
            raise SystemExit(f"after {limit_s:.0f} s these processes have not ended: {late}")
        time.sleep(POLL_S)


def services(options: Options, number: int, cores: list[int], together: bool) -> list[dict[str, float]]:
    """Measures a program of processes with `number` learners, or so many programs at once with one learner each."""

    def run(learners: int, own: set[int]) -> dict[str, float]:
        os.sched_setaffinity(0, own)  # The program's processes inherit that of this thread.
        batch = learners * options.batch_size
        flags = [f"--learners={learners}", f"--actors={learners}", f"--num-envs={THREADS * options.num_envs}"]
        flags += [f"--config.torso.kind={options.network}", f"--config.batch-size={batch}"]
        row = timing.whole("impala_atari.py", [*flags, f"--config.queue-size={2 * batch}"], options.seconds)
        return {"steps_per_s": row["env_steps_per_s"], "bytes": 0.0, "reduce_s": 0.0, "by_array_s": 0.0}

    each = [{cores[i % len(cores)]} if options.pinned else set(cores) for i in range(number)]
    shares = [(number, set(cores))] if together else [(1, own) for own in each]
    with futures.ThreadPoolExecutor(len(shares)) as threads:
        return list(threads.map(run, *zip(*shares)))


def work(options: Options, hosts: Hosts) -> None:
    """Learns with the others; prints this process's env steps per second, and the seconds of an all-reduce."""
    hosts.join("a benchmark", str(pathlib.Path(options.folder).parent))
    program = {"sebulba": pong, "anakin": breakout}[options.launch](options, hosts)
    agent = program.agent
    _, (learner, *others) = {"sebulba": sebulba.build, "anakin": anakin.build}[options.launch](program)
    acting = others[0] if others else learner  # Of several hosts of Anakin the first one counts the steps of all.
    weights = jax.eval_shape(lambda seed: agent.update.params(agent.update.init(jax.random.PRNGKey(seed))), 0)
    sizes = [leaf.size for leaf in jax.tree.leaves(weights)]
    measured = {
        "bytes": 4.0 * sum(sizes),
        "reduce_s": reduction_s([sum(sizes)]),
        "by_array_s": reduction_s(sizes),
    }
    nodes = [learner, *others[:1]]
    with running(nodes):
        warm_up(nodes, str(hosts))
        before, start = acting.report()["counts"].get("env_steps", 0), time.perf_counter()
        time.sleep(options.seconds)
        steps = acting.report()["counts"].get("env_steps", 0) - before
        measured["steps_per_s"] = steps / (time.perf_counter() - start)
        require_working(nodes)
        print(json.dumps(measured), flush=True)
        time.sleep(LINGER_S + hosts.first)
        end_now(0)  # A normal exit would wait for the others in the next update.


def pong(options: Options, hosts: Hosts) -> Program:
    """IMPALA in Atari's Pong as Sebulba."""
    batch = options.batch_size * hosts.number
    config = impala.Config(Torso(options.network), batch_size=batch, queue_size=2 * batch)  # type: ignore[arg-type]
    run = Run("sebulba", options.folder, placement=Placement(threads=THREADS), hosts=hosts)
    return impala_atari(run, "Pong", num_envs=THREADS * options.num_envs, config=config)


def breakout(options: Options, hosts: Hosts) -> Program:
    """IMPALA in MinAtar's Breakout, fused, without evaluations."""
    batch, num_envs = (hosts.number * size for size in (options.batch_size, THREADS * options.num_envs))
    config = dataclasses.replace(impala.MINATAR, batch_size=batch, queue_size=2 * batch)
    run, never = Run("anakin", options.folder, hosts=hosts), Evaluation(every_updates=0)
    return impala_program(run, config, never, make_env("minatar/breakout"), num_envs=num_envs)


def reduction_s(sizes: Sequence[int]) -> float:
    """Measures the seconds of one program that reduces arrays of so many float32 over all processes."""
    mesh = make_mesh(1, jax.process_count())
    sharding = NamedSharding(mesh, PartitionSpec("batch"))
    arrays = [place(np.ones((1, size), np.float32), sharding) for size in sizes]
    add = lambda arrays: [jnp.sum(array, axis=0) for array in arrays]  # noqa: E731
    reduce = jax.jit(add, out_shardings=NamedSharding(mesh, PartitionSpec()))
    jax.block_until_ready(reduce(arrays))
    began = time.perf_counter()
    for _ in range(20):
        jax.block_until_ready(reduce(arrays))
    return (time.perf_counter() - began) / 20


def print_pod(size: float) -> None:
    """Prints the rates of a TPU v3 pod, linear and with the cost of its links, for updates that reduce `size` bytes."""
    period = PAPER_STEPS * FRAMES / PAPER_RATE
    print(
        f"\ncalculated: {PAPER_RATE:,.0f} frames/s of {PAPER_CORES} cores (the paper's), {size / 1e6:.1f} MB reduced in"
    )
    print(
        f"each update, every {1e3 * period:.0f} ms, over rings of a torus with links of {LINK_BYTES_S / 1e9:.0f} GB/s"
    )
    print(f"{'cores':>6s} {'linear':>14s} {'all-reduce':>11s} {'with links':>14s} {'the paper':>12s}")
    for cores in (8, 16, 32, 64, 128, 512, 2048):
        linear, chips = PAPER_RATE * cores / PAPER_CORES, cores // 2
        side = math.sqrt(chips)
        reduce_s = 2 * size * (chips - 1) / chips / (2 * LINK_BYTES_S) + 4 * side * HOP_S
        rate = linear * period / (period + reduce_s)
        paper = f"{PAPER_POD[cores]:12,.0f}" if cores in PAPER_POD else f"{'-':>12s}"
        print(f"{cores:6d} {linear:14,.0f} {1e3 * reduce_s:8.3f} ms {rate:14,.0f} {paper}")


if __name__ == "__main__":
    main(tyro.cli(Options))
