"""The display of a running program: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import collections
import datetime
import math
import signal
import sys
import time
from typing import Any

from rich import live, markup, table

from boonta.nodes import metrics
from boonta.nodes.watch.stopping import COLLAPSED_CODE, has_collapsed
from boonta.nodes.watch.stopwatch import CONNECTING, SHORT_S
from boonta.programs.wiring.run_folder.journal import LOG, outliving_terminal

LINE_EVERY_S = 10.0
MOST_AWAY = 6  # Absent nodes that are named.


class View:
    """Shows the monitor's `status`; a context manager, which restores the terminal."""

    def __init__(self) -> None:
        self._live = live.Live(auto_refresh=False) if sys.stdout.isatty() else None
        self._next_line = 0.0
        self._began_at = time.monotonic()
        self._last: dict[str, Any] | None = None
        self._warned: set[tuple[str, str]] = set()  # The node and the text of each warning that was printed.

    def __enter__(self) -> View:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        with outliving_terminal():
            if self._live:
                self._live.stop()
            elif self._last and self._last["row"]:
                print(line(self._last), flush=True)

    def show(self, status: dict[str, Any]) -> None:
        """Refreshes the table, or prints a line if one is due; prints each node's warnings once, and when it hangs."""
        self._last = status
        warnings = {"monitor": status.get("warnings", [])} | {
            name: node["warnings"] for name, node in status["nodes"].items()
        }
        for name, warning in [(name, each) for name, listed in warnings.items() for each in listed]:
            if (name, warning) not in self._warned:
                self._warned.add((name, warning))
                LOG.warning("%s: %s", name, warning)
        # A launcher that starts nodes again prints why.
        for name, node in ({} if "restarts" in status else status["nodes"]).items():
            if not node["hung"]:
                self._warned.discard((name, "hung"))
            elif (name, "hung") not in self._warned:
                self._warned.add((name, "hung"))
                LOG.warning("%s %s", name, node["hung"])
        with outliving_terminal():
            if self._live:
                self._live.update(table_of(status), refresh=True)
            elif time.monotonic() >= self._next_line and (
                metrics.has_counted(status["totals"]) or time.monotonic() - self._began_at >= LINE_EVERY_S
            ):
                self._next_line = time.monotonic() + LINE_EVERY_S
                print(line(status), flush=True)


def line(status: dict[str, Any]) -> str:
    """The program's state in one line; until something is counted, the activity of each node."""
    if not metrics.has_counted(status["totals"]):
        doing = ", ".join(f"{name} {node['activity']}" for name, node in status["nodes"].items() if not node["gone"])
        return f"starting: {doing or 'no node has reported yet'}"
    return "  ".join(f"{name} {value}" for name, value in [*_summary(status), *restarts(status.get("restarts", {}))])


def _summary(status: dict[str, Any]) -> list[tuple[str, str]]:
    row, totals = status["row"], status["totals"]

    def number(name: str, form: str = ",.0f", source: dict[str, float] = row) -> str:
        return format(source[name], form) if name in source else "-"

    there = [node for name, node in status["nodes"].items() if name not in status.get("away", {})]
    by_process = {node["process"]: node["rss_mb"] for node in there}
    memory = sum(by_process.values()) / 1000
    return [
        ("return", number("return", ".2f")),
        ("eval", evaluation(row, totals)),
        ("env steps", f"{number('env_steps', source=totals)} ({number('env_steps_per_s')}/s)"),
        ("updates", f"{number('updates', source=totals)} ({number('updates_per_s', '.2f')}/s)"),
        ("lag", number("policy_lag", ".1f")),
        *short(row),
        ("memory", f"{memory:.2f} GB"),
        ("time", f"{datetime.timedelta(seconds=int(totals.get('seconds', 0.0)))!s:0>8}"),
        ("waits", waits(row) or "-"),
        *away(status.get("away", {})),
        ("saved", saved(status.get("snapshot"))),
        *([("start", start(row))] if "start_s" in row else []),
        *([("health", ", ".join(status["health"]))] if status.get("health") else []),
    ]


def evaluation(row: dict[str, float], totals: dict[str, float]) -> str:
    """The last evaluation's mean return, its standard error, and its age in updates."""
    if "eval_return" not in row:
        return "-"
    mean = with_error(row["eval_return"], row.get("eval_return_se"))
    age = totals.get("updates", 0.0) - row.get("eval_version", math.inf)
    return mean + (f", {max(0.0, age):,.0f} updates ago" if age > -math.inf else "")


def with_error(mean: float, error: float | None) -> str:
    """A mean with its standard error, if it has one."""
    return f"{mean:.2f}" + ("" if error is None else f" ± {error:.2f}")


def start(row: dict[str, float]) -> str:
    """The time until the first update, its two longest phases and connecting, and what came from the cache."""
    phases = {name.partition("/")[2]: value for name, value in row.items() if name.startswith("start_s/")}
    longest = sorted(phases, key=lambda name: -phases[name])
    connecting = [CONNECTING] if phases.get(CONNECTING, 0.0) >= SHORT_S else []
    chosen = dict.fromkeys(longest[:2] + connecting)
    shown = ", ".join(f"{name.replace('_', ' ')} {phases[name]:.1f}" for name in chosen)
    reused = f"; {row['reused_s']:.1f} s of compiling saved" if row.get("reused") else ""
    return f"{row['start_s']:.1f} s ({shown}{reused})"


