"""Any agent on any environment with any way of acting, in small: each choice is a line of this program."""

from __future__ import annotations

import dataclasses
from typing import Literal

from agents import impala, muzero
from agents.base import Agent
from envs.base import Env
from envs.catch import Catch
from envs.minatar import MinAtar
from envs.open_spiel import OpenSpiel
from nodes.actor import Actor
from nodes.arena import Arena
from nodes.evaluator import Evaluator
from nodes.inference import Inference
from nodes.learner import Learner
from nodes.reanalyzer import Reanalyzer
from nodes.services import Program
from programs.cluster import Cluster
from programs.launch import RunFlags, main

ENVS: dict[str, Env] = {"catch": Catch(), "minatar": MinAtar("breakout"), "tic_tac_toe": OpenSpiel("tic_tac_toe")}
IMPALA = impala.Config(network="mlp", mlp_width=8, mlp_layers=1, frame_stack=1, unroll_length=4, batch_size=8)
MUZERO = muzero.Config(
    width=8,
    layers=1,
    head_width=8,
    num_simulations=2,
    unroll_length=1,
    bootstrap_length=2,
    roots=4,
    batch_size=8,
    min_replay_size=8,
    consistency_cost=0.0,
    support_limit=20.0,
    search="puct",  # compiles fastest
)


def make_agent(env: Env, agent: str, reanalyzers: int) -> Agent:
    """Half of MuZero's sequences are reanalyzed if there is somebody to do it."""
    if agent == "impala":
        return impala.make(IMPALA, env.spec)
    discount = -1.0 if env.spec.num_players == 2 else 0.9
    ratio = 0.5 if reanalyzers else 0.0
    return muzero.make(dataclasses.replace(MUZERO, discount=discount, reanalyze_ratio=ratio), env.spec)


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
        cluster.add_evaluator(Arena, opponents={}, games=2, every_s=1.0)
    else:
        cluster.add_evaluator(Evaluator, episodes=2, every_s=1.0)
    return cluster.program


if __name__ == "__main__":
    main(swap_program)
