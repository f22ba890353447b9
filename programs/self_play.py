"""MuZero plays a game of two against itself, and is measured in matches: `./run python programs/self_play.py`."""

from __future__ import annotations

from boonta.agents.muzero import Config, make
from boonta.envs.base import Env
from boonta.envs.open_spiel import OpenSpiel
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.programs.wiring.evaluation import Evaluation, evaluator
from boonta.programs.wiring.launch import Program, RunFlags, group, main


def self_play(
    run: RunFlags,
    config: Config,
    evaluation: Evaluation,
    env: Env = OpenSpiel("tic_tac_toe"),  # noqa: B008
    actors: int = 1,
    num_envs: int | None = None,
    rollouts: int = 100,
) -> Program:
    """Actors play both sides, the learner samples their games, and an arena plays the newest params against others.

    With --launch anakin the arena is part of the one program, and plays a random player alone.

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters.
      evaluation: how, and how often, params are evaluated; its episodes are games against each opponent.
      env: a game of two, such as open_spiel/connect_four, or "open_spiel/pig(players=2,winscore=20)" with --env.passes.
      actors: number of actor processes.
      num_envs: environments per actor; default: 32, or as many as make one batch with --launch anakin.
      rollouts: rollouts of the tree search that is the other opponent, beside a random one, in games of OpenSpiel.
    """
    agent = make(config, env.spec)
    groups = [
        group(Learner),
        group(Actor, actors, num_envs=num_envs),
        evaluator(env, evaluation, rollouts),
    ]
    return Program("self_play", run, agent, env, groups)


if __name__ == "__main__":
    main(self_play)
