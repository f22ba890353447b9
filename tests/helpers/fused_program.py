"""A fused program with a small agent of any kind, on Catch of four rows."""

from __future__ import annotations

from typing import Literal

import jax
import numpy as np

from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.anakin import Anakin
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.programs.wiring.interpreters import anakin
from boonta.programs.wiring.launch import Program, Run, RunFlags, group, main
from boonta.tests.helpers import fused


class WritingAnakin(Anakin):
    """Writes what each of this host's devices has of the learner's state in the end, beside the checkpoints."""

    def start(self) -> None:
        self.on_close(self._write_end)  # The node's own saving comes first.
        super().start()

    def _write_end(self) -> None:
        leaves = jax.tree.leaves(self._state.learner)
        copies = [np.asarray(shard.data) for leaf in leaves for shard in leaf.addressable_shards]
        np.savez(self._folder.parent / f"end-{self._updates}-{jax.process_index()}.npz", *copies)


def fused_program(
    run: RunFlags = Run(launch="anakin"),  # noqa: B008
    kind: Literal["queue", "replay", "several", "impala", "muzero"] = "queue",
    num_envs: int = 16,
) -> Program:
    """Learns Catch.

    Args:
      run: the run's settings.
      kind: see `tests.helpers.fused.agent`.
      num_envs: environments, over all hosts.
    """
    groups = [group(Learner), group(Actor, num_envs=num_envs), group(Evaluator, episodes=20, every_updates=20)]
    if kind == "several":
        groups.append(group(Reanalyzer, num_envs=8))
    return Program("fused_program", run, fused.agent(kind), Catch(rows=4, columns=3), groups)


if __name__ == "__main__":
    anakin.Anakin = WritingAnakin  # A program of actors and a learner has no say in which node takes their place.
    main(fused_program)