def conclude(status: dict[str, Any], failure: str, caught: int = 0) -> int:
    """Logs how a program ended, and what was wrong with its learning then; returns its exit code, see `launch.prepare`.

    Args:
      status: the last status of the monitor; empty if it is lost.
      failure: why the program failed; empty if it didn't.
      caught: number of the signal that ended it; 0 if none did.
    """
    for warning in status.get("health", {}).values():
        LOG.warning("at the end: %s", warning)
    if failure:
        LOG.error(failure)
        return 1
    if caught and not status.get("done"):  # One that came while a program that is done saves changes nothing.
        LOG.info("ended by %s", signal.Signals(caught).name)
        return 128 + caught
    if status.get("totals", {}).get("updates") == 0:
        LOG.warning("no update was made before the limit was reached, so there is no checkpoint that has learned")
    LOG.info("done: %s", status["reason"])
    return COLLAPSED_CODE if has_collapsed(status) else 0


def short(row: dict[str, float]) -> list[tuple[str, str]]:
    """The tables whose share of the last hundred batches was less than it should be, with both shares."""
    wanted = {name.partition("/")[2]: value for name, value in row.items() if name.startswith("batch_share_wanted/")}
    given = {name: row.get(f"batch_share/{name}", 0.0) for name in wanted}
    return [(name, f"{given[name]:.0%} of {wanted[name]:.0%}") for name in wanted if given[name] < wanted[name] - 0.005]


def saved(snapshot: dict[str, Any] | None) -> str:
    """The update of the newest snapshot, its age and its size."""
    if snapshot is None:
        return "-"
    age = datetime.timedelta(seconds=round(snapshot["age_s"]))
    return f"update {snapshot['number']:,d}, {age} ago, {snapshot['mb']:,.1f} MB"


def restarts(deaths: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """The nodes that died and were started again: how often, and the last cause."""
    listed = [f"{name} {died['number']}x ({died['cause']})" for name, died in deaths.items()]
    return [("died", ", ".join(listed))] if listed else []


def away(seconds: dict[str, float]) -> list[tuple[str, str]]:
    """The nodes without which the program goes on and that aren't there, those first that have been away longest."""
    longest = sorted(seconds, key=seconds.__getitem__, reverse=True)
    listed = [f"{name} for {datetime.timedelta(seconds=round(seconds[name]))}" for name in longest[:MOST_AWAY]]
    more = [f"{len(longest) - MOST_AWAY} more"] if len(longest) > MOST_AWAY else []
    return [("away", ", ".join([*listed, *more]))] if listed else []


def waits(row: dict[str, float]) -> str:
    """Which nodes wait for which: shares of a thread's time, the largest first."""
    shares = {
        name.removeprefix("share/").replace("/waiting_for_", " for ").replace("_", " "): value
        for name, value in row.items()
        if name.startswith("share/") and "/waiting_for_" in name and value >= 0.05
    }
    waiting = ", ".join(f"{who} {shares[who]:.0%}" for who in sorted(shares, key=shares.__getitem__, reverse=True))
    at_work = busiest(row)
    return f"{waiting}; busiest {at_work}" if waiting and at_work else waiting


def busiest(row: dict[str, float]) -> str:
    """The group that others wait for: its threads work most of the time, and most of that at what is named.

    Empty if no group's threads work half of their time.
    """
    working: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for name, share in row.items():
        kind, _, rest = name.partition("/")
        group, _, activity = rest.partition("/")
        if kind == "share" and not activity.startswith(("waiting_for_", "resting")):
            working[group][activity] = share
    totals = {group: sum(shares.values()) for group, shares in working.items()}
    group = max(totals, key=totals.__getitem__, default="")
    if not group or totals[group] < 0.5:
        return ""
    most = max(working[group], key=working[group].__getitem__)
    return f"{group} {min(totals[group], 1.0):.0%}, most of it {most.replace('_', ' ')}"


def table_of(status: dict[str, Any]) -> table.Table:
    """The program's state as a table: totals, then a row for each node."""
    grid = table.Table.grid(padding=(0, 2))
    for name, value in _summary(status):
        grid.add_row(f"[bold]{name}", value)
    nodes = table.Table("node", "doing", "for", "memory", "died", box=None, padding=(0, 2))
    deaths = status.get("restarts", {})
    for name, node in status["nodes"].items():
        died = deaths.get(name, {"number": 0, "cause": "", "down": False})
        doing = "starting again" if died["down"] else "ended" if node["gone"] else node["activity"]
        silent = "  [red]silent" if node["report_age_s"] > 5 and not node["gone"] else ""
        nodes.add_row(
            name,
            markup.escape(doing) + silent,
            f"{node['activity_s']:.0f} s",
            f"{node['rss_mb']:.0f} MB",
            markup.escape(f"{died['number']}x, last: {died['cause']}") if died["number"] else "",
        )
    whole = table.Table.grid()
    whole.add_row(grid)
    whole.add_row(nodes)
    if status["reason"]:
        whole.add_row(f"[bold]ending: {markup.escape(status['reason'])}")
    return whole
