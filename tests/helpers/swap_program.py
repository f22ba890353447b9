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
from boonta.nodes.services import Program
from boonta.programs.wiring.cluster import Cluster
from boonta.programs.wiring.launch import RunFlags, main
from boonta.tests.helpers.swap_parts import ENVS, make_agent


def swap_program(
    run: RunFlags,
    env: Literal["catch", "minatar", "tic_tac_toe"] = "catch",
    agent: Literal["impala", "muzero"] = "impala",
    acting: Literal["local", "central"] = "local",
    reanalyzers: int = 0,
) -> Program:
    """A cluster of what is asked for.

    Args:
      run: where and how long.
      env: played in.
      agent: plays and learns.
      acting: in the actor, or in a node that acts for all of them.
      reanalyzers: nodes.
    """
    world = ENVS[env]
    made = make_agent(world, agent, reanalyzers)
    cluster = Cluster("swap_program", run, made, world)
    cluster.add_learner(Learner)
    if acting == "central":
        cluster.add_inference(Inference)
    cluster.add_actors(Actor, 1, num_envs=8)
    if reanalyzers:
        cluster.add_reanalyzers(Reanalyzer, reanalyzers, num_envs=8)
    if world.spec.num_players == 2:
        cluster.add_evaluator(Arena, opponents={"random": RandomPlayer()}, games=2, every_s=1.0)
    else:
        cluster.add_evaluator(Evaluator, episodes=2, every_s=1.0)
    return cluster.program


if __name__ == "__main__":
    main(swap_program)
