"""Whether a program's full tables, and the batches of one dispatch, fit into memory; told before anything starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from boonta.agents.base import Steps, Table
from boonta.nodes.hosts.placement import split
from boonta.nodes.learning.loops import updates_in_dispatch
from boonta.nodes.tables import contract
from boonta.nodes.tables.division import SERVERS, divided
from boonta.programs.wiring.construction import signature_of
from boonta.programs.wiring.machine import memory
from boonta.programs.wiring.program import Program, parameters
from boonta.programs.wiring.several import number_of

# Reverb compresses with Snappy, which makes of 64 bytes three at best.
BEST_COMPRESSION = 64 / 3
REST, REST_PER_ACTION = 4_096, 8  # Bytes.
SHARE = 0.5  # Of a device's free memory, for what is replayed; the learner needs the rest.
FIELDS = {"queue": "--config.queue-size", "replay": "--config.replay.size"}  # Those of our agents, by the table's kind.


class Place(NamedTuple):
    """Where tables are kept.

    Attributes:
      name: what it is called.
      most: bytes that tables could take if nothing else did.
      left: bytes that they can take now.
      compression: how many bytes of a table can at best be kept in one.
      copies: how many of each table are kept; below 1 where each of several hosts keeps its part.
    """

    name: str
    most: int
    left: int
    compression: float = 1.0
    copies: float = 1.0


def check(program: Program, apart: bool = False) -> str:
    """A warning if the program's tables, when they are full, may not fit where they are kept; empty if they do.

    Args:
      program: the program.
      apart: whether each of several replay servers has a machine of its own, of which this is one.

    Raises:
      ValueError: they can't, even if nothing else were there, or the batches that a learner holds at once can't; the
        message names the setting.
    """
    if not apart:  # There the learner has a machine of its own.
        require_room_for_batches(program)
    tables: Sequence[Table] = program.agent.tables if program.agent else ()
    place: Place | None = None
    if program.run.launch == "sebulba":
        from boonta.programs.wiring.interpreters import sebulba  # The processes of a cluster are spared it.

        tables = [sebulba.share_of(table, program.run.hosts) for table in tables]
        learning = split(program.run.placement, jax.local_devices())[1]
        if tables[0].kind == "queue":
            place = _devices(learning)
        else:
            place = _devices(learning[:1]) if replays_on_device(program, tables, learning[0]) else _host()
    elif program.run.launch == "anakin":
        tables = [table for table in tables if table.kind == "replay"]  # There a queue holds the newest batch alone.
        own = jax.local_devices()[: program.run.placement.learning]
        place = _devices(own, _members(program) / program.run.hosts.number)
    elif any(group.node.role == "replay" for group in program.all_groups):
        place = _host(BEST_COMPRESSION)
        tables = [divided(table, number_of(program, "replay") if apart else 1, SERVERS) for table in tables]
    tables = _stored(tables)
    if not tables or place is None or place.copies * _size(tables, _generous(program)) <= place.left:
        return ""
    return judge(tables, _traced(program), place)


def _traced(program: Program, learns_here: bool = False) -> Steps:
    """One raw step, as the policy stores it; see `require_room_for_batches` for `learns_here`."""
    # Tracing a policy may start JAX, which must leave accelerators to the nodes.
    if program.run.launch == "local_mp" and not learns_here:
        jax.config.update("jax_platforms", "cpu")
    return signature_of(program)()


def require_room_for_batches(program: Program, learns_here: bool = False) -> None:
    """Refuses more batches in one dispatch than memory holds: they would compile for ever.

    Args:
      program: the program.
      learns_here: whether this process is the learner's own, to which JAX must not lose the accelerator.

    Raises:
      ValueError: the message names the setting.
    """
    group = program.of_role("learner")
    if program.run.launch == "anakin" or group is None or "updates_per_step" not in parameters(group.node):
        return
    if program.agent is None or not program.agent.tables:  # The learner is the user's own.
        return
    given = group.setting("updates_per_step", None)
    updates = updates_in_dispatch(program.agent.update, given)
    if updates < 2:  # One batch is less than its table, for which there must be room, too.
        return
    table = contract.learned_from(program.agent.tables)[0]
    if program.run.launch == "sebulba":
        learning = split(program.run.placement, jax.local_devices())[1]
        place = _devices(learning, 1 / program.run.hosts.number)
    else:
        place = _host()
    if place is None or updates * place.copies * contract.bytes_of_batch(table, _generous(program)) <= place.most:
        return
    batch = place.copies * contract.bytes_of_batch(table, _traced(program, learns_here))
    if updates * batch > place.most:
        name = "the agent's update.at_once" if given is None else "updates_per_step"
        most = math.floor(place.most / batch)
        raise ValueError(
            f"{group.label}: {name} is {updates}; this many batches take {updates * batch / 1e9:,.1f} GB, and "
            f"{place.name} has {place.most / 1e9:,.1f} GB of memory, "
            + (f"so that it must be at most {most} (--updates-per-step)" if most else "less than a single batch takes")
        )


def replays_on_device(program: Program, tables: Sequence[Table], device: jax.Device) -> bool:
    """Whether Sebulba's replay is kept on this device, its first that learns; see `placement.replay`.

    Args:
      program: the program.
      tables: this host's part of the agent's tables.
      device: the device. One without memory of its own has nothing to gain.
    """
    if program.run.placement.replay != "auto":
        return program.run.placement.replay == "device"
    own = _own_memory([device])
    return own is not None and _size(_stored(tables), _generous(program)) <= SHARE * own.left


def _stored(tables: Sequence[Table]) -> Sequence[Table]:
    """The largest table of each kind of writer: it has all sequences of the others, which share its rows."""
    largest = {table.writer: table for table in sorted(tables, key=lambda table: table.size)}
    return list(largest.values())


def _size(tables: Sequence[Table], step: Steps) -> int:
    return sum(contract.bytes_when_full(table, step) for table in tables)


def _generous(program: Program) -> Steps:
    """One raw step with more extras than policies store; determining their exact size would take seconds."""
    spec = program.env.spec
    actions = getattr(spec.actions, "num_values", math.prod(spec.actions.shape))
    rest = jax.ShapeDtypeStruct((REST + REST_PER_ACTION * actions,), np.uint8)
    return Steps(spec.observations, (), (), (), (), rest, (), ())


def judge(tables: Sequence[Table], step: Steps, place: Place) -> str:
    """See `check`.

    Args:
      tables: those that are kept.
      step: shapes and dtypes of one raw step.
      place: the place where they are kept.
    """
    full = [place.copies * contract.bytes_when_full(table, step) for table in tables]
    if sum(full) <= place.left:
        return ""
    largest = tables[full.index(max(full))]
    sizes = ", ".join(f"{table.name} {bytes_ / 1e9:,.1f} GB" for table, bytes_ in zip(tables, full))
    taken = f"full tables take up to {sizes}" + (" before compression" if place.compression > 1 else "")
    if sum(full) > place.most * place.compression:
        allowed = math.floor(largest.size * place.most * place.compression / sum(full))
        raise ValueError(
            f"table {largest.name!r}: size is {largest.size}; {taken}, and {place.name} has {place.most / 1e9:,.1f} GB "
            f"of memory, so that it must be at most {allowed} ({FIELDS[largest.kind]})"
        )
    return (
        f"{taken}, and {place.left / 1e9:,.1f} GB of the memory of {place.name} are free: if this run ends for lack of "
        f"memory, lower the size of table {largest.name!r} ({FIELDS[largest.kind]})"
    )


def _host(compression: float = 1.0) -> Place | None:
    """This machine's memory; None where it isn't known."""
    room = memory.room()
    return None if room is None else Place("this machine", room.most, room.left, compression)


def _devices(devices: Sequence[jax.Device], copies: float = 1.0) -> Place | None:
    """The memory of devices, over which tables are split; that of this machine if they have none of their own."""
    place = _own_memory(devices) or _host()
    return None if place is None else place._replace(copies=copies)


def _own_memory(devices: Sequence[jax.Device]) -> Place | None:
    """The memory that devices have of their own; None if they have none."""
    stats = [device.memory_stats() or {} for device in devices]
    if not all("bytes_limit" in each for each in stats):
        return None
    most = sum(each["bytes_limit"] for each in stats)
    taken = sum(each.get("bytes_in_use", 0) for each in stats)
    name = f"{len(devices)} {devices[0].platform} device" + ("s" if len(devices) > 1 else "")
    return Place(name, most, most - taken)


def _members(program: Program) -> int:
    """How many learners a fused program has, each with a table of its own."""
    group = program.of_role("anakin")
    given = {} if group is None else group.settings
    combinations = math.prod(len(values) for values in given.get("vary", {}).values())
    return len(given.get("members", ())) or combinations * given.get("seeds", 1)
