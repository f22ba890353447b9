"""Measures how fast Sebulba learns Atari on this machine, by acting batch size, and with the same nodes around Reverb.

    ./run python benchmarks/sebulba.py
    BOONTA_PYTHON=3.13 ./run python benchmarks/sebulba.py --no-reverb
    BOONTA_PYTHON=3.13 ./run python benchmarks/sebulba.py --agent muzero --no-reverb
    XLA_FLAGS=--xla_force_host_platform_device_count=4 ./run python benchmarks/sebulba.py --no-reverb \\
        --learning 1 3 --num-envs 48 --batch-size 48

It corresponds to Figure 4b of "Podracer architectures for scalable Reinforcement Learning"
(https://arxiv.org/abs/2104.06272), where the acting batch grows and the learner's batch stays the same, and to Figure
4c with several numbers of learning devices (`--learning`). All rates are env steps per second while learning; an env
step is four frames. On a CPU, several devices are simulated and share its cores.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import jax
import tyro

from boonta.agents import impala, muzero
from boonta.agents.config import replaced
from boonta.benchmarks import timing
from boonta.envs.atari import Atari
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import Placement, make_mesh, split
from boonta.nodes.tables.queue import QueueTable
from boonta.programs.impala_atari import impala_atari
from boonta.programs.muzero import muzero as muzero_program
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.interpreters.sebulba import build
from boonta.programs.wiring.launch import Program, Run

START_S = 240.0
LOOK_S = 0.2  # Time between two looks at the nodes.


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      agent: the agent.
      game: the Atari game.
      network: IMPALA's torso; MuZero has a tower of its own.
      channels: those of its convolutions or stages; by default the network's own, of "deep" 16 32 32.
      simulations: simulations per search of MuZero.
      num_envs: acting batch sizes: environments of each thread, which step and act together.
      batch_size: sequences per update.
      acting: number of acting devices.
      learning: numbers of learning devices; none takes all others.
      threads: threads per acting device.
      lag: the lag of lock-step, in updates; none runs freely.
      seconds: time to measure each row, after a warm-up.
      reverb: whether to measure IMPALA's program with processes and Reverb, too.
    """

    agent: Literal["impala", "muzero"] = "impala"
    game: str = "Pong"
    network: Literal["shallow", "nature", "deep"] = "shallow"
    channels: tuple[int, ...] = ()
    simulations: int = 16
    num_envs: tuple[int, ...] = (32, 64, 128)
    batch_size: int = 32
    acting: int = 1
    learning: tuple[int | None, ...] = (None,)
    threads: int = 2
    lag: int | None = None
    seconds: float = 15.0
    reverb: bool = True

    def settings(self, num_envs: int) -> dict[str, Any]:
        """What differs from IMPALA's preset, by the name of the field; the queue holds a block of each thread."""
        size = max(self.batch_size, num_envs)
        settings = {"torso.kind": self.network, "batch_size": self.batch_size, "queue_size": size}
        return settings | ({"torso.channels": self.channels} if self.channels else {})

    def flags(self, num_envs: int) -> list[str]:
        """The arguments with which `impala_atari.py` is the program that `program` returns, around Reverb."""
        flags = [f"--game={self.game}", f"--actors={self.acting}", f"--num-envs={self.threads * num_envs}"]
        return flags + timing.as_flags({f"config.{name}": value for name, value in self.settings(num_envs).items()})

    def program(self, placement: Placement, num_envs: int, folder: str) -> Program:
        """The program to measure. MuZero learns once it has a batch."""
        run, dealt = Run("sebulba", folder, placement=placement), placement.threads * num_envs
        if self.agent == "muzero":
            replay = {"replay.batch_size": self.batch_size, "replay.min_size": self.batch_size}
            config = replaced(muzero.ATARI, {"num_simulations": self.simulations, **replay})
            return muzero_program(run, config, Evaluation.preset("atari"), Atari(self.game), num_envs=dealt)
        own = replaced(impala.ATARI, self.settings(num_envs))
        return impala_atari(run, self.game, num_envs=dealt, config=own)


def main(options: Options) -> None:
    """Measures every acting batch size and prints a row for each."""
    present = jax.devices()
    if options.reverb and options.agent != "impala":
        raise SystemExit(f"--agent {options.agent} is measured without Reverb here: give --no-reverb")
    placements = [Placement(options.acting, learning, options.threads, options.lag) for learning in options.learning]
    for placement, num_envs in itertools.product(placements, options.num_envs):
        require_possible(options, placement, num_envs)
    print(f"{len(present)} {present[0].device_kind} devices, JAX {jax.__version__}")
    print(f"{'':40s} {'steps/s':>9s} {'lag':>6s} {'GPU busy':>9s}  waits")
    for placement, num_envs in itertools.product(placements, options.num_envs):
        learning = placement.learning
        devices = f", {options.acting} + {learning} devices" if learning is not None else ""
        print_row(f"in-process, acting batch {num_envs}{devices}", measure(options, placement, num_envs))
    if options.reverb:
        row = timing.whole("impala_atari.py", options.flags(options.num_envs[0]), 2 * options.seconds)
        waits = {name: row[name] for name in row if name.startswith("share/") and "/waiting_for_" in name}
        label = f"processes through Reverb, acting batch {options.num_envs[0]}"
        print_row(label, Measured(row["env_steps_per_s"], row["policy_lag"], [], waits))


