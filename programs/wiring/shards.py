"""Several replay servers of one program: which programs can have them, and which groups of slots write to which."""

from __future__ import annotations

import math

from boonta.nodes.tables.division import require_divisible
from boonta.programs.wiring.program import WRITERS, Group, Program, parameters
from boonta.programs.wiring.several import require_number


def servers_of(program: Program) -> int:
    """The number of the program's replay servers."""
    return next((group.number for group in program.all_groups if group.node.role == "replay"), 0)


def first_group(group: Group, i: int) -> int:
    """The number of a node's first group of slots among those of all nodes of its group."""
    return i * _slot_groups(group)


def check(program: Program) -> None:
    """Refuses a program whose replay servers can't share its tables.

    Raises:
      ValueError: names the setting, and what can work.
    """
    servers = servers_of(program)
    require_number(program.run, "replay_servers", servers)
    if servers < 2:
        return
    for table in program.agent.tables:
        require_divisible(table, servers)
    for group in program.all_groups:
        if group.node.role == "replay" and not {"shard", "shards"} <= parameters(group.node).keys():
            raise ValueError(
                f"{group.label}: {group.node.__name__} doesn't take `shard` and `shards`, and so can't be one of "
                f"{servers} replay servers"
            )
        if group.node.role in WRITERS and "replay" in parameters(group.node):
            _require_dealt(group, servers)


def _require_dealt(group: Group, servers: int) -> None:
    """Raises ValueError unless the writers of a group fill all replay servers alike."""
    each = _slot_groups(group)
    writers = group.number * each
    if writers % servers:
        fit = servers // math.gcd(servers, each)
        raise ValueError(
            f"{group.label}: {group.number} x {each} groups of environments can't be dealt to {servers} replay servers "
            f"alike: the number of nodes must be a multiple of {fit}, or that of replay servers one of "
            f"{[n for n in range(1, writers + 1) if writers % n == 0]}"
        )


def _slot_groups(group: Group) -> int:
    """How many groups of slots a node has, each of which writes a stream: its threads."""
    usual = parameters(group.node).get("threads")
    number: int = group.settings.get("threads", 1 if usual is None else usual.default)
    return number
