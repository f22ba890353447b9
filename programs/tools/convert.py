"""Makes an archive of a data set in the form of Minari or RLDS.

./run boonta convert atari/breakout/expert-v0 --out folder
"""

from __future__ import annotations

import functools
import pathlib

import tyro

from boonta.nodes.archive.index import summary
from boonta.programs.tools.datasets import rlds
from boonta.programs.tools.datasets.episodes import write
from boonta.programs.tools.datasets.minari import MinariDataset
from boonta.programs.wiring.command_line.faults import command
from boonta.programs.wiring.environments import make_env
from boonta.programs.wiring.run import BadInput


def convert(dataset: tyro.conf.Positional[str], out: pathlib.Path, env: str = "") -> None:
    """Writes the episodes of a data set as an archive, from which programs/unplugged.py learns.

    Args:
      dataset: the id of a Minari data set on this machine, or its folder (`minari download ID` fetches one); or the
        folder of a data set in the form of RLDS, which TensorFlow Datasets has written.
      out: the archive's folder; it must not exist yet or be empty.
      env: the environment, as programs take it, in which agents that learn from the archive are evaluated. Its
        observations and actions must be the data set's. By default it is the one that a Minari data set names.
    """
    given = make_env(env) if env else None
    if rlds.is_on_disk(pathlib.Path(dataset)):
        if given is None:
            raise BadInput(f"data set {dataset!r} doesn't name its environment; give it with --env")
        index = write(out, given, rlds.read(pathlib.Path(dataset)))
    else:
        source = MinariDataset(dataset)
        recorded_in = source.env() if given is None else given
        source.require(recorded_in)
        index = write(out, recorded_in, source.episodes())
    print(f"{summary(index)}: {out}")


main = functools.partial(command, convert, ValueError, OSError)
