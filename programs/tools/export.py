"""Makes an archive of the steps that a run's actors recorded.

./run boonta export runs/x --out folder
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
from collections.abc import Iterator
from typing import Literal

import tyro

from boonta.agents.base import Steps
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.archive.episodes import stitch
from boonta.nodes.archive.files import write_archive
from boonta.nodes.archive.index import Index, summary
from boonta.nodes.snapshots.store import TABLES
from boonta.nodes.tables import contract
from boonta.programs.wiring.command_line.faults import command
from boonta.programs.wiring.machine import network as networks
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.programs.wiring.run_folder.folder import lock
from boonta.programs.wiring.trained import agent_and_env


def export(
    workdir: tyro.conf.Positional[pathlib.Path], out: pathlib.Path, network: Literal["private", "open"] = "open"
) -> None:
    """Writes the newest checkpoint of a run's replay table as an archive of trajectories.

    The table's overlapping sequences are joined, so that every step is archived once. An episode is archived whole if
    the table still holds all of it, and otherwise as the part that it holds.

    Args:
      workdir: the run's folder; the run must have ended.
      out: the archive's folder; it must not exist yet or be empty.
      network: who can reach the server of Reverb that reads the checkpoint. "private": nobody elsewhere, or the export
        is refused; "open": whoever reaches this machine can use it.
    """
    read_config(workdir)  # It refuses a folder that holds no run, in which the lock would make a file.
    if network == "private" and _needs_server(workdir):
        try:
            networks.isolate()  # As this may start the process anew, it comes before all that takes time.
        except OSError as error:  # It would be the same each time.
            raise BadInput(str(error)) from error
    with lock(workdir):
        index = archive(workdir, out)
    print(f"{summary(index)}: {out}")


def _needs_server(workdir: pathlib.Path) -> bool:
    """Whether there may be a checkpoint to read, and Reverb to read it."""
    return (workdir / TABLES).is_dir() and importlib.util.find_spec("reverb") is not None


def archive(workdir: pathlib.Path, out: pathlib.Path) -> Index:
    """Does the work of `export`; returns the archive's index."""
    try:
        from boonta.nodes.tables.reverb.recorded import newest_checkpoints, recorded
    except ImportError as error:
        raise BadInput(
            f"replay checkpoints are read with Reverb, on CPython 3.10: pip install 'boonta-rl[cluster]' ({error})"
        ) from error
    agent, env = agent_and_env(workdir)
    tables = [table for table in contract.written_by("actor", agent.tables) if table.kind == "replay"]
    if not tables:
        raise BadInput(f"{workdir} is a run with a queue, which keeps nothing; only replay can be exported")
    table = max(tables, key=lambda table: table.size)
    checkpoints = newest_checkpoints(workdir / TABLES)
    if not checkpoints:
        raise BadInput(
            f"{workdir} has no replay checkpoint; a run writes one when it ends, with --launch sebulba and anakin none"
        )

    def trajectories() -> Iterator[Steps]:
        for checkpoint in checkpoints:  # All that a slot has written went to one replay server.
            sequences = recorded(checkpoint, table, step_shapes(agent, env.spec))
            # A recurrent state belongs to a sequence, not to an episode.
            yield from stitch((steps._replace(core=()) for steps in sequences), contract.overlap(table))

    return write_archive(out, env, trajectories())


# Called from Python it is open, as programs are: the process of whoever calls it isn't ours to start anew.
main = functools.partial(command, functools.partial(export, network="private"), ValueError, OSError)
