"""The check of a whole program before anything of it is launched."""

from __future__ import annotations

from boonta.programs.wiring import learners, shards
from boonta.programs.wiring.construction import construct
from boonta.programs.wiring.program import Program, parameters
from boonta.programs.wiring.several import require_number

SEVERAL = ("inference", "replay", "variables")  # The roles of servers of which a program may have several.


def check_nodes(program: Program) -> None:
    """Constructs every node once without handles, so that bad settings are refused before anything is launched."""
    shards.check(program)
    learners.check(program)
    _check_variable_servers(program)
    check_threads(program)
    for group in program.all_groups:
        if group.number > 1 and group.is_called and group.node.role not in SEVERAL:
            raise ValueError(f"{program.name}: the number of {group.label} nodes is {group.number}; it must be 1")
    no_handles = dict.fromkeys(["address", *(group.node.role for group in program.all_groups if group.is_called)])
    for group in program.all_groups:
        for i in range(group.number):
            construct(program, group, i, no_handles)


def check_threads(program: Program) -> None:
    """Raises ValueError for actors of several threads whose environment must be stepped by one, see `envs.dm_control`.

    A serial program steps all groups of an actor in one thread.
    """
    run = program.run
    placed, instead = {}, ""
    if run.launch == "serial":
        return
    if run.launch == "sebulba":
        placed, instead = {"threads": run.placement.threads}, ", or --placement.threads 1"
    for group in program.all_groups:
        accepted = parameters(group.node)
        if "threads" not in accepted or "env" not in accepted:
            continue
        given = {"threads": accepted["threads"].default, "env": program.env, **placed, **group.settings}
        if given["threads"] > 1 and getattr(given["env"], "one_thread", False):
            raise ValueError(
                f"{group.label}: one thread must make all steps of this environment, and an actor has "
                f"{given['threads']}: let processes step it, with --env.workers 1 or more{instead}"
            )


def _check_variable_servers(program: Program) -> None:
    """Refuses variable servers that can't be several."""
    groups = [group for group in program.all_groups if group.node.role == "variables"]
    number = max((group.number for group in groups), default=0)
    require_number(program.run, "variable_servers", number)
    for group in groups:
        if number > 1 and "source" not in parameters(group.node):
            kind = group.node.__name__
            raise ValueError(f"{group.label}: {kind} takes no `source`, so that it can't be one of {number}")
