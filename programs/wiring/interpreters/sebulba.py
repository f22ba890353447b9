"""Sebulba: a program's nodes as threads of one process per host, its devices split between acting and learning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax

from boonta.agents.base import Author, Slots, Table
from boonta.envs.base import Env
from boonta.nodes.acting.lock_step import LockStep
from boonta.nodes.actor import NUM_ENVS
from boonta.nodes.base import Node
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.placement import Placed, make_mesh, split
from boonta.nodes.learning.loops import updates_in_dispatch
from boonta.nodes.monitor import Monitor
from boonta.nodes.tables.contract import learned_from
from boonta.nodes.tables.division import HOSTS, divided
from boonta.nodes.tables.host import HostStore
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.tables.rows import Groups
from boonta.nodes.variables import Colocated, DeviceVariables
from boonta.programs.wiring import capacity
from boonta.programs.wiring.checks import check_limits, check_threads
from boonta.programs.wiring.construction import construct, on_hosts
from boonta.programs.wiring.interpreters import threads
from boonta.programs.wiring.machine import cores
from boonta.programs.wiring.program import WRITERS, Group, Program
from boonta.programs.wiring.several import slot_groups
from boonta.programs.wiring.slots import num_envs_of

ROLES = ("learner", "actor", "reanalyzer", "evaluator")


class Shared(NamedTuple):
    """Objects that the nodes of a process share.

    Attributes:
      monitor: the node that others report to.
      acting: the devices that act.
      num_learning: the number of devices that learn.
      replay: the store of sequences.
      variables: the newest params, on the acting devices.
      lock_step: decides which params act when; None where actors run freely.
    """

    monitor: Monitor
    acting: Sequence[jax.Device]
    num_learning: int
    replay: QueueTable | HostStore
    variables: DeviceVariables
    lock_step: LockStep | None


def prepare(program: Program) -> Callable[[], int]:
    """See `launch.prepare`."""
    monitor, nodes = build(program)
    return lambda: threads.run(monitor, nodes)


def build(program: Program) -> tuple[Monitor, list[Node]]:
    """The monitor, and the other nodes of this host.

    Only the first of several hosts has the evaluator; each has all other nodes. Together the hosts fill a batch. A
    reanalyzer acts on the last acting device, as the evaluator does.

    Raises:
      ValueError: a node or setting can't work here; the message names it, its value and the values allowed.
    """
    require(program)
    shared = _share(program)
    nodes: list[Node] = []
    for group in program.groups:
        role = group.node.role
        if role == "learner":
            given = {
                "monitor": shared.monitor,
                "replay": shared.replay,
                "variables": shared.variables,
                "devices": shared.num_learning,
                "agreement": threads.agreement_of(shared.monitor),
            }
            nodes.append(construct(program, group, 0, given))
        elif role == "actor":
            nodes += [_actor(program, group, shared, i, device) for i, device in enumerate(shared.acting)]
        elif role == "reanalyzer":
            nodes.append(_reanalyzer(program, group, shared))
        elif program.run.hosts.first:
            params = Colocated(shared.variables, shared.acting[-1])
            nodes.append(construct(program, group, 0, {"monitor": shared.monitor, "variables": params}))
    return shared.monitor, nodes


def require(program: Program) -> None:
    """See `launch.require`. What depends on the devices, and on the number of hosts, is left to `build`."""
    threads.require_roles(program, "sebulba", ROLES, needed=("learner",), once=("learner", *WRITERS))
    for group in program.groups:
        if group.number > 1:
            raise ValueError(
                f"{program.name}: the number of {group.label} nodes is {group.number}; with --launch sebulba it is 1 "
                "here, and --placement.acting is the number of devices that act, each with an actor"
            )
    check_threads(program)
    check_limits(program)


def _actor(program: Program, group: Group, shared: Shared, i: int, device: jax.Device) -> Node:
    """The actor of one acting device. `first_group` and `slots` count over those of all actors on all hosts."""
    placement, run = program.run.placement, program.run
    params = Colocated(shared.variables, device, shared.lock_step)
    env = threaded(program.env, cores.usable() // placement.groups)
    if isinstance(shared.replay, QueueTable):
        env = Placed(env, device)
    size = num_envs_of(program, group, run.hosts.number * placement.acting)
    number = run.hosts.index * placement.acting + i
    given = {
        "monitor": shared.monitor,
        "variables": params,
        "replay": shared.replay,
        "env": env,
        "seed": run.acting_seed,
        "first_group": number * placement.threads,
        "threads": placement.threads,
        "slots": Slots(size, number * size, run.hosts.number * placement.acting * size),
        "num_envs": size,
    }
    settings = {name: value for name, value in group.settings.items() if name != "threads"}  # The placement has them.
    named = dataclasses.replace(group, number=placement.acting, settings=settings)
    return construct(program, named, i, given)


def threaded(env: Env, number: int) -> Env:
    """The environment with this number of threads to step its slots, at least one, where its user has left it open.

    In a process of its own an actor is one of many, and has a core. Here a group of environments is all that keeps its
    share of the host's cores busy.
    """
    if dataclasses.is_dataclass(env) and getattr(env, "num_threads", number) is None:
        return dataclasses.replace(env, num_threads=max(1, number))
    return env


def _reanalyzer(program: Program, group: Group, shared: Shared) -> Node:
    """This host's reanalyzer. Its seed and its name are among those of the reanalyzers of all hosts."""
    params = Colocated(shared.variables, shared.acting[-1])
    given = {"monitor": shared.monitor, "variables": params, "replay": shared.replay}
    return construct(program, on_hosts(group, program.run), program.run.hosts.index, given)