def require_possible(options: Options, placement: Placement, num_envs: int) -> None:
    """Raises SystemExit if there are too few devices, or the batches don't divide over them."""
    try:
        learning = split(placement, jax.local_devices())[1]
        make_mesh(len(learning), options.batch_size)
        for table in options.program(placement, num_envs, "").agent.tables:
            if table.kind == "queue":
                QueueTable(table, learning).width(num_envs)
    except ValueError as error:
        raise SystemExit(str(error)) from None


class Measured(NamedTuple):
    """A program as it was measured.

    Attributes:
      rate: env steps per second.
      lag: the mean policy lag, in updates, over the time of the measurement.
      busy: samples of how busy the GPUs are; none without one.
      shares: the share of a thread's time by node and activity.
    """

    rate: float
    lag: float
    busy: list[float]
    shares: dict[str, float]


def measure(options: Options, placement: Placement, num_envs: int) -> Measured:
    """Runs the program's nodes as threads of this process, and measures them after a warm-up."""
    with tempfile.TemporaryDirectory() as folder:
        _, nodes = build(options.program(placement, num_envs, folder))
        nodes = [node for node in nodes if node.name != "evaluator"]  # The learner comes first.
        with running(nodes):
            warm_up(nodes, f"{placement} with acting batches of {num_envs}")
            before, start = [node.report() for node in nodes], time.perf_counter()
            with timing.gpu_busy([device for part in split(placement, jax.local_devices()) for device in part]) as busy:
                lags = sampled_lags(nodes[0], options.seconds)
            after, seconds = [node.report() for node in nodes], time.perf_counter() - start
            require_working(nodes)
    steps = sum(report["counts"]["env_steps"] for report in after[1:])
    steps -= sum(report["counts"]["env_steps"] for report in before[1:])
    shares = {
        f"share/{new['name'].split('/')[0]}/{activity}": (spent - old["seconds"].get(activity, 0.0)) / seconds
        for old, new in zip(before, after)
        for activity, spent in new["seconds"].items()
    }
    return Measured(steps / seconds, statistics.fmean(lags), busy, shares)


def sampled_lags(learner: Node, seconds: float) -> list[float]:
    """The policy lag of the newest update, looked at every `LOOK_S` for so many seconds, and at their end."""
    lags: list[float] = []
    end = time.perf_counter() + seconds
    while not lags or time.perf_counter() < end:
        time.sleep(max(0.0, min(LOOK_S, end - time.perf_counter())))
        lags.append(learner.report()["metrics"]["policy_lag"])
    return lags


def warm_up(nodes: Sequence[Node], what: str) -> None:
    """Waits until the first of the nodes, a learner, has made its first updates.

    Raises:
      SystemExit: a node has failed, or the learner, whose program is `what`, takes too long.
    """
    begin = time.perf_counter()
    while nodes[0].report()["counts"].get("updates", 0) < 5:
        require_working(nodes)
        if time.perf_counter() - begin > START_S:
            raise SystemExit(f"{what} had hardly begun to learn in {START_S:.0f} s")
        time.sleep(LOOK_S)


def require_working(nodes: Sequence[Node]) -> None:
    """Raises SystemExit if a node has failed."""
    for node in nodes:
        if node.failed:
            raise SystemExit(node.own_failure)


@contextlib.contextmanager
def running(nodes: list[Node]) -> Iterator[None]:
    """Runs nodes in threads, and stops them at the end."""
    threads = [threading.Thread(target=node.run, daemon=True) for node in nodes]
    for node, thread in zip(nodes, threads):
        node.monitor = None
        thread.start()
    try:
        yield
    finally:
        for node in nodes:
            node.stop()
        for thread in threads:
            thread.join(timeout=30)


def print_row(label: str, of: Measured) -> None:
    """Prints what was measured as a line of the table."""
    shown = {name.removeprefix("share/"): share for name, share in of.shares.items() if share >= 0.05}
    profile = ", ".join(f"{name} {share:.0%}" for name, share in shown.items())
    print(f"{label:40s} {of.rate:9,.0f} {of.lag:6.1f} {timing.share(of.busy):>9s}  {profile}", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options))
