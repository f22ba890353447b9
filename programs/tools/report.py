"""Makes the page of a run: one HTML file that opens offline, or a live page on this machine while the run goes.

./run boonta report runs/impala-catch
"""

from __future__ import annotations

import functools
import pathlib

import tyro

from boonta.nodes.snapshots import files
from boonta.programs.wiring.command_line.faults import command, writing
from boonta.programs.wiring.run_folder.config_file import read_config

FILE = "report.html"


def report(
    workdir: tyro.conf.Positional[pathlib.Path], out: pathlib.Path | None = None, live: bool = False, port: int = 0
) -> None:
    """Makes the page of a run: curves, throughput, what nodes wait for, health, restarts, snapshots, and its origin.

    Pictures and films in the run's folder are on the page, such as those of `boonta play` and `boonta explain`.

    Args:
      workdir: the run's folder.
      out: the page's file; default: report.html in the run's folder.
      live: serve a page that shows the run as it goes, until Ctrl-C. A click on a node shows its log, its metrics and
        what its threads do, and a link shows the whole report as of now. Only this machine reaches it, and
        only by the address that is printed, with its key.
      port: the port of the live page; 0 takes a free one.
    """
    config = read_config(workdir)
    if live:
        print("loading what draws the page; its address follows within seconds", flush=True)
    from boonta.programs.reports import live as pages  # The import takes seconds, so it comes after these words.
    from boonta.programs.reports import page

    if live:
        pages.serve(workdir, port)
        return
    target = out or workdir / FILE
    with writing(target):
        files.write_whole(target, page.whole(config, workdir).encode(), synced=False)
    print(target)


main = functools.partial(command, report, ValueError, OSError)