def _share(program: Program) -> Shared:
    placement, run = program.run.placement, program.run
    acting, learning = split(placement, jax.local_devices())
    make_mesh(len(learning), learned_from(program.agent.tables)[0].batch_size)  # It refuses what doesn't divide.
    own = [share_of(table, run.hosts) for table in program.agent.tables]
    learned = learned_from(own)
    writers, lock_step = _writers(program), None
    replay = _open(program, own, writers, learning)
    if placement.lag is not None:
        _require_single_updates(program)
        lock_step = LockStep(placement.lag, *writers["actor"], learned[0].batch_size)
        _require_fresh(lock_step, learned[0])
    return Shared(
        threads.monitor_of(run), acting, len(learning), replay, DeviceVariables(acting, placement.lag or 0), lock_step
    )


def _require_fresh(lock_step: LockStep, table: Table) -> None:
    """Raises ValueError if lock-step makes data older than the table allows."""
    staleness = lock_step.lag + max(1, lock_step.group_size // lock_step.batch_size) - 1
    if table.max_staleness is not None and staleness > table.max_staleness:
        raise ValueError(
            f"placement.lag is {lock_step.lag}, with {lock_step.group_size} environments that step together and "
            f"batches of {lock_step.batch_size}: data is {staleness} updates old, and table {table.name!r} has "
            f"max_staleness {table.max_staleness}"
        )


def _require_single_updates(program: Program) -> None:
    """Raises ValueError unless the learner makes and publishes one update at a time, as lock-step requires."""
    learner = program.of_role("learner")
    assert learner is not None
    updates = updates_in_dispatch(program.agent.update, learner.setting("updates_per_step", None))
    cadence = {"updates_per_step": updates, "publish_every": learner.setting("publish_every", 1)}
    if set(cadence.values()) != {1}:
        raise ValueError(f"placement.lag is {program.run.placement.lag}, but {cadence}: lock-step needs 1 of both")


def _writers(program: Program) -> dict[Author, Groups]:
    """The groups of slots that write on this host.

    Raises:
      ValueError: the environments of an actor don't divide over its threads.
    """
    placement, hosts = program.run.placement, program.run.hosts
    writers: dict[Author, Groups] = {}
    if actors := program.of_role("actor"):
        num_envs = num_envs_of(program, actors, hosts.number * placement.acting)
        if num_envs < 1 or num_envs % placement.threads:
            raise ValueError(
                f"{actors.label}: num_envs is {num_envs}; it must divide over the threads of an acting device, "
                f"{placement.threads} (--placement.threads)"
            )
        writers["actor"] = Groups(placement.groups, num_envs // placement.threads)
    if reanalyzers := program.of_role("reanalyzer"):
        number = slot_groups(reanalyzers, servers=1)
        writers["reanalyzer"] = Groups(number, reanalyzers.setting("num_envs", NUM_ENVS) // number)
    return writers


def _open(
    program: Program, tables: Sequence[Table], writers: Mapping[Author, Groups], learning: Sequence[jax.Device]
) -> QueueTable | HostStore:
    """The store of this host's tables."""
    lag, run = program.run.placement.lag, program.run
    queues = [table for table in tables if table.kind == "queue"]
    for table in tables:
        if lag is not None and (table.kind, table.writer) != ("queue", "actor"):
            raise ValueError(
                f"placement.lag is {lag}; lock-step needs a queue that actors fill, and {table.name!r} is a "
                f"{table.kind} that {table.writer}s fill"
            )
    if not queues:
        device = learning[0] if capacity.replays_on_device(program, tables, learning[0]) else None
        return HostStore(tables, writers, run.acting_seed + run.hosts.index, device)
    if len(tables) > 1:
        names = [table.name for table in tables]
        raise ValueError(f"{program.name}: tables are {names}; in one process a queue must be the only one")
    groups = writers[queues[0].writer]
    queue = QueueTable(queues[0], learning, None if lag is None else groups.number)
    queue.width(groups.num_envs)  # It refuses groups that don't fill whole batches.
    return queue


def share_of(table: Table, hosts: Hosts) -> Table:
    """One host's part of the table."""
    return divided(table, hosts.number, HOSTS)
