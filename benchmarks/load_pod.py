"""Calculates what replay servers, variable servers and the monitor would carry in a pod; `load.py --pod` prints it.

Every input was measured by a script of this folder, or published; none is a guess. A server is taken to use one core:
a variable server and the monitor are Python processes, whose threads share the interpreter's lock, and a replay server
was measured on two cores only. Where it does use more, its network is the limit.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from boonta.benchmarks import load_program
from boonta.nodes.rpc.wire import CONNECTIONS
from boonta.nodes.watch.pulse import HEARTBEAT_S

CORES, ACTORS = 2_048, 10_000
# "Podracer architectures for scalable Reinforcement Learning" (https://arxiv.org/abs/2104.06272): 2,048 cores of a TPU
# learn from 43 million frames/s, four for each env step. The hosts of a TPU v3 have 8 cores each.
LEARNED, CORES_ON_A_HOST = 43e6 / 4, 8
# benchmarks/README.md, "IMPALA on Atari": a core steps Pong in 2 x 163 us, and acts in 2 x 64 us; `impala_atari.py` has
# 32 slots in two groups, each of which fetches params for each sequence, of batches of 32.
PLAYED_S, SLOTS, GROUPS, BATCH = 2 * (163e-6 + 64e-6), 32, 2, 32
# "Bytes of a step" there: Pong's frames compress. Noise doesn't.
PONG_BYTES, NOISE_BYTES = 928.0, float(math.prod(load_program.FRAME))
# "Calls between nodes" there: params of 10 MB between hosts, and over a Unix socket; a number between hosts.
TLS, CALL_US = 66 / 43, 149.0
# Egress of a VM with 22 vCPUs, c3-standard-22 (https://cloud.google.com/compute/docs/network-bandwidth).
NIC_BYTES_S, NIC = 23e9 / 8, "c3-standard-22, 23 Gbit/s"


class Measured(NamedTuple):
    """Microseconds of processor time, from the column "200 on 1" under "Load" in benchmarks/README.md.

    Attributes:
      actor_us, replay_us, consumer_us: by env step: writing, keeping, reading.
      variables_us: by fetch of params.
      heartbeat_us: by heartbeat of one of 10 nodes, and of one of 1,000, without the call.
    """

    actor_us: float
    replay_us: float
    consumer_us: float
    variables_us: float
    heartbeat_us: tuple[float, float]


MEASURED = Measured(actor_us=188, replay_us=23, consumer_us=28, variables_us=560, heartbeat_us=(51, 84))


class Part(NamedTuple):
    """A kind of node in the pod.

    Attributes:
      name: what it is, and which of its limits this is.
      load: what all of them have to carry, in units of the limit.
      unit: these units.
      limit: what one carries.
      alone: how many actors a single one carries, where that isn't in proportion to its load.
    """

    name: str
    load: float
    unit: str
    limit: float
    alone: float = 0.0

    @property
    def needed(self) -> int:
        """How many are needed."""
        return math.ceil(self.load / self.limit)

    @property
    def actors(self) -> int:
        """How many actors a single one carries."""
        return int(self.alone or ACTORS * self.limit / self.load)


def steps_per_s(measured: Measured) -> tuple[float, float]:
    """Env steps per second that the pod's learners take, and that its actors make with a core each."""
    return LEARNED, ACTORS / (PLAYED_S + 1e-6 * measured.actor_us)


def fetches_per_s(rate: float) -> float:
    """Fetches of params per second at this rate of steps: each group of slots, once for each of its sequences."""
    return rate * GROUPS / (SLOTS * load_program.TABLE.period)


def monitor(nodes: int, measured: Measured) -> Part:
    """The monitor's core: a heartbeat costs a call, a part of its own, and one for each node that the monitor knows."""
    few, many = measured.heartbeat_us
    each = (many - few) / (1_000 - 10)
    own = CALL_US + few - 10 * each
    alone = (math.sqrt(own**2 + 4e6 * each * HEARTBEAT_S) - own) / (2 * each)
    return Part("monitor, a core", nodes * (own + each * nodes) / HEARTBEAT_S / 1e6, "cores", 1.0, alone)


def parts(measured: Measured) -> list[Part]:
    """The limits of the pod's nodes, those first that the fewest actors reach."""
    rate = min(steps_per_s(measured))
    fetches, hosts = fetches_per_s(rate), CORES // CORES_ON_A_HOST
    read = load_program.TABLE.sequence_length / load_program.TABLE.period  # Steps read by step written.
    found = [
        Part("replay server, a core", rate * measured.replay_us / 1e6, "cores", 1.0),
        Part("replay server, network, noise", rate * read * NOISE_BYTES / 1e9, "GB/s", NIC_BYTES_S / 1e9),
        Part("replay server, network, Pong", rate * read * PONG_BYTES / 1e9, "GB/s", NIC_BYTES_S / 1e9),
        Part("variable server, a core", fetches * measured.variables_us * TLS / 1e6, "cores", 1.0),
        Part("variable server, network", fetches * load_program.PARAMS / 1e9, "GB/s", NIC_BYTES_S / 1e9),
        Part("variable server, connections", float(ACTORS), "", float(CONNECTIONS)),
        monitor(ACTORS + hosts, measured),
        Part("monitor, connections", float(ACTORS + hosts), "", float(CONNECTIONS)),
        Part("learners, a core each", rate * measured.consumer_us / 1e6, "cores", float(hosts)),
    ]
    return sorted(found, key=lambda part: part.actors)


def show(measured: Measured) -> None:
    """Prints the calculation."""
    learned, played = steps_per_s(measured)
    rate, hosts = min(learned, played), CORES // CORES_ON_A_HOST
    print(f"\ncalculated: {CORES:,} learner cores ({hosts} learners) and {ACTORS:,} actors with a core each")
    print(f"the learners take {learned / 1e6:.1f} million steps/s, the actors could make {played / 1e6:.1f} million;")
    print(f"{fetches_per_s(rate):,.0f} fetches/s of {load_program.PARAMS / 1e6:.1f} MB; network: {NIC}")
    print(f"{'limit':32s} {'load':>16s} {'one carries':>16s} {'needed':>7s}")
    for part in parts(measured):
        needed = f"{part.needed:7,d}" if "server" in part.name else ""
        print(f"{part.name:32s} {part.load:9,.1f} {part.unit:6s} {part.actors:9,d} actors {needed:>7s}")
    servers = max(part.needed for part in parts(measured) if part.name.startswith("variable"))
    turn_s = (servers - 1) * measured.variables_us * TLS / 1e6
    updates = rate / (load_program.TABLE.period * BATCH * hosts)
    late = f"{turn_s:.2f} s, or {turn_s * updates:.0f} updates"
    print(f"the first of {servers} variable servers serves all others once in {late}")
