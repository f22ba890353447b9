"""MuZero, DQN or R2D2 unplugged: learns from an archive of recorded trajectories alone; no actor plays anything."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import tyro

from boonta.agents import dqn, muzero, r2d2
from boonta.agents.base import Agent
from boonta.agents.tables import from_archives
from boonta.nodes.archive.files import open_archive
from boonta.nodes.archive.reanalyzer import ArchiveReanalyzer, replayed_shapes
from boonta.nodes.learner import Learner
from boonta.programs.wiring.archived import env_of_archive
from boonta.programs.wiring.evaluation import Evaluation, evaluator
from boonta.programs.wiring.launch import Program, RunFlags, group, main

PRESETS = {
    **{"catch": muzero.CATCH, "board": muzero.BOARD, "minatar": muzero.MINATAR, "atari": muzero.ATARI},
    **{"cartpole": muzero.CARTPOLE, "dqn-cartpole": dqn.CARTPOLE},
    **{"dqn-catch": dqn.CATCH, "dqn-minatar": dqn.MINATAR, "dqn-atari": dqn.DQN},
    **{"r2d2-catch": r2d2.CATCH, "r2d2-cartpole": r2d2.CARTPOLE, "r2d2-minatar": r2d2.MINATAR},
}
MAKE: dict[type, Callable[..., Agent]] = {dqn.Config: dqn.make, r2d2.Config: r2d2.make}
if TYPE_CHECKING:
    Preset = muzero.Config | dqn.Config | r2d2.Config
else:  # This is config:board, with its flags after that.
    Preset = tyro.extras.subcommand_type_from_defaults(PRESETS)


def unplugged(
    run: RunFlags,
    data: pathlib.Path,
    reanalyzers: int = 1,
    skip_broken: bool = False,
    config: Preset = muzero.CATCH,
    evaluation: Evaluation = Evaluation(),  # noqa: B008
) -> Program:
    """Reanalyzers search recorded trajectories with the newest params, and the learner learns from the results.

    Args:
      run: the run's settings.
      data: an archive's folder, from `boonta export` or `boonta convert`. The archive determines the environment.
      reanalyzers: number of reanalyzer processes; with --launch sebulba one, a thread.
      skip_broken: go on without chunks that are broken, rather than refuse the archive.
      config: the agent's hyper-parameters. For behaviour cloning give --config.policy-target action,
        --config.eval-simulations 1, and 0 for --config.value-cost, --config.reward-cost, --config.consistency-cost.
      evaluation: how, and how often, params are evaluated.
    """
    folder = pathlib.Path(data)  # The command line's parser has made it a text.
    env = env_of_archive(folder)
    if isinstance(config, muzero.Config):
        agent = muzero.make_unplugged(config, env.spec)
    else:
        agent = from_archives(MAKE[type(config)](config, env.spec))
    archive = open_archive(folder, env, replayed_shapes(agent, env.spec), skip_broken)
    groups = [group(Learner), group(ArchiveReanalyzer, reanalyzers, archive=archive), evaluator(env, evaluation)]
    return Program("unplugged", run, agent, env, groups)


if __name__ == "__main__":
    main(unplugged)
