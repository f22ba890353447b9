"""How a program's nodes are constructed: each one's arguments, limit and seed."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from boonta.agents.base import Steps
from boonta.nodes.acting.base import Remote, tables_only
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.base import Node
from boonta.nodes.learning.profiling import FOLDER, Profile
from boonta.nodes.snapshots.store import CHECKPOINTS, TABLES, Retention
from boonta.programs.wiring.program import WRITERS, Group, Program, parameters, required
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.several import number_of, slot_groups
from boonta.programs.wiring.slots import slots_of

LEARNING = ("learner", "anakin")  # The roles of nodes whose updates `--profile` traces.
FOLDERS = {"monitor": "", "replay": TABLES}  # A node's folder within the run's; all others get `CHECKPOINTS`.


def node_arguments(program: Program, group: Group, i: int, handles: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a node's constructor: its settings, and what it names among the following.

    A constructor may name `agent`, `env`, `spec`, `seed`, `slots`, `stop`, `log`, `folder`, `beside`, `start_from`,
    `save_every_s`, `retention`, `supervised`, `shard`, `shards`, `profile`, and handles: `monitor`, `variables`,
    `replay` and `inference`; an actor also `num_envs`, a reanalyzer also `groups`. Launchpad's nodes add `address` for
    a replay server, `agreement` for several learners, and `source`.

    Args:
      program: the node's program.
      group: the node's group.
      i: the node's number in the group.
      handles: handles by the role of their servers.
    """
    run, role = program.run, group.node.role
    offered = {
        "agent": program.agent,
        "env": program.env,
        "spec": getattr(program.env, "spec", None),
        "seed": _seed(program, group, i),
        "stop": run.stop,
        "log": run.log,
        "folder": os.path.normpath(run.path(FOLDERS.get(role, CHECKPOINTS))),
        "beside": CHECKPOINTS if role == "replay" else TABLES if program.saves_tables else "",
        "start_from": run.start_folder,
        "save_every_s": run.save_every_s,
        "retention": Retention(run.keep_newest, run.keep_every_h),
        "supervised": run.restarts_nodes,
        "profile": _profile(run, group.names[i]),
        "shard": i,
        "shards": group.number,
        **handles,
    }
    if program.acts_for(group):
        offered |= {"agent": tables_only(program.agent), "variables": Remote(handles["inference"])}
    accepted = parameters(group.node)
    if role == "actor" and {"slots", "num_envs"}.intersection(accepted):  # A user's own may have no environments.
        slots = slots_of(program, group, i)
        offered = {"slots": slots, "num_envs": slots.size} | offered
    if role == "reanalyzer":
        offered["groups"] = slot_groups(group, max(1, number_of(program, "replay")))
    chosen = {name: value for name, value in offered.items() if name in accepted}
    return {"name": group.names[i], **chosen, **group.settings}


def construct(program: Program, group: Group, i: int, handles: Mapping[str, Any]) -> Node:
    """Constructs a node. It only stores and checks its arguments; `start` does the rest in the node's own process.

    Raises:
      ValueError: the node refuses a setting, or has none with that name; or its class is no whole node.
    """
    _require_whole(group)
    arguments = node_arguments(program, group, i, handles)
    accepted = parameters(group.node)
    unknown = [name for name in group.settings if name not in accepted]
    if unknown:
        raise ValueError(
            f"{group.label}: {group.node.__name__} takes no setting {unknown[0]!r}; it takes {sorted(accepted)}"
        )
    for name in required(group.node):
        if name not in arguments:
            raise ValueError(
                f"{group.label}: {group.node.__name__} asks for {name!r}, which its group doesn't set and nodes aren't "
                "given; they get agent, env, spec, seed, stop, folder, monitor, variables, replay and others, see "
                "node_arguments in programs/wiring/construction.py"
            )
    if program.run.profile is not None and group.node.role in LEARNING and "profile" not in accepted:
        raise ValueError(f"{group.label}: {group.node.__name__} takes no profile; leave --profile out")
    node = group.node(**arguments)
    if "stopwatch" not in vars(node):
        raise ValueError(f"{group.label}: __init__ of {group.node.__name__} must call super().__init__(name, monitor)")
    node.limit_s = limit_of(program, group)
    return node


def _require_whole(group: Group) -> None:
    """Raises ValueError for a class that has no work to do, or can't be named."""
    node = group.node
    if node.step is Node.step and node.tasks is Node.tasks and node.run is Node.run:
        raise ValueError(f"{group.label}: {node.__name__} has neither a step() nor tasks of its own")
    if "name" not in parameters(node):
        raise ValueError(f"{group.label}: the first argument of {node.__name__}'s constructor must be its name")


def limit_of(program: Program, group: Group) -> float:
    """The seconds in one activity after which a node of a group hangs."""
    return (group.restarts or program.run.restarts).limit_s or group.node.limit_s


def _profile(run: Run, name: str) -> Profile | None:
    """The trace that a node is to make if it learns; several learners, and hosts, have a folder each."""
    return None if run.profile is None else Profile(run.profile, run.own.path(f"{FOLDER}/{name}"))


def signature_of(program: Program) -> Callable[[], Steps]:
    """A function that gives the shapes and dtypes of one raw step, for nodes that read a replay server's tables."""
    return functools.partial(step_shapes, program.agent, program.env.spec)


def seeds_of(program: Program) -> dict[str, int]:
    """The seeds that are derived from the run's, by the name of the node that gets each.

    A fused program has the run's alone, and splits it, see `nodes.fused.learners.streams`; the members of a population
    count up from it.
    """
    run, shared = program.run, dict[str, int]()
    if run.launch == "anakin":
        return {"anakin": run.seed}
    seeded = [group for group in program.all_groups if "seed" in parameters(group.node)]
    if run.launch == "sebulba":  # The actors of all hosts share one, from which each group of slots spawns its own.
        shared = {each.label: run.acting_seed for each in seeded if each.node.role == "actor"}
        seeded = [on_hosts(each, run) for each in seeded if each.node.role != "actor"]
    return shared | {group.names[i]: _seed(program, group, i) for group in seeded for i in range(group.number)}


def on_hosts(group: Group, run: Run) -> Group:
    """A group of a process of threads, counted over all hosts, of which each has a reanalyzer."""
    return dataclasses.replace(group, number=run.hosts.number) if group.node.role == "reanalyzer" else group


def _seed(program: Program, group: Group, i: int) -> int:
    """The seed of a group's node; all learners have one. With `seed + i`, neighbouring runs would share most seeds."""
    if not _has_own_seeds(group):
        return program.run.seed
    before = itertools.takewhile(lambda each: each.label != group.label, program.all_groups)
    number = sum(_has_own_seeds(each) for each in before)  # Of the group, among those whose seeds must differ.
    seeds = np.random.SeedSequence([program.run.acting_seed, number]).generate_state(group.number)
    return int(seeds[i] >> 1)  # So that it fits a signed int32, as environments and JAX take it.


def _has_own_seeds(group: Group) -> bool:
    """Whether a group's nodes have other seeds than the run's, and than each other."""
    several = group.number > 1 and group.node.role != "learner"
    return "seed" in parameters(group.node) and (group.node.role in WRITERS or several)
