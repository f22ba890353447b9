"""A program as a value: an agent, an environment, and the groups of nodes that work on them.

A program function makes the value; `boonta.programs.wiring.launch` passes it to the interpreter that `--launch` names.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from boonta.agents.base import Agent, Steps
from boonta.envs.base import Env
from boonta.nodes.acting.base import Remote, tables_only
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.replay import Replay
from boonta.nodes.snapshots.store import CHECKPOINTS, TABLES, Retention
from boonta.nodes.tables.contract import learned_from
from boonta.nodes.variables import VariableServer
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.run_folder.provenance import Inner
from boonta.programs.wiring.slots import slots_of
from boonta.programs.wiring.supervision.restarts import Restarts

WRITERS = ("actor", "reanalyzer")  # Roles of nodes that write to tables, each with a seed of its own.
FOLDERS = {"monitor": "", "replay": TABLES}  # A node's folder within the run's; all others get `CHECKPOINTS`.
# By role, the end of a message to a program that has no such nodes: what it may do instead.
INSTEAD = {
    "reanalyzer": ". MuZero's update can reanalyze by itself: "
    "programs/muzero.py --config.reanalyze-ratio 0.8 --config.reanalyze update"
}


@dataclasses.dataclass(frozen=True)
class Group:
    """Nodes of one class that do the same work.

    Attributes:
      label: the group's name, also for its processes, logs and metrics.
      node: the class of its nodes.
      number: how many nodes it has.
      settings: arguments of the class's constructor besides those that every node gets, see `node_arguments`.
      restarts: when each of its nodes hangs, and how often it is started again; None is the run's `restarts`.
    """

    label: str
    node: type[Node]
    number: int = 1
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    restarts: Restarts | None = None

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError(f"the number of {self.label} nodes is {self.number}; it must be at least 1")

    @property
    def is_called(self) -> bool:
        """Whether other nodes call those of the group; each then has an address."""
        return self.node.serves > 0 or self.node.role == "monitor"

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names, such as "actor/0", or "learner"."""
        if self.number == 1 and self.node.role not in WRITERS:
            return (self.label,)
        return tuple(f"{self.label}/{i}" for i in range(self.number))


def group(
    node: type[Node], number: int = 1, /, *, label: str = "", restarts: Restarts | None = None, **settings: Any
) -> Group:
    """A group of nodes.

    Args:
      node: the class of its nodes.
      number: how many nodes it has.
      label: the group's name; default: the class's role, such as "actor".
      restarts: when each node hangs, and how often it is started again; None is the run's `restarts`.
      settings: arguments of the class's constructor; one that is None is left to the class's own default. An odd
        `num_envs` is stepped by one thread, since two that alternate have as many each.
    """
    chosen = {name: value for name, value in settings.items() if value is not None}
    if chosen.get("num_envs", 0) % 2 and "threads" in parameters(node):
        chosen.setdefault("threads", 1)
    return Group(label or node.role or node.__name__.lower(), node, number, chosen, restarts)


