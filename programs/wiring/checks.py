"""The check of a whole program before anything of it is launched."""

from __future__ import annotations

from boonta.programs.wiring import several
from boonta.programs.wiring.construction import construct
from boonta.programs.wiring.program import Program, parameters

EVALUATING = ("evaluator", "anakin")  # The roles of nodes that measure evaluations; fused ones check it themselves.
# The roles of nodes that count no env steps; those of a user's own may.
STEPLESS = ("monitor", "variables", "replay", "inference", "learner", "reanalyzer", "evaluator")


def check_nodes(program: Program) -> None:
    """Constructs every node once without handles, so that bad settings are refused before anything is launched."""
    several.check(program)
    check_threads(program)
    check_limits(program)
    no_handles = dict.fromkeys(["address", *(group.node.role for group in program.all_groups if group.is_called)])
    for group in program.all_groups:
        for i in range(group.number):
            construct(program, group, i, no_handles)


def check_limits(program: Program) -> None:
    """Raises ValueError for a limit on what nothing in the program does or measures: it would never be reached."""
    evaluates = any(group.node.role in EVALUATING for group in program.all_groups)
    for field in ("eval_return", "patience"):
        limit = getattr(program.run.stop, field)
        if limit is not None and not evaluates:
            raise ValueError(f"stop.{field} is {limit}; no evaluator is there to measure it: leave it out")
    env_steps = program.run.stop.env_steps
    if env_steps is not None and all(group.node.role in STEPLESS for group in program.all_groups):
        raise ValueError(
            f"stop.env_steps is {env_steps}; no actor is there to count env steps: leave it out, and give stop.updates"
        )


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
        given = {"threads": accepted["threads"].default, "env": program.env, **group.settings, **placed}
        if given["threads"] > 1 and getattr(given["env"], "one_thread", False):
            raise ValueError(
                f"{group.label}: one thread must make all steps of this environment, and an actor has "
                f"{given['threads']}: let processes step it, with --env.workers 1 or more{instead}"
            )
