"""The page of a run, as one HTML file or as Markdown, and the pictures on it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import tempfile
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from boonta.nodes import metrics
from boonta.nodes.sinks import follow
from boonta.nodes.sinks.base import KNOWN
from boonta.nodes.snapshots import schema
from boonta.nodes.snapshots.store import LEARNERS, TABLES
from boonta.nodes.watch.status import STATUS
from boonta.programs.experiments import curves, evaluations, figures
from boonta.programs.experiments.curves import Row
from boonta.programs.experiments.evaluations import Evaluated
from boonta.programs.experiments.folders import COMPARISON
from boonta.programs.experiments.page import escaped, html, number, table
from boonta.programs.reports import charts, picture
from boonta.programs.reports.charts import Chart
from boonta.programs.reports.meanings import found, healthy
from boonta.programs.reports.snapshots import snapshots_of
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.config_file import Config
from boonta.programs.wiring.run_folder.state import SENTENCES, state_of

PROGRAM = "program.svg"
MEDIA = (".gif", ".mp4", ".png", ".svg")
# Folders within a run's; trackers keep copies of its films.
NOT_MEDIA = (COMPARISON, "logs", "tmp", *LEARNERS, TABLES, *KNOWN, follow.FOLDER)
MOST_MEDIA = 20


def whole(config: Config, folder: pathlib.Path) -> str:
    """The page of a run as HTML; it has all pictures inside but the largest ones, which become links to their files."""
    with tempfile.TemporaryDirectory(prefix="boonta-report-") as name:
        target = pathlib.Path(name)
        rows: list[Row] = []
        with contextlib.suppress(OSError):  # There is no row yet.
            rows = metrics.read(folder)
        text = markdown(config, folder, rows, draw(config, folder, rows, target))
        return html(text, [target, folder], folder.resolve().name)


def draw(config: Config, folder: pathlib.Path, rows: Sequence[Row], target: pathlib.Path) -> dict[str, Chart]:
    """Draws the pictures of a run into a folder; returns its charts by file name."""
    drawn = charts.charts(curves.moments(rows))
    for name, chart in drawn.items():
        figures.draw(chart.panels, target / name, chart.xlabel, chart.ylabel, str(folder), "", formats=("svg",))
    if config.picture.groups:
        picture.draw(config.picture, target / PROGRAM, doing(folder))
    return drawn


def markdown(config: Config, folder: pathlib.Path, rows: Sequence[Row], drawn: Mapping[str, Chart]) -> str:
    """The page of a run; its pictures are named by their files."""
    log = journal.last_start(folder)
    state = SENTENCES[state_of(folder, log)].capitalize()
    parts = [f"# {escaped(folder.resolve().name)}", escaped(f"{state}. {journal.end_of(log) or ''}")]
    newest = rows[-1] if rows else {}
    parts += [_reached(newest), "## Health", _health(newest, folder)]
    for name, chart in drawn.items():
        parts += [f"## {chart.caption}", f"![{chart.caption}]({urllib.parse.quote(name)}.svg)"]
    if config.picture.groups:
        parts += ["## Who works for whom", f"![The program]({PROGRAM})"]
    parts += _media(folder)
    parts += _results(folder)
    parts += ["## Restarts and snapshots", *_code(snapshots_of(folder)), *_code(_notable(folder))]
    parts += ["## The newest row of metrics", _newest(newest, config.agent), "## Settings", _settings(config)]
    parts += ["## Where it comes from", *_origin(config)]
    return "\n\n".join(part for part in parts if part) + "\n"


def status_of(folder: pathlib.Path) -> dict[str, Any]:
    """What the monitor wrote last of a run's nodes; empty if it never has."""
    try:
        return schema.parse(schema.read(folder / STATUS))
    except (OSError, ValueError):
        return {}


def doing(folder: pathlib.Path) -> dict[str, str]:
    """What each node did last."""
    nodes = status_of(folder).get("nodes", {})
    return {name: "ended" if node["gone"] else node["activity"] for name, node in nodes.items()}


