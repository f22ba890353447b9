"""MuZero Unplugged: learns from an archive of recorded trajectories alone; no actor plays anything."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import tyro

from boonta.agents import muzero
from boonta.envs.players import RandomPlayer
from boonta.nodes.archive.files import open_archive
from boonta.nodes.archive.reanalyzer import ArchiveReanalyzer, replayed_shapes
from boonta.nodes.arena import Arena
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.services import Program
from boonta.programs.wiring.cluster import Cluster
from boonta.programs.wiring.launch import RunFlags, main
from boonta.programs.wiring.worlds import world_of

PRESETS = {"catch": muzero.CATCH, "board": muzero.BOARD, "minatar": muzero.MINATAR, "atari": muzero.ATARI}
if TYPE_CHECKING:
    Preset = muzero.Config
else:  # config:board, and its flags after that
    Preset = tyro.extras.subcommand_type_from_defaults(PRESETS)


def unplugged(
    run: RunFlags, data: pathlib.Path, reanalyzers: int = 1, skip_broken: bool = False, config: Preset = muzero.CATCH
) -> Program:
    """Reanalyzers search recorded trajectories with the newest params, and the learner learns what they find.

    Args:
      run: where and how long.
      data: an archive's folder, see programs.tools.export. It also says which environment it is of.
      reanalyzers: reanalyzer processes.
      skip_broken: go on without chunks that are broken, rather than refuse the archive.
      config: the agent's hyper-parameters. For behaviour cloning give --config.policy-target action,
        --config.eval-simulations 1, and 0 for --config.value-cost, --config.reward-cost, --config.consistency-cost.
    """
    folder = pathlib.Path(data)  # of an absolute path's words, when the command line is parsed
    env = world_of(folder)
    agent = muzero.make_unplugged(config, env.spec)
    archive = open_archive(folder, env, replayed_shapes(agent, env.spec), skip_broken)
    cluster = Cluster("unplugged", run, agent, env)
    cluster.add_learner(Learner)
    cluster.add_reanalyzers(ArchiveReanalyzer, reanalyzers, archive=archive)
    if env.spec.num_players == 2:
        cluster.add_evaluator(Arena, opponents={"random": RandomPlayer()}, games=50, every_s=30.0)
    else:
        cluster.add_evaluator(Evaluator, episodes=50, every_s=10.0)
    return cluster.program


if __name__ == "__main__":
    main(unplugged)
