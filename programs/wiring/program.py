"""A program as a value: an agent, an environment, and the groups of nodes that work on them.

A program function makes the value; `boonta.programs.wiring.launch` passes it to the interpreter that `--launch` names.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boonta.agents.base import Agent, Policy, Table, Update
from boonta.envs.base import Env
from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.replay import Replay
from boonta.nodes.tables.contract import learned_from
from boonta.nodes.variables import VariableServer
from boonta.programs.wiring.run import Run, require_gpus
from boonta.programs.wiring.run_folder.provenance import Inner
from boonta.programs.wiring.supervision.restarts import Restarts

WRITERS = ("actor", "reanalyzer")  # Roles of nodes that write to tables, each with a seed of its own.
LABEL = re.compile(r"[\w-][\w.-]*")  # A group's, which names files of the run folder.
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
      gpus: how many GPUs each of its nodes gets for itself where nodes have processes of their own; below 1 a share of
        one GPU's memory, 0 for the CPU. None: what is usual for the role. The run's `gpus` override it.
    """

    label: str
    node: type[Node]
    number: int = 1
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    restarts: Restarts | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        if not LABEL.fullmatch(self.label):
            raise ValueError(f"a group's label is {self.label!r}; it must be of letters, digits, '_', '-' and '.'")
        if not isinstance(self.number, int):
            raise ValueError(f"the number of {self.label} nodes is {self.number!r}; it must be an int")
        if self.number < 1:
            raise ValueError(f"the number of {self.label} nodes is {self.number}; it must be at least 1")
        if self.gpus is not None:
            require_gpus(self.label, self.gpus)

    @property
    def is_called(self) -> bool:
        """Whether other nodes call those of the group; each then has an address."""
        return self.node.end_order > 0 or self.node.role == "monitor"

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names, such as "actor/0", or "learner"."""
        if self.number == 1 and self.node.role not in WRITERS:
            return (self.label,)
        return tuple(f"{self.label}/{i}" for i in range(self.number))

    def setting(self, name: str, usual: Any) -> Any:
        """An argument of its nodes' constructor: the group's, or else the class's own default; `usual` without both."""
        given = self.settings.get(name)
        parameter = parameters(self.node).get(name)
        own = None if parameter is None or parameter.default is parameter.empty else parameter.default
        return next((value for value in (given, own) if value is not None), usual)


def group(
    node: type[Node],
    number: int = 1,
    /,
    *,
    label: str = "",
    restarts: Restarts | None = None,
    gpus: float | None = None,
    **settings: Any,
) -> Group:
    """A group of nodes.

    Args:
      node: the class of its nodes.
      number: how many nodes it has.
      label: the group's name; default: the class's role, such as "actor".
      restarts: when each node hangs, and how often it is started again; None is the run's `restarts`.
      gpus: GPUs of each node, or a share of one, see `Group`.
      settings: arguments of the class's constructor; one that is None is left to the class's own default. An odd
        `num_envs` is stepped by one thread, since two that alternate have as many each.

    Raises:
      ValueError: `node` is no class of nodes.
    """
    if not (inspect.isclass(node) and issubclass(node, Node)):
        raise ValueError(
            f"group() is given {node!r}; it takes a class derived from boonta.nodes.base.Node, and its settings by name"
        )
    chosen = {name: value for name, value in settings.items() if value is not None}
    if chosen.get("num_envs", 0) % 2 and "threads" in parameters(node):
        chosen.setdefault("threads", 1)
    return Group(label or node.role or node.__name__.lower(), node, number, chosen, restarts, gpus)


@dataclasses.dataclass(frozen=True)
class Program:
    """A description of what is to run, as plain data.

    Attributes:
      name: the program's name.
      run: the run's settings: where, how and how long.
      agent: the agent that acts and learns; the replay server has its tables. None where no node needs one.
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
        if strange := [each for each in self.groups if not isinstance(each, Group)]:
            raise ValueError(f"{self.name}: groups has {strange[0]!r}; each must be made by group(...)")
        if self.agent is not None or any("agent" in required(each.node) for each in self.groups):
            self._require_agent()
        object.__setattr__(self, "groups", tuple(map(self._numbered, self.groups)))
        labels = [group.label for group in self.groups]
        added = [group.label for group in self.all_groups if group not in self.groups]
        if len({*labels, *added}) < len(labels) + len(added):
            raise ValueError(
                f"{self.name}: groups are {labels}; each needs a label of its own, group(…, label=…), and the program "
                f"itself adds {added}"
            )
        if any(group.node.role == "learner" and "replay" in parameters(group.node) for group in self.groups):
            self._require_writers()

    def _numbered(self, group: Group) -> Group:
        """The group, with as many learners as the run asks for unless the program itself names several."""
        asks = group.node.role == "learner" and group.number == 1
        return dataclasses.replace(group, number=self.run.learners) if asks else group

    def _require_agent(self) -> None:
        """Raises ValueError if the agent, or one of its tables, is something else."""
        if not isinstance(self.agent, Agent):
            found = "None; does make() return it" if self.agent is None else f"a {type(self.agent).__name__}"
            raise ValueError(f"{self.name}: the agent is {found}; it must be an agents.base.Agent")
        for part, kind in {"policy": Policy, "eval_policy": Policy, "update": Update}.items():
            found = getattr(self.agent, part)
            if not isinstance(found, kind | None):  # It may lack what no node asks for.
                raise ValueError(
                    f"{self.name}: the agent's {part} is a {type(found).__name__}; it must be an "
                    f"agents.base.{kind.__name__}"
                )
        tables = self.agent.tables
        if not isinstance(tables, tuple | list) or not all(isinstance(each, Table) for each in tables):
            raise ValueError(f"{self.name}: the agent's tables are {tables!r}; they must be a tuple of Table")
        names = [table.name for table in tables]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: the agent's tables are named {names}; each needs a name of its own")

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
        return replays and not self.run.is_unit

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


def required(node: type[Node]) -> list[str]:
    """The parameters without which a node can't be constructed."""
    found = {name: each for name, each in parameters(node).items() if name != "self" and each.default is each.empty}
    return [name for name, each in found.items() if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


ProgramFunction = Callable[..., Program]  # `(run, **settings) -> program`