def media(folder: pathlib.Path) -> list[pathlib.Path]:
    """The pictures and films in a run's folder, the newest first, relative to it; hidden ones are still being made."""
    found: list[tuple[float, pathlib.Path]] = []
    for parent, folders, names in os.walk(folder):  # Unlike `rglob`, it bears that folders go meanwhile.
        if parent == str(folder):
            folders[:] = [name for name in folders if name not in NOT_MEDIA]
        for path in (pathlib.Path(parent, name) for name in names if not name.startswith(".")):
            with contextlib.suppress(OSError):
                if path.suffix in MEDIA:
                    found.append((-path.stat().st_mtime, path.relative_to(folder)))
    return [path for _, path in sorted(found)]


def _reached(newest: Mapping[str, float | None]) -> str:
    values = {name: newest.get(name) for name in ("env_steps", "updates", "seconds", "return")}
    shown = [f"{name.replace('_', ' ')} {number(value)}" for name, value in values.items() if value is not None]
    return ", ".join(shown) or "There is no row of metrics yet."


def _health(newest: Mapping[str, float | None], folder: pathlib.Path) -> str:
    """The warnings of the last start, and the rules of health that hold in the newest row."""
    holding = [name for name, value in newest.items() if name.startswith("health/") and value]
    log = map(journal.parse, journal.last_start(folder))
    warnings = [line.message for line in log if line.level == "WARNING"]
    listed = [f"{name}: {each.meaning}" for name in holding for each in found(name)] + warnings
    lines = "\n".join(f"- {escaped(line)}" for line in dict.fromkeys(listed))
    return lines or "No rule of health holds, and nothing was warned of."


def _media(folder: pathlib.Path) -> list[str]:
    paths = media(folder)
    parts = ["## Pictures and films"] if paths else []
    for path in paths[:MOST_MEDIA]:
        address = urllib.parse.quote(str(path))  # A name may have characters that mean something in an address.
        parts += [f"### {escaped(str(path))}", f"![{escaped(str(path))}]({address})"]
    return parts


def _results(folder: pathlib.Path) -> list[str]:
    """Evaluations and matches after the run."""
    parts = []
    evaluated, _ = evaluations.read(folder)
    if evaluated:
        rows = [[*_who(e), f"{e.updates:,}", str(e.episodes), number(e.mean)] for e in evaluated]
        head = ["checkpoint", "member", "policy", "updates", "episodes", "mean return"]
        parts += ["## Evaluations after the run", table(head, rows, texts=3)]
    played = folder / evaluations.MATCHES
    if played.is_file():
        parts += ["## Matches", *_code(played.read_text(errors="replace").splitlines())]
    return parts


def _who(evaluated: Evaluated) -> list[str]:
    """The checkpoint that was evaluated, the member of a population, and the policy."""
    member = "–" if evaluated.member is None else str(evaluated.member)
    return [str(evaluated.which), member, "deterministic" if evaluated.deterministic else "sampled"]


def _notable(folder: pathlib.Path) -> list[str]:
    """The lines of the run's log about starts, ends, restarts and other warnings."""
    lines = journal.lines(folder)
    return [line for line in lines if journal.parse(line).level != "INFO" or journal.end_of([line]) is not None]


def _newest(newest: Mapping[str, float | None], agent: str) -> str:
    rows = []
    for name, value in newest.items():
        declarations = found(name, agent)
        meaning = declarations[0].meaning if declarations else ""
        well = healthy(declarations[0]) if declarations else ""
        rows.append([name, "–" if value is None else number(value), meaning, well])
    return table(["metric", "value", "meaning", "healthy"], rows)


def _settings(config: Config) -> str:
    flat = schema.flattened({"seed": config.seed, **config.settings, "run": config.run})
    return table(["setting", "value"], [[name, str(value)] for name, value in flat.items()], texts=2)


def _origin(config: Config) -> list[str]:
    parts = _code([config.command])
    if config.provenance is None:
        return parts
    origin = schema.flattened(dataclasses.asdict(config.provenance))
    return [*parts, table(["", ""], [[name, str(value)] for name, value in origin.items()], texts=2)]


def _code(lines: Iterable[str]) -> list[str]:
    text = "\n".join(f"    {line}" for line in lines)
    return [text] if text else []
