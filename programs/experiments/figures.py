"""The pictures of a comparison, as PNG and SVG; the origin of each is in its metadata."""

from __future__ import annotations

import contextlib
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np

from boonta.programs.experiments.curves import label_of
from boonta.programs.experiments.summary import Band
from boonta.programs.wiring.run import BadInput

matplotlib.use("agg")
from matplotlib import pyplot, ticker  # noqa: E402  # The backend must be chosen first.

COUNTED = [label_of("env_steps", each) for each in (["env_steps"], ["updates"], ["env_steps", "updates"])]
FORMATS = ("png", "svg")
NOWHERE = "There is no point at which all runs have a value, for:"
COLUMNS = 3  # Number of pictures side by side.
OPTIONS = {"svg.hashsalt": "boonta", "svg.fonttype": "none"}  # The same numbers make the same file.


def draw(
    panels: Mapping[str, Mapping[str, Band]],
    target: pathlib.Path,
    xlabel: str,
    ylabel: str,
    origin: str,
    footer: str,
    formats: Sequence[str] = FORMATS,
) -> None:
    """Draws the curves of groups with their intervals.

    Args:
      panels: by title, the curves of each group by its name. A group has the same colour in all.
      target: the file, without its ending.
      xlabel, ylabel: the names of the axes.
      origin: the runs and versions behind the picture, for the files' metadata.
      footer: a shorter form of the origin, which is drawn below the picture.
      formats: the endings of the files.

    Raises:
      OSError: a file can't be written.
    """
    columns = min(COLUMNS, len(panels))
    lines = math.ceil(len(panels) / columns)
    with matplotlib.rc_context(OPTIONS):
        figure, axes = pyplot.subplots(
            lines, columns, figsize=(max(7.0, 4.5 * columns), 4 * lines + 0.6), layout="constrained", squeeze=False
        )
        # A curve that has its panel's title needs no entry in the legend.
        names = list(dict.fromkeys(name for title, bands in panels.items() for name in bands if name != title))
        for place, (title, bands) in zip(axes.flat, panels.items()):
            _fill(place, bands, names)
            place.set(title=title, xlabel=xlabel, ylabel=ylabel)
            if xlabel in COUNTED:
                place.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
            place.grid(alpha=0.3)
        for place in axes.flat[len(panels) :]:
            place.set_axis_off()
        drawn = {label: handle for place in axes.flat for handle, label in zip(*place.get_legend_handles_labels())}
        shown = [name for name in names if name in drawn]
        figure.legend([drawn[name] for name in shown], shown, loc="outside upper center", ncols=2, fontsize="small")
        figure.supxlabel(footer, fontsize=6, color="0.4")
        _save(figure, target, origin, formats)
        pyplot.close(figure)


@contextlib.contextmanager
def only_showable() -> Iterator[None]:
    """Raises BadInput where something is drawn of runs with numbers that no picture can show."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise BadInput(f"the runs have numbers that no picture can show: {error}") from error


def _fill(place: Any, bands: Mapping[str, Band], names: Sequence[str]) -> None:
    """Draws curves into a pair of axes, each in the colour of its place among these names."""
    empty = [name for name, band in bands.items() if not len(band.x)]
    if empty:
        place.text(0.05, 0.95, "\n".join([NOWHERE, *empty]), transform=place.transAxes, va="top", fontsize="small")
    for name, band in bands.items():
        i = names.index(name) if name in names else 0
        colour = f"C{i % 10}"
        style = "-" if i < 10 else "--"
        if len(band.x) == 1:  # A line through one point has no length.
            low, value, high = band.y.low, band.y.value, band.y.high
            reach = np.nan_to_num([value - low, high - value])
            place.errorbar(band.x, value, reach, fmt="o", capsize=4, color=colour, label=name)
            continue
        place.plot(band.x, band.y.value, color=colour, linestyle=style, drawstyle="steps-post", label=name)
        place.fill_between(band.x, band.y.low, band.y.high, step="post", color=colour, alpha=0.2, linewidth=0)


def _save(figure: Any, target: pathlib.Path, origin: str, formats: Sequence[str]) -> None:
    for ending in formats:
        metadata: dict[str, Any] = {"Description": origin}
        if ending == "svg":
            metadata["Date"] = None
        # A name may have dots of its own, as that of a group called level-0.5 has, which `with_suffix` would cut.
        figure.savefig(target.with_name(f"{target.name}.{ending}"), dpi=120, metadata=metadata)


def files(names: Sequence[str]) -> list[str]:
    """The names of the files of pictures."""
    return [f"{name}.{ending}" for name in names for ending in FORMATS]
