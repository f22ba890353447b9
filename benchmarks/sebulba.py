"""How fast Sebulba learns Atari on this machine, by acting batch size, and against the same nodes around Reverb.

    ./run python benchmarks/sebulba.py
    BOONTA_PYTHON=3.13 ./run python benchmarks/sebulba.py --no-reverb
    BOONTA_PYTHON=3.13 ./run python benchmarks/sebulba.py --agent muzero --no-reverb

The shape of Figure 4b of "Podracer architectures for scalable Reinforcement Learning"
(https://arxiv.org/abs/2104.06272): more environments step and act together, the learner's batch stays; and of Figure
4c, where there are more learning devices than one (`--learning 1 3`). All rates are agent (env) steps a second while
learning; an agent step is four frames. On CPU several devices share its cores: they are simulated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Literal

import jax
import tyro

from boonta.agents import impala, muzero
from boonta.agents.config import replaced
from boonta.agents.groups import Torso
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import Placement
from boonta.programs.sebulba_impala_atari import sebulba_impala_atari
from boonta.programs.sebulba_muzero_atari import sebulba_muzero_atari
from boonta.programs.wiring.sebulba import Run, Sebulba

START_S = 240.0


@dataclasses.dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
      agent: that acts and learns.
      game: of Atari.
      network: torso of IMPALA; MuZero has a tower of its own.
      simulations: of MuZero's searches.
      num_envs: acting batch sizes.
      batch_size: sequences in an update.
      acting: devices that act.
      learning: numbers of devices that learn; none takes all others.
      threads: per acting device.
      lag: lock-step, in updates; none runs freely.
      seconds: measured for each, after warming up.
      reverb: measure the program with processes and Reverb, too.
    """

    agent: Literal["impala", "muzero"] = "impala"
    game: str = "Pong"
    network: Literal["shallow", "nature", "deep"] = "shallow"
    simulations: int = 16
    num_envs: tuple[int, ...] = (32, 64, 128)
    batch_size: int = 32
    acting: int = 1
    learning: tuple[int | None, ...] = (None,)
    threads: int = 2
    lag: int | None = None
    seconds: float = 15.0
    reverb: bool = True

    def program(self, placement: Placement, folder: str) -> Sebulba:
        """What is measured. IMPALA's queue holds a block of each thread; MuZero learns as soon as it has a batch."""
        run = Run(workdir=folder)
        if self.agent == "muzero":
            replay = {"replay.batch_size": self.batch_size, "replay.min_size": self.batch_size}
            config = replaced(muzero.ATARI, {"num_simulations": self.simulations, **replay})
            return sebulba_muzero_atari(run, self.game, placement, config)
        size = max(self.batch_size, placement.num_envs)
        own = impala.Config(Torso(self.network), batch_size=self.batch_size, queue_size=size)
        return sebulba_impala_atari(run, self.game, placement, own)


def main(options: Options) -> None:
    """Measures every acting batch size, and prints a row each."""
    present = jax.devices()
    print(f"{len(present)} {present[0].device_kind} devices, JAX {jax.__version__}")
    print(f"{'':40s} {'steps/s':>9s} {'lag':>6s}  waits")
    for learning, num_envs in itertools.product(options.learning, options.num_envs):
        placement = Placement(options.acting, learning, options.threads, num_envs, options.lag)
        devices = f", {options.acting} + {learning} devices" if learning is not None else ""
        print_row(f"in-process, acting batch {num_envs}{devices}", *measure(options, placement))
    if options.reverb and options.agent == "impala":
        from benchmarks import timing

        flags = [f"--game={options.game}", f"--num-envs={options.threads * options.num_envs[0]}"]
        settings = {"torso.kind": options.network, "batch-size": options.batch_size, "queue-size": options.batch_size}
        flags += [f"--config.{name}={value}" for name, value in settings.items()]
        row = timing.whole("impala_atari.py", flags, 2 * options.seconds)
        waits = {name: row[name] for name in row if name.startswith("share/") and "/waiting_for_" in name}
        label = f"processes through Reverb, acting batch {options.num_envs[0]}"
        print_row(label, row["env_steps_per_s"], row["policy_lag"], waits)


def measure(options: Options, placement: Placement) -> tuple[float, float, dict[str, float]]:
    """Agent steps a second of the whole, the mean policy lag, and the shares of time that nodes wait."""
    with tempfile.TemporaryDirectory() as folder:
        _, nodes = options.program(placement, folder).build()
        learner, *actors = [node for node in nodes if node.name != "evaluator"]
        with running([learner, *actors]):
            warm_up(learner, str(placement))
            before, start = [node.report() for node in (learner, *actors)], time.perf_counter()
            time.sleep(options.seconds)
            after, seconds = [node.report() for node in (learner, *actors)], time.perf_counter() - start
    steps = sum(report["counts"]["env_steps"] for report in after[1:])
    steps -= sum(report["counts"]["env_steps"] for report in before[1:])
    waits = {
        f"share/{new['name'].split('/')[0]}/{activity}": (spent - old["seconds"].get(activity, 0.0)) / seconds
        for old, new in zip(before, after)
        for activity, spent in new["seconds"].items()
    }
    return steps / seconds, after[0]["metrics"]["policy_lag"], waits


def warm_up(learner: Node, what: str) -> None:
    """Waits until a learner has made its first updates; gives up on `what` if that takes too long."""
    begin = time.perf_counter()
    while learner.report()["counts"].get("updates", 0) < 5:
        if time.perf_counter() - begin > START_S:
            raise SystemExit(f"{what} had hardly begun to learn in {START_S:.0f} s")
        time.sleep(0.2)


@contextlib.contextmanager
def running(nodes: list[Node]) -> Iterator[None]:
    """Runs nodes in threads, alone, and ends them."""
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


def print_row(label: str, rate: float, lag: float, shares: dict[str, float]) -> None:
    """Prints a rate, the policy's lag in updates, and where the time of a thread goes."""
    profile = ", ".join(f"{name.removeprefix('share/')} {share:.0%}" for name, share in shares.items() if share >= 0.05)
    print(f"{label:40s} {rate:9,.0f} {lag:6.1f}  {profile}", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options))