@dataclasses.dataclass(frozen=True)
class Program:
    """A description of what is to run, as plain data.

    Attributes:
      name: the program's name.
      run: the run's settings: where, how and how long.
      agent: the agent that acts and learns; the replay server has its tables.
      env: the environment that actors act in.
      groups: the groups of nodes. They may leave out the services that they call: the monitor, the variable server and
        the replay server.
      inner: the program whose runs are the members of this one, a population; None for other programs.
    """

    name: str
    run: Run
    agent: Agent
    env: Env
    groups: Sequence[Group]
    inner: Inner | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(map(self._numbered, self.groups)))
        labels = [group.label for group in self.groups]
        if len(set(labels)) < len(labels):
            raise ValueError(f"{self.name}: groups are {labels}; each needs a label of its own")
        if any(group.node.role == "learner" and "replay" in parameters(group.node) for group in self.groups):
            self._require_writers()

    def _numbered(self, group: Group) -> Group:
        """The group, with as many learners as the run asks for unless the program itself names several."""
        asks = group.node.role == "learner" and group.number == 1
        return dataclasses.replace(group, number=self.run.learners) if asks else group

    def _require_writers(self) -> None:
        """Raises ValueError if no node fills a table that the learner reads: the learner would wait for ever."""
        roles = {group.node.role for group in self.groups}
        for table in learned_from(self.agent.tables):
            if table.writer not in roles:
                raise ValueError(
                    f"the learner reads table {table.name!r}, which {table.writer}s fill, and the program has none"
                    + INSTEAD.get(table.writer, "")
                )

    @property
    def all_groups(self) -> tuple[Group, ...]:
        """The groups, services before the groups that call them.

        A service that no node asks for is left out; one that the program names itself replaces the default.
        """
        asked = {"monitor"}.union(*(parameters(group.node) for group in self.groups))
        variables, replay = group(VariableServer, self.run.variable_servers), group(Replay, self.run.replay_servers)
        usual = (group(Monitor), variables, replay)
        own = {each.node.role: each for each in (*usual, *self.groups)}
        services = [own[each.node.role] for each in usual if each.node.role in asked]
        inference = [group for group in self.groups if group.node.role == "inference"]
        rest = [group for group in self.groups if group not in services and group not in inference]
        return (*services, *inference, *rest)

    @property
    def saves_tables(self) -> bool:
        """Whether a replay server saves its tables beside the learner's checkpoints; those of threads aren't saved."""
        replays = any(group.node.role == "replay" for group in self.all_groups)
        return replays and self.run.launch not in ("sebulba", "anakin")

    @property
    def restarts(self) -> dict[str, Restarts]:
        """The number of times that each node is started again when it dies, by name; empty if the run restarts none."""
        if not self.run.restarts_nodes:
            return {}
        return {name: group.restarts or self.run.restarts for group in self.all_groups for name in group.names}

    def acts_for(self, group: Group) -> bool:
        """Whether inference nodes act for the nodes of a group."""
        return group.node.role in WRITERS and self.of_role("inference") is not None

    def of_role(self, role: str) -> Group | None:
        """The group whose nodes have a role; None if there is none."""
        return next((group for group in self.groups if group.node.role == role), None)


def parameters(node: type[Node]) -> dict[str, inspect.Parameter]:
    """A node's constructor parameters by name, including those that it passes on to its base class."""
    found: dict[str, inspect.Parameter] = {}
    for kind in node.__mro__:
        if "__init__" not in vars(kind):
            continue
        own = inspect.signature(kind).parameters
        found = {**own, **found}
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.values()):
            break
    return found


def node_arguments(program: Program, group: Group, i: int, served: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a node's constructor: its settings, and what it names among the following.

    A constructor may name `agent`, `env`, `spec`, `seed`, `slots`, `stop`, `log`, `folder`, `beside`, `start_from`,
    `save_every_s`, `retention`, `supervised`, `shard`, `shards`, and handles: `monitor`, `variables`, `replay` and
    `inference`. Launchpad's nodes add `address` for a replay server, `agreement` for several learners, and `source`.

    Args:
      program: the node's program.
      group: the node's group.
      i: the node's number in the group.
      served: handles by the role of their servers.
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
        "shard": i,
        "shards": group.number,
        **served,
    }
    if program.acts_for(group):
        offered |= {"agent": tables_only(program.agent), "variables": Remote(served["inference"])}
    accepted = parameters(group.node)
    if role == "actor" and {"slots", "num_envs"}.intersection(accepted):  # A user's own may have no environments.
        slots = slots_of(program, group, i)
        offered = {"slots": slots, "num_envs": slots.size} | offered
    chosen = {name: value for name, value in offered.items() if name in accepted}
    return {"name": group.names[i], **chosen, **group.settings}


def construct(program: Program, group: Group, i: int, served: Mapping[str, Any]) -> Node:
    """Constructs a node. It only stores and checks its arguments; `start` does the rest in the node's own process.

    Raises:
      ValueError: the node refuses a setting, or has none with that name.
    """
    arguments = node_arguments(program, group, i, served)
    accepted = parameters(group.node)
    unknown = [name for name in group.settings if name not in accepted]
    if unknown:
        raise ValueError(
            f"{group.label}: {group.node.__name__} takes no setting {unknown[0]!r}; it takes {sorted(accepted)}"
        )
    node = group.node(**arguments)
    node.limit_s = limit_of(program, group)
    return node


def limit_of(program: Program, group: Group) -> float:
    """The seconds in one activity after which a node of a group hangs."""
    return (group.restarts or program.run.restarts).limit_s or group.node.limit_s


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


ProgramFunction = Callable[..., Program]  # `(run, **settings) -> program`
