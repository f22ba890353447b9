"""Evaluates finished runs, or a whole sweep, on many episodes each.

./run boonta evaluate runs/impala-catch runs/muzero-catch --episodes 100
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np
import tyro

from boonta.agents.config import with_values
from boonta.envs.jax.base import JaxEnv
from boonta.nodes.acting.local import Play, evaluated_policy, jit_policy
from boonta.nodes.anakin import Anakin
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.evaluating import EvalEpisodes, Evaluating, play_out
from boonta.nodes.fused import stage
from boonta.nodes.fused.population import Member
from boonta.nodes.population import Population
from boonta.nodes.watch.evaluation import MAX_STEPS
from boonta.nodes.watch.stopwatch import Stopwatch
from boonta.programs.experiments import evaluations
from boonta.programs.experiments.evaluations import Evaluated
from boonta.programs.experiments.folders import folders_of
from boonta.programs.wiring.command_line.faults import command, require_at_least, tell
from boonta.programs.wiring.evaluation import evaluation_of
from boonta.programs.wiring.interpreters.anakin import jax_env_of
from boonta.programs.wiring.members import agent_of, members_of, population_of, recorded_member, states_in
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import BadInput, Which, checkpoints_of, named, require_there
from boonta.programs.wiring.supervision.view import with_error
from boonta.programs.wiring.trained import program_of, restored


@dataclasses.dataclass(frozen=True)
class Asked:
    """How a run is evaluated: the arguments of `evaluate`."""

    which: Which
    episodes: int
    seed: int
    deterministic: bool | None
    max_steps: int
    again: bool


def evaluate(
    workdirs: tyro.conf.Positional[tuple[pathlib.Path, ...]],
    which: Which = "newest",
    episodes: int = 100,
    seed: int = 0,
    deterministic: bool | None = None,
    max_steps: int = MAX_STEPS,
    again: bool = False,
) -> None:
    """Plays episodes with a checkpoint of each run, and appends their returns to evaluations.jsonl in its folder.

    Means of what the environment measures besides returns are printed and kept there, too. What is found there is not
    done again. Environments in JAX are played in one compiled program. Of a population, a checkpoint has all members,
    and each is evaluated; only the best one is of one member.

    Args:
      workdirs: the runs' folders, or folders of sweeps, all of whose runs are evaluated.
      which: the checkpoint: newest, best (by evaluations), or one by its number of updates.
      episodes: number of episodes of each run, at least 1.
      seed: seed of the environments and the policy.
      deterministic: whether the policy takes its best action, or draws one as actors do; default: as in the run's own
        evaluations.
      max_steps: env steps after which an episode is cut, and counts with what it has earned.
      again: evaluate also what has been.
    """
    require_at_least(1, episodes=episodes, max_steps=max_steps)
    require_at_least(0, seed=seed)
    asked = Asked(which, episodes, seed, deterministic, max_steps, again)
    failed = 0
    for folder in folders_of(workdirs):
        try:
            for found, is_new in evaluate_run(folder, asked):
                print(f"{folder}: {_described(found)}{'' if is_new else ', from before'}", flush=True)
        except Exception as error:  # Also one of the user's environment. The other runs are still evaluated.
            failed += 1
            tell(error, folder)
    if failed:
        sys.exit(1)


def evaluate_run(folder: pathlib.Path, asked: Asked) -> Iterator[tuple[Evaluated, bool]]:
    """Evaluates one run; yields each evaluation, and whether it is new.

    Raises:
      BadInput, ValueError, OSError: the run can't be evaluated; the message says why.
      FloatingPointError: the environment has shown a NaN. Other errors are the environment's own.
    """
    program = program_of(folder)
    if program.env.spec.num_players != 1:
        raise BadInput("it is a game of two players, whose runs `boonta match` evaluates")
    deterministic = _deterministic(program) if asked.deterministic is None else asked.deterministic
    together, best = population_of(program), None
    if together is not None and asked.which == "best":
        best = recorded_member(folder, "best")
        program = dataclasses.replace(program, agent=agent_of(together, best))
    policy = evaluated_policy(program.agent, deterministic)
    population = together if asked.which != "best" else None
    if population is None:
        path = checkpoints_of(folder, asked.which)
        require_there(path, asked.which)
    else:
        path = members_of(folder, asked.which)
    number = Checkpointer(path).latest()
    if number is None:
        raise BadInput(f"it has no {asked.which} checkpoint yet")
    wanted = Evaluated(
        number, asked.which, asked.episodes, policy.deterministic, asked.seed, returns=(), max_steps=asked.max_steps
    )
    before = {} if asked.again else {found.key: found for found in evaluations.read(folder)[0]}
    members: Iterable[int | None] = [best]
    if population is not None:
        members = range(len(population.members))
    expected = [dataclasses.replace(wanted, member=member) for member in members]
    if all(each.key in before for each in expected):
        yield from ((before[each.key], False) for each in expected)
        return
    if population is None:
        played = [_play(program, folder, number, asked, policy)]
    else:
        played = _play_members(population, members_of(folder, number), asked, deterministic)
    found = []
    for each, one in zip(expected, played):
        finite = {name: value for name, value in one.metrics.items() if math.isfinite(value)}  # As the file has them.
        returns = tuple(value if math.isfinite(value) else None for value in map(float, one.returns))
        found.append(dataclasses.replace(each, returns=returns, cut=one.cut, metrics=finite))
    yield from ((each, True) for each in found)  # First, since they may have taken hours, and a disk may be full.
    evaluations.append(folder, found)


def _deterministic(program: Program) -> bool | None:
    """Whether the run's own evaluations are deterministic; None for the agent's own choice."""
    made = [evaluation_of(group) for group in program.groups if issubclass(group.node, Evaluating | Anakin)]
    return made[0].deterministic if made else None


def _play(program: Program, folder: pathlib.Path, number: int, asked: Asked, policy: Any) -> EvalEpisodes:
    """The episodes of the checkpoint of this number; a run that goes on may have a newer one by now."""
    params, _ = restored(program.agent, folder, number)
    env = _in_jax(program)
    if env is None:
        batch = program.env(asked.episodes, asked.seed)
        play = Play(batch, jit_policy(policy), asked.seed, Stopwatch())
        return play_out(play, params, asked.max_steps)

    def one(params: Any, key: jax.Array) -> stage.Played:
        return stage.play_out(env, policy, params, asked.episodes, asked.max_steps, key)

    return _summed(jax.device_get(jax.jit(one)(params, jax.random.PRNGKey(asked.seed))))


def _play_members(node: Population, path: pathlib.Path, asked: Asked, deterministic: bool | None) -> list[EvalEpisodes]:
    """The same of each member of a population in a checkpoint; all meet the same episodes."""

    def one(member: Member, key: jax.Array) -> stage.Played:
        agent = node.make(with_values(node.config, member.values))
        policy, params = evaluated_policy(agent, deterministic), agent.update.params(member.learner)
        return stage.play_out(node.env, policy, params, asked.episodes, asked.max_steps, key)

    key = jax.random.PRNGKey(asked.seed)
    played = jax.device_get(jax.jit(jax.vmap(one, in_axes=(0, None)))(states_in(node, path), key))
    return [_summed(jax.tree.map(lambda leaf, i=i: leaf[i], played)) for i in range(len(played.over))]


def _summed(played: stage.Played) -> EvalEpisodes:
    """Episodes that a device has played, as those of a host are."""
    over = int(np.sum(played.over))
    means = {name: float(np.sum(values) / over) for name, values in played.metrics.items() if over}
    return EvalEpisodes(played.returns.tolist(), len(played.over) - over, means)


def _in_jax(program: Program) -> JaxEnv | None:
    """The program's environment in JAX; None if it has none."""
    try:
        return jax_env_of(program.env)
    except ValueError:
        return None


def _described(found: Evaluated) -> str:
    """An evaluation in one line."""
    who = f"member {found.member}, " if found.member is not None else ""
    how = "deterministic" if found.deterministic else "sampled"
    what = f"{who}{named(found.which)}, {found.updates:,} updates: {with_error(found.mean, found.error)}"
    what += f" over {found.episodes} episodes, {how}"
    infinite = found.returns.count(None)
    what += f", {infinite} whose return isn't finite" if infinite else ""
    what += f", {found.cut} cut after {found.max_steps:,} steps" if found.cut else ""
    return what + "".join(f", {name} {value:.4g}" for name, value in found.metrics.items())


main = functools.partial(command, evaluate, ValueError, OSError)
