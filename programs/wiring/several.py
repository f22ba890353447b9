"""Several replay servers, variable servers or learners of one program: who can have them, and who calls which."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from boonta.nodes.actor import NUM_ENVS
from boonta.nodes.tables.contract import learned_from
from boonta.nodes.tables.division import drawn_by_one, require_divisible
from boonta.programs.wiring.program import WRITERS, Group, Program, parameters
from boonta.programs.wiring.run import SEVERAL, Run

FIELDS = {"replay": "replay_servers", "variables": "variable_servers", "learner": "learners"}  # Of `Run`, by role.
# By role, what a node's constructor must take so that the node can be one of several.
TAKES = {"replay": {"shard", "shards"}, "variables": {"source"}, "learner": {"agreement"}}
SERVERS = ("inference", "replay", "variables")  # The roles of nodes that are called and of which there may be several.


def number_of(program: Program, role: str) -> int:
    """How many nodes of a role a program has, in its largest group."""
    return max((group.number for group in program.all_groups if group.node.role == role), default=0)


def dealt(handles: Mapping[str, Sequence[Any]], i: int) -> dict[str, Any]:
    """The handles, by role, that node i of a group calls: where several nodes serve, callers are dealt to them."""
    return {role: each[i % len(each)] for role, each in handles.items()}


def first_group(group: Group, i: int, servers: int) -> int:
    """The number of a node's first group of slots among those of all nodes of its group."""
    return i * slot_groups(group, servers)


def slot_groups(group: Group, servers: int) -> int:
    """How many groups of slots a node has, each of which writes to one replay server.

    Those of an actor are its threads. A reanalyzer has no use for more than one, unless it would leave out servers.

    Args:
      group: the node's group.
      servers: how many replay servers the program has.

    Raises:
      ValueError: the group asks for none.
    """
    if "groups" in parameters(group.node):
        chosen: int = group.settings.get("groups", servers // math.gcd(servers, group.number))
        if chosen < 1:
            raise ValueError(f"{group.label}: groups is {chosen}; it must be at least 1")
        return chosen
    threads: int = group.setting("threads", 1)
    return threads


def meeting(group: Group) -> str:
    """The label of a group of learners, who meet at the first one, which has an address then; empty for all others."""
    return group.label if group.node.role == "learner" and group.number > 1 else ""


def check(program: Program) -> None:
    """Refuses a program with several nodes of a kind of which it can have one.

    Raises:
      ValueError: names the group or the setting, and what can work.
    """
    for role, field in FIELDS.items():
        number = number_of(program, role)
        _require_number(program.run, field, number)
        for group in program.all_groups:
            missing = sorted(TAKES[role] - parameters(group.node).keys())
            if number > 1 and group.node.role == role and missing:
                raise ValueError(
                    f"{group.label}: {group.node.__name__} takes no `{missing[0]}`, and so can't be one of {number} "
                    f"{field.replace('_', ' ')}"
                )
    _check_tables(program, number_of(program, "replay"))
    _check_learners(program, number_of(program, "learner"))
    for group in program.all_groups:
        if group.number > 1 and group.is_called and group.node.role not in SERVERS:
            raise ValueError(f"{program.name}: the number of {group.label} nodes is {group.number}; it must be 1")


def _require_number(run: Run, field: str, own: int) -> None:
    """Raises ValueError if the run asks for another number than the program itself has, or its launch can't have that.

    Args:
      run: the run.
      field, own: its setting of that number, and the number in the program itself.
    """
    asked = getattr(run, field)
    if asked not in (1, own):
        has = f"names {own}" if own else "has none"
        raise ValueError(f"{field} is {asked}, and the program itself {has}: leave it out, or change the program")
    if own > 1 and run.launch not in SEVERAL[field]:
        raise ValueError(f"the program has {own} {field.replace('_', ' ')}; with --launch {run.launch} it can have one")


def _check_tables(program: Program, servers: int) -> None:
    """Raises ValueError if replay servers can't share the program's tables."""
    if servers < 2:
        return
    for table in program.agent.tables:
        require_divisible(table, servers)
    for group in program.all_groups:
        if group.node.role in WRITERS and "replay" in parameters(group.node):
            _require_dealt(group, servers)


def _require_dealt(group: Group, servers: int) -> None:
    """Raises ValueError unless the writers of a group fill all replay servers alike."""
    each = slot_groups(group, servers)
    writers = group.number * each
    num_envs = group.setting("num_envs", NUM_ENVS)
    if "groups" in parameters(group.node) and num_envs % each:
        raise ValueError(
            f"{group.label}: num_envs is {num_envs}; {group.number} of these nodes fill {servers} replay servers alike "
            f"in {each} groups of slots each: it must be a multiple of {each}, or the number of nodes one of {servers}"
        )
    if writers % servers:
        fit = servers // math.gcd(servers, each)
        raise ValueError(
            f"{group.label}: {group.number} x {each} groups of environments can't be dealt to {servers} replay servers "
            f"alike: the number of nodes must be a multiple of {fit}, or that of replay servers one of "
            f"{[n for n in range(1, writers + 1) if writers % n == 0]}"
        )


def _check_learners(program: Program, number: int) -> None:
    """Raises ValueError if learners can't learn together."""
    labels = [group.label for group in program.groups if group.node.role == "learner"]
    if len(labels) > 1:  # Groups would save to one folder and send to one variable server, and know nothing of it.
        raise ValueError(
            f"groups {labels} are learners; only a program with one such group can have {max(number, len(labels))} of "
            "them, group(Learner, 2)"
        )
    if number < 2:
        return
    parts = [drawn_by_one(table, number) for table in program.agent.tables]
    try:
        learned_from(parts)
    except ValueError as error:
        raise ValueError(f"each of {number} learners draws a part of every batch, and its {error}") from error
