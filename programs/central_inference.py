"""IMPALA with central inference: actors step environments and write; another node acts for all of them."""

from __future__ import annotations

from boonta.agents.impala import Config, make
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.inference import Inference
from boonta.nodes.learner import Learner
from boonta.programs.wiring.evaluation import Evaluation, evaluator
from boonta.programs.wiring.launch import Pace, PaceFlags, Program, RunFlags, group, main


def central_inference(
    run: RunFlags,
    config: Config,
    evaluation: Evaluation,
    env: Env = Catch(),  # noqa: B008
    actors: int = 8,
    num_envs: int = 4,
    inference: int = 1,
    pace: PaceFlags = Pace(),  # noqa: B008
) -> Program:
    """Actors hold no params and don't load JAX: they send observations and receive actions.

    See "SEED RL: Scalable and Efficient Deep-RL with Accelerated Central Inference" (https://arxiv.org/abs/1910.06591).

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters.
      evaluation: how, and how often, params are evaluated.
      env: the environment that actors act in.
      actors: number of actor processes.
      num_envs: environments per actor.
      inference: number of inference nodes.
      pace: how often the learner publishes params; inference nodes fetch them at once.
    """
    agent = make(config, env.spec)
    groups = [
        group(Learner, **pace.learner),
        group(Inference, inference),
        group(Actor, actors, num_envs=num_envs, **pace.actor),
        evaluator(env, evaluation),
    ]
    return Program("central_inference", run, agent, env, groups)


if __name__ == "__main__":
    main(central_inference)
