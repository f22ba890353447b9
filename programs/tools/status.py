"""Reports the state of a run, or its end: who waits, what died, which snapshots are sound, where it goes on.

./run boonta status runs/impala_atari-Pong
"""

from __future__ import annotations

import functools
import pathlib

import tyro

from boonta.nodes.watch.stopping import shown
from boonta.programs.reports.snapshots import snapshots_of
from boonta.programs.wiring.command_line.faults import command, require_at_least
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.programs.wiring.run_folder.state import SENTENCES, last_row, state_of
from boonta.programs.wiring.supervision import view


def status(workdir: tyro.conf.Positional[pathlib.Path], lines: int = 10) -> None:
    """Reports the state of a run, or its end, also of a run that was killed.

    Args:
      workdir: the run's folder.
      lines: number of the newest lines of its log to print.
    """
    require_at_least(0, lines=lines)
    config = read_config(workdir)
    print(f"program {config.program}, seed {config.seed}, in {workdir}")
    log = journal.lines(workdir)
    print(SENTENCES[state_of(workdir, log)])
    for line in log[max(0, len(log) - lines) :]:
        print(f"  {journal.for_people(line)}")
    last = {name: value for name, value in last_row(workdir).items() if value is not None}
    reached = {name: last[name] for name in ("env_steps", "updates", "seconds") if name in last}
    if reached:
        print("reached " + ", ".join(f"{name} {shown(name, value)}" for name, value in reached.items()))
    waiting = view.waits(last)
    if waiting:
        print(f"waits {waiting} (shares of time between the last two rows of metrics)")
    for line in snapshots_of(workdir):
        print(line)


main = functools.partial(command, status)
