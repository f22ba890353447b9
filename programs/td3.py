"""TD3 in any env whose actions are real numbers: `./run python programs/td3.py gymnasium/Pendulum-v1`."""

from __future__ import annotations

from boonta.agents.td3 import Config, make
from boonta.envs.base import Env
from boonta.envs.gymnasium import Gymnasium
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.programs.wiring.evaluation import Evaluation, evaluator
from boonta.programs.wiring.launch import Pace, PaceFlags, Program, RunFlags, group, main


def td3(
    run: RunFlags,
    config: Config,
    evaluation: Evaluation,
    env: Env = Gymnasium("Pendulum-v1"),  # noqa: B008
    actors: int = 1,
    num_envs: int = 4,
    pace: PaceFlags = Pace(),  # noqa: B008
) -> Program:
    """Actors fill a replay table, the learner draws from it, and the policy goes back through the variable server.

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters.
      evaluation: how, and how often, params are evaluated.
      env: the environment that actors act in.
      actors: number of actor processes.
      num_envs: environments per actor.
      pace: how often the learner publishes, and actors fetch, params.
    """
    agent = make(config, env.spec)
    groups = [
        group(Learner, **pace.learner),
        group(Actor, actors, num_envs=num_envs, **pace.actor),
        evaluator(env, evaluation),
    ]
    return Program("td3", run, agent, env, groups)


if __name__ == "__main__":
    main(td3)
