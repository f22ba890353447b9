"""Any agent on any environment with any way of acting, in small: each choice is a line of this program."""

from __future__ import annotations

from typing import Literal

from boonta.envs.players import RandomPlayer
from boonta.nodes.actor import Actor
from boonta.nodes.arena import Arena
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.inference import Inference
from boonta.nodes.learner import Learner
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.programs.wiring.launch import Program, RunFlags, group, main
from boonta.tests.helpers.swap_parts import ENVS, make_agent


def swap_program(
    run: RunFlags,
    env: Literal["catch", "minatar", "pendulum", "tic_tac_toe"] = "catch",
    agent: Literal["impala", "muzero", "ppo", "sac", "td3", "dqn", "r2d2"] = "impala",
    acting: Literal["local", "central"] = "local",
    reanalyzers: int = 0,
) -> Program:
    """A program with the given parts.

    Args:
      run: the run's settings.
      env: the environment.
      agent: the agent.
      acting: whether actors act themselves, or a node acts for all of them.
      reanalyzers: number of reanalyzers.
    """
    chosen = ENVS[env]
    made = make_agent(chosen, agent, reanalyzers, acting)
    groups = [group(Learner), group(Actor, num_envs=8)]
    if acting == "central":
        groups.append(group(Inference))
    if reanalyzers:
        groups.append(group(Reanalyzer, reanalyzers, num_envs=8))
    if chosen.spec.num_players == 2:
        groups.append(group(Arena, opponents={"random": RandomPlayer()}, episodes=2, every_s=1.0))
    else:
        groups.append(group(Evaluator, episodes=2, every_s=1.0))
    return Program("swap_program", run, made, chosen, groups)


if __name__ == "__main__":
    main(swap_program)
