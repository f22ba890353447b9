"""The check of a whole program before anything of it is launched."""

from __future__ import annotations

from boonta.programs.wiring import learners, shards
from boonta.programs.wiring.program import Program, construct

SEVERAL = ("inference", "replay")  # The roles of servers of which a program may have several.


def check_nodes(program: Program) -> None:
    """Constructs every node once without handles, so that bad settings are refused before anything is launched."""
    shards.check(program)
    learners.check(program)
    for group in program.all_groups:
        if group.number > 1 and group.is_called and group.node.role not in SEVERAL:
            raise ValueError(f"{program.name}: the number of {group.label} nodes is {group.number}; it must be 1")
    no_handles = dict.fromkeys(["address", *(group.node.role for group in program.all_groups if group.is_called)])
    for group in program.all_groups:
        for i in range(group.number):
            construct(program, group, i, no_handles)
