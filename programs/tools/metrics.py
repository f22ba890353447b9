"""Says what metrics mean: all of them, those named, or those of a run with their newest values.

./run boonta metrics policy_lag
./run boonta metrics runs/muzero-catch
"""

from __future__ import annotations

import difflib
import functools
import pathlib
from collections.abc import Iterable

import tyro
from rich.markup import escape
from rich.table import Table

from boonta.agents.metrics import Metric
from boonta.nodes import metrics as rows
from boonta.nodes.snapshots.schema import CONFIG
from boonta.programs.reports import tables
from boonta.programs.reports.meanings import AGENTS, GROUPS, declared, found, healthy
from boonta.programs.wiring.command_line.faults import command
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.config_file import read_config


def metrics(words: tyro.conf.Positional[tuple[str, ...]] = (), markdown: bool = False) -> None:
    """Says what metrics mean.

    Args:
      words: a run's folder, if it comes first, shows the metrics of its newest row with their values. All other words
        name metrics, as rows call them, or are a part of their names or else of their meanings; none: all.
      markdown: print the page nodes/METRICS.md.
    """
    if markdown:
        print(page(), end="")
        return
    workdir = pathlib.Path(words[0]) if words and _is_run(pathlib.Path(words[0])) else None
    names = words if workdir is None else words[1:]
    newest = {} if workdir is None else newest_row(workdir)
    agent = "" if workdir is None else read_config(workdir).agent
    chosen = [(name, found(name, agent)) for name in newest] or [(each.name, [each]) for each in declared()]
    if names:
        chosen = [each for each in chosen if any(_fits(part, each[0]) for part in names)] or [
            (name, each) for name, each in chosen if any(part in one.meaning for part in names for one in each)
        ]
    if not chosen:
        near = difflib.get_close_matches(names[0], [each.name for each in declared()])
        why = f"did you mean {' or '.join(near)}?" if near else "one of your own has no entry, and only you know it"
        raise BadInput(f"no metric is called {names[0]!r}; {why}")
    table = Table(box=None, pad_edge=False)
    table.add_column("metric", no_wrap=True)  # A name that is cut can't be looked up.
    for title in (*(["newest"] if newest else []), "unit", "meaning", "healthy"):
        table.add_column(title, overflow="fold")
    for name, each in chosen:
        declaration = each[0] if len(each) == 1 else Metric(name, " Or: ".join(one.meaning for one in each))
        value = [_number(newest.get(name))] if newest else []
        table.add_row(escape(name), *value, declaration.unit, declaration.meaning, healthy(declaration))
    tables.show(table)


def newest_row(workdir: pathlib.Path) -> dict[str, float | None]:
    """The newest row of a run.

    Raises:
      BadInput: there is none.
    """
    try:
        return rows.read(workdir)[-1]
    except (OSError, IndexError):
        raise BadInput(f"{workdir} has no metrics; ./run boonta runs lists runs") from None


def page() -> str:
    """The page of all metrics, as Markdown."""
    agents = ", ".join(f"[{title}](../agents/{title.lower()}/metrics.py)" for title in AGENTS)
    parts = [
        "# Metrics",
        "A run's rows are in `metrics.jsonl` in its folder, and go to the trackers that `--log` names. `./run boonta "
        "metrics RUN` shows the newest row with this page's words, `./run boonta metrics policy_lag` one "
        "metric.",
        "A part in angle brackets stands for any name. What several nodes measure is in a row as their mean, and once "
        "for each node, as in `eval_return/evaluator/1`. Names ending with `_se` are standard errors. *Watched* names "
        "the rules of [health](watch/rules.py) that judge by a metric. This page is made by `./run boonta metrics "
        "--markdown > nodes/METRICS.md` from the declarations in [the shared toolbox](../agents/metrics.py), "
        f"{agents} and [nodes](watch/declarations.py).",
    ]
    for title, group in GROUPS.items():
        parts += [f"## {title}", "\n".join(_markdown(group))]
    return "\n\n".join(parts) + "\n"


def _markdown(group: Iterable[Metric]) -> Iterable[str]:
    yield "| metric | unit | meaning | healthy |"
    yield "|---|---|---|---|"
    for metric in group:
        yield f"| `{metric.name}` | {metric.unit} | {metric.meaning} | {healthy(metric)} |"


def _is_run(folder: pathlib.Path) -> bool:
    """Whether a folder is a run's; any other may have the name of a metric."""
    return any((folder / name).is_file() for name in (CONFIG, rows.FILE))


def _fits(part: str, name: str) -> bool:
    """Whether a name has this part, also where an angle bracket stands for a word of it, as in share/learner."""
    words = zip(part.split("/"), name.split("/"), strict=False)
    return part in name or ("/" in part and all(there.startswith("<") or here == there for here, there in words))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.6g}"


main = functools.partial(command, metrics, OSError)
