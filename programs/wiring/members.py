"""Members of populations: the agent, the hyper-parameters and the learner state of each, from the run's folder.

A population keeps the state of all members in `members/`, and that of one at a time in `checkpoints/`, with a record of
which one it is; see `nodes.population`.
"""

from __future__ import annotations

import pathlib
from typing import Any

import jax

from boonta.agents.base import Agent, Nest
from boonta.agents.config import replaced
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.fused.population import Member
from boonta.nodes.population import Population
from boonta.nodes.snapshots.best import read_record
from boonta.nodes.snapshots.store import MEMBERS, print_warning
from boonta.programs.wiring.construction import construct
from boonta.programs.wiring.interpreters.anakin import jax_env_of
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import BadInput, Which, checkpoints_of, require_there


def population_of(program: Program) -> Population | None:
    """The node that a program of a population consists of; None for other programs."""
    group = program.of_role("anakin")
    if group is None or not issubclass(group.node, Population):
        return None
    node = construct(program, group, 0, {"monitor": None, "env": jax_env_of(program.env), "devices": 1})
    assert isinstance(node, Population)
    return node


def require_member(population: Population | None, workdir: pathlib.Path, which: Which, member: int) -> Population:
    """The population, whose member this is.

    Raises:
      BadInput: the run is no population, it has no such member, or the choice of a checkpoint is one member's already.
    """
    if population is None:
        raise BadInput(f"member is {member}, but {workdir} holds one learner and no population; leave it out")
    seeds = [f"{each['seed']:g}" for each in population.members]
    if not 0 <= member < len(seeds):
        raise BadInput(f"member is {member}; {workdir} has 0 to {len(seeds) - 1}, whose seeds are {', '.join(seeds)}")
    if which == "best":
        raise BadInput(
            f"member is {member}, and which is 'best', the checkpoint of the one member that was the best of all: "
            "leave one of the two out"
        )
    return population


def recorded_member(workdir: pathlib.Path, which: Which) -> int | None:
    """The member that a checkpoint in `checkpoints/` is of; None where there is no checkpoint, or no record."""
    record = read_record(checkpoints_of(workdir, which), print_warning)
    return None if record is None else record.member


def agent_of(population: Population, member: int | None, **changed: Any) -> Agent:
    """The agent of one member, by its own hyper-parameters: a search has constants of its own, such as a discount.

    Args:
      population: the population.
      member: the member's number; None makes an agent by what all members share.
      changed: other values of the config.
    """
    own = {} if member is None else population.members[member]
    return population.make(replaced(population.config, {f: v for f, v in own.items() if f != "seed"} | changed))


def members_of(workdir: pathlib.Path, which: Which) -> pathlib.Path:
    """The folder of a population's checkpoints of all members, or that of the one with a number, which need be there.

    Raises:
      BadInput: there is no checkpoint with this number.
    """
    folder = workdir / MEMBERS / str(which) if isinstance(which, int) else workdir / MEMBERS
    require_there(folder, which)
    return folder


def states_in(population: Population, folder: pathlib.Path) -> Member:
    """The learner states of all members in a folder of `members_of`, with a leading axis [members].

    Raises:
      BadInput: it has no checkpoint.
      ValueError: none is sound, or it doesn't fit the population.
    """
    try:
        return Member(*Checkpointer(folder).restore(population.initial_state)[0])
    except FileNotFoundError:
        raise BadInput(f"{folder} has no checkpoint yet") from None


def params_of_member(agent: Agent, program: Program, workdir: pathlib.Path, which: Which, member: int) -> Nest:
    """The acting params of one member in a checkpoint.

    Raises:
      BadInput, ValueError: see `require_member`, `members_of` and `states_in`.
    """
    population = require_member(population_of(program), workdir, which, member)
    learner = states_in(population, members_of(workdir, which)).learner
    return agent.update.params(jax.tree.map(lambda leaf: leaf[member], learner))
