"""MuZero on CartPole, from Gymnasium."""

from __future__ import annotations

from agents import muzero
from envs.gymnasium import Gymnasium
from nodes.actor import Actor
from nodes.evaluator import Evaluator
from nodes.learner import Learner
from nodes.monitor import Monitor
from nodes.replay import ReplayNode
from nodes.services import Program, ServiceNode
from nodes.variables import VariableServer
from nodes.workers import WorkerNode
from programs.launch import RunFlags, main


def muzero_cartpole(
    run: RunFlags, actors: int = 1, num_envs: int = 32, config: muzero.Config = muzero.CARTPOLE
) -> Program:
    """Actors fill a replay table, the learner samples it, and its params go back through the variable server.

    Args:
      run: where and how long.
      actors: actor processes.
      num_envs: environments of each actor.
      config: the agent's hyper-parameters.
    """
    env = Gymnasium("CartPole-v1")
    agent = muzero.make(config, env.spec)
    program = Program("muzero_cartpole")
    with program.group("monitor"):
        monitor = program.add_node(ServiceNode(Monitor, "monitor", run.workdir, run.stop))
    with program.group("variables"):
        variables = program.add_node(ServiceNode(VariableServer, "variables", monitor))
    with program.group("replay"):
        replay = program.add_node(ReplayNode("replay", agent, env.spec, run.path("replay"), monitor))
    with program.group("learner"):
        learner = {"folder": run.path("checkpoints"), "seed": run.seed, "save_every_s": run.save_every_s}
        program.add_node(WorkerNode(Learner, "learner", agent, replay, variables, monitor, **learner))
    with program.group("actor"):
        for i in range(actors):
            settings = {"num_envs": num_envs, "seed": run.seed + i}
            program.add_node(WorkerNode(Actor, f"actor/{i}", agent, env, variables, replay, monitor, **settings))
    with program.group("evaluator"):
        evaluator = {"episodes": 20, "every_s": 30.0, "seed": run.seed}
        program.add_node(WorkerNode(Evaluator, "evaluator", agent, env, variables, monitor, **evaluator))
    return program


if __name__ == "__main__":
    main(muzero_cartpole)
