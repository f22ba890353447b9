"""Several learners of one program, one a host, that learn together: which programs can have them."""

from __future__ import annotations

from boonta.nodes.tables.contract import learned_from
from boonta.nodes.tables.division import drawn_by_one
from boonta.programs.wiring.program import Group, Program, parameters
from boonta.programs.wiring.several import require_number


def meeting(group: Group) -> str:
    """The label of a group of learners, who meet at the first one, which has an address then; empty for all others."""
    return group.label if group.node.role == "learner" and group.number > 1 else ""


def check(program: Program) -> None:
    """Refuses a program whose learners can't learn together.

    Raises:
      ValueError: names the setting, and what can work.
    """
    groups = [group for group in program.groups if group.node.role == "learner"]
    number = max((group.number for group in groups), default=0)
    require_number(program.run, "learners", number)
    if number < 2:
        return
    if len(groups) > 1:
        labels = [group.label for group in groups]
        raise ValueError(f"groups {labels} are learners; only a program with one such group can have {number} of them")
    (node,) = (group.node for group in groups)
    if "agreement" not in parameters(node):
        raise ValueError(f"{node.__name__} takes no `agreement`, and so can't be one of {number} learners")
    parts = [drawn_by_one(table, number) for table in program.agent.tables]
    try:
        learned_from(parts)
    except ValueError as error:
        raise ValueError(f"each of {number} learners draws a part of every batch, and its {error}") from error
