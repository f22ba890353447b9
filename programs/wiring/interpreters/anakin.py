"""Anakin: actors, learner, reanalyzers and evaluator become one node, which runs them as one compiled program."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from boonta.envs.base import Env
from boonta.envs.jax.base import JaxEnv
from boonta.nodes.actor import NUM_ENVS, Actor
from boonta.nodes.anakin import Anakin
from boonta.nodes.arena import Arena
from boonta.nodes.base import Node
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.monitor import Monitor
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.watch.evaluation import NONE, Evaluation
from boonta.programs.wiring.checks import check_limits
from boonta.programs.wiring.construction import construct
from boonta.programs.wiring.evaluation import evaluation_of
from boonta.programs.wiring.interpreters import threads
from boonta.programs.wiring.program import Group, Program, group

LOG_EVERY_S = 2.0  # These programs are done in seconds where others take hours.
FUSED = (Learner, Actor, Reanalyzer, Evaluator, Arena)  # The classes whose place the one node takes.
ROLES = tuple(dict.fromkeys(node.role for node in FUSED))


def prepare(program: Program) -> Callable[[], int]:
    """See `launch.prepare`."""
    monitor, nodes = build(program)
    return lambda: threads.run(monitor, nodes)


def build(program: Program) -> tuple[Monitor, list[Node]]:
    """The monitor, and the node that acts, learns, renews targets and evaluates.

    Raises:
      ValueError: a group has no place in a fused program, the environment isn't in JAX, or a setting can't work.
    """
    require(program)
    run, one = program.run, one_of(program)
    monitor = threads.monitor_of(run, log_every_s=LOG_EVERY_S)
    given = {
        "monitor": monitor,
        "env": jax_env_of(program.env),
        "devices": run.placement.learning,
        "agreement": threads.agreement_of(monitor),
    }
    return monitor, [construct(program, one, 0, given)]


def require(program: Program) -> None:
    """See `launch.require`. What depends on the devices is left to `build`, as is what the one node itself refuses."""
    one_of(program)
    jax_env_of(program.env)
    check_limits(program)


def one_of(program: Program) -> Group:
    """The group of the one node: the program's own, or the one that takes the place of all its groups.

    Raises:
      ValueError: there are others beside the program's own; or see `fused`.
    """
    own = program.of_role("anakin")
    if own is None:
        return fused(program)
    others = [each.label for each in program.groups if each is not own]
    if others:
        raise ValueError(
            f"{program.name}: {own.label} ({own.node.__name__}) is a whole program; leave out {' and '.join(others)}"
        )
    return own


def fused(program: Program) -> Group:
    """The node that takes the place of a program's actors, learner, reanalyzers and evaluator, with their settings.

    Raises:
      ValueError: a group has no place in it, is of a class whose work it doesn't do, or has a setting that it hasn't;
        or there are no actors, or no learner.
    """
    threads.require_roles(program, "anakin", ROLES, needed=("learner", "actor"), once=ROLES)
    for part in program.groups:
        _require_replaceable(program, part)
    actors, evaluator = program.of_role("actor"), program.of_role("evaluator")
    assert actors is not None
    evaluation = NONE if evaluator is None else evaluation_of(evaluator)
    evaluation.interval(fused=True)  # Seconds are refused here, also where the node is made on another host.
    settings: dict[str, Any] = {"evaluation": evaluation}
    if "num_envs" in actors.settings:
        settings["num_envs"] = actors.number * actors.settings["num_envs"]
    elif actors.number > 1:
        raise ValueError(
            f"{program.name}: the number of {actors.label} nodes is {actors.number}; with --launch anakin it is 1, "
            "unless --num-envs says how many environments each of them stands for"
        )
    return group(Anakin, **settings | _replayed(program))


def _require_replaceable(program: Program, part: Group) -> None:
    """Raises ValueError unless the one node can take a group's place: it can't know what a user's own class does."""
    usual = [node for node in FUSED if node.role == part.node.role]
    if part.node not in usual:
        names = " or ".join(node.__name__ for node in usual)
        raise ValueError(
            f"{program.name}: {part.label} is {part.node.__name__}; --launch anakin takes the place of {names} only"
        )
    # An odd num_envs comes with one thread, see `program.group`; here nothing depends on that.
    known: tuple[str, ...] = ("num_envs", "threads")
    if part.node.role == "evaluator":  # Games of two are played with a random player; `tools.match` has others.
        known = (*(field.name for field in dataclasses.fields(Evaluation)), "opponents", "earlier", "keep")
    unknown = sorted(set(part.settings).difference(known))
    if unknown:
        raise ValueError(f"{program.name}: --launch anakin has no {unknown[0]} for its {part.label}; leave it out")


def _replayed(program: Program) -> dict[str, Any]:
    """The number of sequences that reanalyzers would replay at once, as a setting of the one node; none without them.

    Raises:
      ValueError: the agent lacks their tables.
    """
    reanalyzers = program.of_role("reanalyzer")
    if reanalyzers is None:
        return {}
    Reanalyzer.require_tables(program.agent.tables)
    return {"num_replayed": reanalyzers.number * reanalyzers.setting("num_envs", NUM_ENVS)}


def jax_env_of(env: Env) -> JaxEnv:
    """An environment that is in JAX itself, or its JAX twin.

    Raises:
      ValueError: it has neither.
    """
    if isinstance(env, JaxEnv):
        return env
    make_twin = getattr(env, "jax_twin", None)
    if make_twin is None:
        raise ValueError(
            f"--launch anakin needs an environment in JAX, and {type(env).__name__} is none: use --launch sebulba "
            "or local_mp, or write it in JAX, see docs/pages/guides/environment.md; catch, grid_world, minatar/…, "
            "gymnax/…, pgx/… and brax/… are in JAX"
        )
    return make_twin()
