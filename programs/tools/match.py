"""Plays a run's agent against another.

./run boonta match runs/x --opponent uct:1000
"""

from __future__ import annotations

import functools
import pathlib
import time

import numpy as np
import tyro

from boonta.agents.base import Agent
from boonta.envs.base import Env, Player
from boonta.envs.followed import Followed, with_open_spiel_states
from boonta.envs.open_spiel import OpenSpiel
from boonta.envs.players import PerfectPlayer, RandomPlayer, UctPlayer
from boonta.nodes.acting.local import jit_policy
from boonta.nodes.matches import elo
from boonta.nodes.matches.match import OPENING, MakeSide, MatchResult, play_match, player_side, policy_side, result
from boonta.nodes.watch.stopwatch import Stopwatch
from boonta.programs.experiments.evaluations import MATCHES
from boonta.programs.wiring.command_line.faults import command
from boonta.programs.wiring.run import BadInput, Which, named
from boonta.programs.wiring.trained import agent_and_env, params_of


def match(
    workdir: tyro.conf.Positional[pathlib.Path],
    opponent: str,
    which: Which = "newest",
    member: int | None = None,
    opponent_which: Which = "newest",
    opponent_member: int | None = None,
    games: int = 50,
    simulations: int | None = None,
    opening: int | None = None,
    max_steps: int = 1_000,
    seed: int = 0,
) -> np.ndarray:
    """Plays games of two with a checkpoint's params, half of them as either player, and prints the results.

    It refuses a match that measures nothing, where each game was cut, or over before a side had a move of its own.
    The results are also added to matches.txt in the run's folder, for `boonta report`.

    Args:
      workdir: the run's folder.
      opponent: random, uct:ROLLOUTS, perfect, or the folder of another run of the same game.
      which: the run's checkpoint: newest, best (by evaluations), or one by its number of updates.
      member: the member of a population, by its number; default: the one that was the best.
      opponent_which, opponent_member: the same of another run.
      games: number of games, even.
      simulations: simulations per search of the run in `workdir`; default: as in its own evaluations.
      opening: random moves that start each game; each opening is played from both sides. Default: 2 against another
        run, because they might otherwise repeat a game, and 0 against a player.
      max_steps: number of moves of both players after which an unfinished game is a draw.
      seed: seed of the environments, the players and the openings.

    Returns:
      float64 [games], the outcomes for the run; `table` formats them for printing.
    """
    if games < 2 or games % 2:
        raise BadInput(f"--games is {games}; it must be even, because half are played as either player")
    if max_steps < 1 or (opening or 0) < 0:
        raise BadInput(f"--max-steps is {max_steps}, --opening {opening}; they must be at least 1 and 0")
    agent, env = agent_and_env(workdir, which, member, simulations)
    if env.spec.num_players != 2:
        raise BadInput(f"{workdir} holds a run of an environment for one player; a match needs two")
    player = parse_player(opponent)
    if isinstance(player, (UctPlayer, PerfectPlayer)):
        env = with_open_spiel_states(env)
        if not isinstance(env, (OpenSpiel, Followed)):
            raise BadInput(
                f"--opponent {opponent} plays games of OpenSpiel and Pgx, and {workdir} holds another; also allowed: "
                "random, or the folder of another run of the same game"
            )
    other = (
        rival(pathlib.Path(opponent), env, opponent_which, opponent_member)
        if player is None
        else player_side(player, _never, Stopwatch())
    )
    if opening is None:
        opening = OPENING if player is None else 0
    sides = (run_side(agent, workdir, which, member), other)
    played = play_match(env, games, sides, seed=seed, stopping=_never, max_steps=max_steps, opening=opening)
    useless = unmeasured(played, max_steps, opening)
    if (played.cut | played.random).all():
        raise BadInput(f"the match measures nothing: {'; '.join(useless)}")
    lines = "\n".join([table(played.outcome), *useless])
    print(lines)
    with open(workdir / MATCHES, "a") as kept:
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        ours = named(which) if member is None else f"member {member}, {named(which)}"
        kept.write(f"{when}, {ours} against {opponent}, seed {seed}\n{lines}\n\n")
    return played.outcome


def parse_player(opponent: str) -> Player | None:
    """Returns the player of this name, or None if it is a run's folder."""
    name, colon, rollouts = opponent.partition(":")
    if name == "uct" and colon:
        if not rollouts.isdecimal():
            raise BadInput(f"--opponent {opponent!r}: rollouts must be a number, as in uct:1000")
        return UctPlayer(int(rollouts))
    players: dict[str, Player] = {"random": RandomPlayer(), "perfect": PerfectPlayer()}
    if opponent not in players and not pathlib.Path(opponent).is_dir():
        raise BadInput(f"--opponent {opponent!r} is no run's folder; also allowed: random, uct:ROLLOUTS, perfect")
    return players.get(opponent)


def run_side(agent: Agent, workdir: pathlib.Path, which: Which, member: int | None) -> MakeSide:
    """Returns the side that plays a run's agent with a checkpoint's params."""
    return policy_side(jit_policy(agent.eval_policy), params_of(agent, workdir, which, member), Stopwatch())


def rival(workdir: pathlib.Path, env: Env, which: Which, member: int | None) -> MakeSide:
    """Returns the side of another run of the same game, possibly with another agent."""
    agent, other_env = agent_and_env(workdir, which, member)
    if other_env.spec != env.spec:
        raise BadInput(f"--opponent {workdir} holds a run of another game, or of another view of it")
    return run_side(agent, workdir, which, member)


def table(outcome: np.ndarray) -> str:
    """Formats the outcomes of `play_match`: games won, drawn and lost as either player, and the rating difference."""
    lines = []
    for name, part in (("first", outcome[0::2]), ("second", outcome[1::2]), ("either", outcome)):
        won, drawn, lost = (int(np.sum(np.sign(part) == sign)) for sign in (1, 0, -1))
        lines.append(f"as {name:<6}  {won:>4} won  {drawn:>4} drawn  {lost:>4} lost  of {len(part):>4}")
    points = result(outcome)
    low, high = elo.interval(points)
    difference = elo.difference(points.score / points.games)
    return "\n".join([*lines, f"Elo {difference:+.0f} over the opponent, 95% interval {low:+.0f} to {high:+.0f}"])


def unmeasured(played: MatchResult, max_steps: int, opening: int) -> list[str]:
    """Lines on the games of a match that tell little or nothing of its sides; none if there are none."""
    counts = (
        (int(played.cut.sum()), f"cut after {max_steps:,} steps (--max-steps), and count as drawn"),
        (int(played.random.sum()), f"over within the {opening:,} random moves of the opening (--opening)"),
    )
    return [f"{number} of {len(played.outcome)} games were {what}" for number, what in counts if number]


def _never() -> bool:
    return False


main = functools.partial(command, match, ValueError, OSError)
