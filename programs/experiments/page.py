"""The page of a comparison, as Markdown and as one HTML file that needs neither a server nor other files."""

from __future__ import annotations

import base64
import html as markup
import mimetypes
import pathlib
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import markdown_it
import numpy as np

from boonta.programs.experiments import curves, origins, summary
from boonta.programs.experiments.curves import X
from boonta.programs.experiments.groups import Group, Suite, results_in
from boonta.programs.experiments.results import Result
from boonta.programs.experiments.statistics import LEVEL, RESAMPLES, Estimate, estimate, interquartile_mean
from boonta.programs.experiments.summary import Improvement, Reference

LARGEST = 4_000_000  # Bytes of a picture or film that is put into the page.
INTERVAL = f"{LEVEL:.0%} interval"
STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid #ccc; padding: 0.2em 0.6em; }
pre { background: #f4f4f4; padding: 0.6em; overflow-x: auto; }
img, video { max-width: 100%; }
"""
METHOD = (
    "The interquartile mean is that of the middle half of the runs; with fewer than four runs it is their mean. "
    f"Intervals are of {LEVEL:.0%}, by a bootstrap with {RESAMPLES:,} resamples, stratified by environment, see "
    "Agarwal et al. 2021, <https://arxiv.org/abs/2108.13264>. They show how runs with other seeds would differ, and "
    "nothing of how episodes of one run do. A member of a population counts as a run, with its share of the env steps "
    "and all of the seconds. A run's curve ends at its last evaluation, mostly before the run does. A group's curve "
    "holds each value until the next one, and ends where the first of its runs' curves does."
)


class Content(NamedTuple):
    """The content of a page.

    Attributes:
      command: the command line that makes the page again.
      metric: the metric that is compared.
      suite: the groups by environment.
      reference: by environment, the returns of the scores 0 and 1.
      given: whether the user has given these.
      improvements: pairs of groups.
      bar: the value of the metric that runs are to reach; None asks for none.
      warnings: whole sentences.
      pictures: captions by the picture's name, without an ending.
    """

    command: str
    metric: str
    suite: Suite
    reference: Mapping[str, Reference]
    given: bool
    improvements: Sequence[Improvement]
    bar: float | None
    warnings: Sequence[str]
    pictures: Mapping[str, str]


def markdown(content: Content) -> str:
    """The page."""
    suite = content.suite
    parts = [f"# Comparison: {escaped(', '.join(suite))}", f"    {content.command}"]
    if content.warnings:
        parts += ["## Read this first", "\n".join(f"- {escaped(warning)}" for warning in content.warnings)]
    parts += [f"## Final scores: {escaped(content.metric)}", METHOD]
    for env, groups in suite.items():
        parts += [f"### {escaped(env)}", _finals(groups)]
    if len(suite) > 1:
        parts += ["### All environments", _scale(content), _aggregates(content)]
    if content.bar is not None:
        parts += [f"## Time to {escaped(content.metric)} {number(content.bar)}", _bars(suite, content.bar)]
    for name, caption in content.pictures.items():
        parts += [f"## {caption}", f"![{caption}]({name}.svg)"]
        if name == "profiles" and len(suite) > 1:
            parts.append(_scale(content))
    if content.improvements:
        parts += ["## Probability of improvement", _improvements(content.improvements)]
    parts += ["## Runs", _runs(suite), "## Origin of all figures and pictures", *_origin(suite)]
    return "\n\n".join(parts) + "\n"


def html(text: str, folders: Sequence[pathlib.Path], title: str = "Comparison") -> str:
    """A page of Markdown as one HTML file, with its pictures and films inside.

    Args:
      text: the page.
      folders: where its pictures are, each in the first one that has it. One that has more than `LARGEST` bytes becomes
        a link, and one that is gone stays as it is.
      title: the page's title.
    """
    body = markdown_it.MarkdownIt("js-default").render(text)

    def inside(found: re.Match[str]) -> str:
        name = urllib.parse.unquote(markup.unescape(found.group(1)))
        try:
            path = next(folder / name for folder in folders if (folder / name).is_file())
            size = path.stat().st_size
            content = b"" if size > LARGEST else path.read_bytes()
        except (StopIteration, OSError):  # It is gone: a run that goes on deletes old films.
            return found.group(0)
        if size > LARGEST:
            return f'<a href="{found.group(1)}">{markup.escape(name)}, {size / 1e6:,.0f} MB</a>'
        kind = mimetypes.guess_type(name)[0] or "image/png"
        source = f'src="data:{kind};base64,{base64.b64encode(content).decode()}"'
        return f"<video controls {source}></video>" if kind.startswith("video") else f"<img {source}{found.group(2)}"

    body = re.sub(r'<img src="([^":]+)"([^>]*>)', inside, body)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{markup.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A table in Markdown; its first columns, `texts` of them, are text, the others are numbers."""
    line = ["---"] * texts + ["---:"] * (len(head) - texts)
    lines = [head, line, *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def escaped(text: str) -> str:
    """A text with all of Markdown's special characters escaped."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


def number(value: float) -> str:
    """A number with four digits, or all before the point."""
    if not np.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 9_999.5 else f"{value:.4g}"


def interval(found: Estimate) -> str:
    """The interval of a single estimate."""
    return f"{number(float(found.low))} to {number(float(found.high))}" if np.isfinite(found.low) else "–"


def _ends(results: Iterable[Result]) -> list[str]:
    """Heads of columns; a run itself may have gone on after its last evaluation."""
    return [f"curve ends at {_unit(results)}", "curve ends at seconds"]


def _unit(results: Iterable[Result]) -> str:
    return curves.label_of("env_steps", (result.counter for result in results))


def _finals(groups: Sequence[Group]) -> str:
    rows = []
    for group in sorted(groups, key=lambda group: -interquartile_mean(summary.scores(group))):
        scores, final = summary.scores(group), summary.final(group)
        figures = [final.value, scores.mean(), scores.min(), scores.max()]
        first, *others = (number(float(figure)) for figure in figures)
        ends = [_median(group, x) for x in ("env_steps", "seconds")]
        rows.append([group.name, str(len(scores)), first, interval(final), *others, *ends])
    medians = [f"{end} (median)" for end in _ends(one for group in groups for one in group.results)]
    return table(["group", "runs", "interquartile mean", INTERVAL, "mean", "worst", "best", *medians], rows)


def _median(group: Group, x: X) -> str:
    return number(float(np.median([result.curve.on(x)[-1] for result in group.results])))


def _scale(content: Content) -> str:
    listed = ", ".join(
        f"{escaped(env)} {number(low)} to {number(high)}" for env, (low, high) in content.reference.items()
    )
    origin = "given on the command line" if content.given else "the least and the greatest final score of any run here"
    return f"A score of 0 and of 1 are these returns, {origin}: {listed}."


def _aggregates(content: Content) -> str:
    rows = []
    for name, tasks in summary.normalised(content.suite, content.reference).items():
        found, mean = estimate(tasks), estimate(tasks, np.mean)
        rows.append([name, str(sum(map(len, tasks))), number(float(found.value)), interval(found)])
        rows[-1] += [number(float(mean.value)), interval(mean)]
    return table(["group", "runs", "interquartile mean", INTERVAL, "mean", INTERVAL], rows)


def _bars(suite: Suite, bar: float) -> str:
    rows = []
    for env, groups in suite.items():
        for group in groups:
            found = [curves.reaches(result.curve, bar) for result in group.results]
            steps, seconds = np.array([(np.inf, np.inf) if each is None else each for each in found]).T
            figures = [float(figure(axis)) for axis in (steps, seconds) for figure in (np.median, np.max)]
            shown = ["never" if figure == np.inf else number(figure) for figure in figures]
            reached = f"{int(np.isfinite(steps).sum())} of {len(steps)}"
            rows.append([f"{env}: {group.name}", reached, *shown])
    unit = _unit(results_in(suite))
    head = ["group", "reached by", f"{unit}, median", f"{unit}, worst", "seconds, median", "seconds, worst"]
    return table(head, rows)


def _improvements(pairs: Sequence[Improvement]) -> str:
    text = "How probable it is that a run of the first group scores higher than one of the second, over environments:"
    rows = [[one, other, number(float(found.value)), interval(found)] for one, other, found in pairs]
    return text + "\n\n" + table(["group", "than", "probability", INTERVAL], rows, texts=2)


def _runs(suite: Suite) -> str:
    rows = []
    for env, groups in suite.items():
        for group in groups:
            for result in group.results:
                score, ends = result.score, (result.curve.env_steps[-1], result.curve.seconds[-1])
                episodes = "–" if score.episodes is None else str(score.episodes)
                figures = [str(result.seed), number(score.value), episodes, *map(number, ends)]
                rows.append([result.name, env, group.name, score.source, *figures])
    head = ["run", "environment", "group", "score from", "seed", "final score", "episodes", *_ends(results_in(suite))]
    return table(head, rows, texts=4)


def _origin(suite: Suite) -> list[str]:
    results = results_in(suite)
    listed = [f"- {escaped(line)}" for line in origins.described(results)]
    commands = "\n".join(f"    {line}" for line in origins.commands(results))
    return ["\n".join(listed), "The commands of the runs:", commands]
