"""The environment slots of a program's actors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boonta.agents.base import Slots
from boonta.nodes.actor import NUM_ENVS
from boonta.nodes.tables.contract import written_by
from boonta.nodes.tables.freshness import usual_slots

if TYPE_CHECKING:
    from boonta.programs.wiring.program import Group, Program


def num_envs_of(program: Program, group: Group, actors: int) -> int:
    """Environments of each actor of a group: its setting; or the class's default, or fewer where data must be fresh.

    Args:
      program: the program.
      group: the actors.
      actors: how many actors the program has.
    """
    number: int = group.setting("num_envs", NUM_ENVS)
    (table, *_) = written_by("actor", program.agent.tables)
    return usual_slots(table, actors, number) if group.settings.get("num_envs") is None else number


def slots_of(program: Program, group: Group, i: int) -> Slots:
    """The environment slots of a group's actor, among those of all the program's actors.

    Those of an actor that has joined, beyond the group's number, come after all that the program names. Groups take
    turns there, as if one of each had joined, so that no two actors have the same.
    """
    actors = [each for each in program.groups if each.node.role == "actor"]
    count = sum(each.number for each in actors)
    sizes = [num_envs_of(program, each, count) for each in actors]
    place = [each.label for each in actors].index(group.label)
    total = sum(size * each.number for size, each in zip(sizes, actors))
    if i < group.number:
        first = sum(size * each.number for size, each in zip(sizes[:place], actors)) + i * sizes[place]
    else:
        first = total + (i - group.number) * sum(sizes) + sum(sizes[:place])
    return Slots(sizes[place], first, total)
