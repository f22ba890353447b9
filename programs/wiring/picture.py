"""The picture of a program: its groups of nodes, and the arrows along which steps, batches and params go."""

from __future__ import annotations

from boonta.programs.wiring.program import WRITERS, Group, Program, parameters
from boonta.programs.wiring.run_folder.recorded import Arrow, Picture, PictureGroup


def picture_of(program: Program) -> Picture:
    """The picture of a program, as it runs."""
    if program.run.launch == "anakin":  # One node is all of it.
        return Picture((PictureGroup("anakin", "Anakin", ("anakin",)),))
    groups = program.all_groups
    arrows = [arrow for group in groups for arrow in _arrows(program, group)]
    labels = {group.node.role: group.label for group in groups}  # A service has one group.
    named = [Arrow(labels.get(a.source, a.source), labels.get(a.target, a.target), a.what) for a in arrows]
    drawn = tuple(PictureGroup(group.label, group.node.__name__, _names(program, group)) for group in groups)
    return Picture(drawn, tuple(named))


def _names(program: Program, group: Group) -> tuple[str, ...]:
    """The names of a group's nodes; Sebulba has as many actors as devices that act."""
    number = program.run.placement.acting
    if program.run.launch == "sebulba" and group.node.role == "actor":
        return tuple(f"{group.label}/{i}" for i in range(number))
    return group.names


def _arrows(program: Program, group: Group) -> list[Arrow]:
    """The arrows of a group from and to the services that its constructor names."""
    role, label, asked = group.node.role, group.label, parameters(group.node)
    arrows = []
    if "replay" in asked:
        if role not in WRITERS or role == "reanalyzer":
            arrows.append(Arrow("replay", label, "batches"))
        if role in WRITERS:
            arrows.append(Arrow(label, "replay", "steps"))
    if program.acts_for(group):
        arrows += [Arrow(label, "inference", "observations"), Arrow("inference", label, "actions")]
    elif "variables" in asked:
        ends = (label, "variables") if role == "learner" else ("variables", label)
        arrows.append(Arrow(*ends, "params"))
    return arrows
