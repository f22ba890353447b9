"""Draws a program: a box for each node, in columns along the path of the data, and arrows for what goes between."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import matplotlib

from boonta.programs.wiring.run_folder.recorded import Arrow, Picture, PictureGroup

matplotlib.use("agg")
from matplotlib import patches, pyplot  # noqa: E402  # The backend must be chosen first.

# The columns by the class of a group's nodes: data goes from left to right, and params come back.
COLUMNS = {"Replay": 2, "Learner": 3, "VariableServer": 4, "Inference": 0, "Monitor": 4}
ELSEWHERE = 1  # The column of all others, which act.
WIDTH, HEIGHT, GAP = 2.0, 0.62, 0.28  # Of a node's box, in inches.
COLUMN = WIDTH + 1.1
TOP, BELOW = 0.45, 0.4  # The space for the legend, and for arrows that go below all boxes.
MOST = 6  # Nodes of a group that have boxes of their own; of more, the last box is for the rest.
COLOURS = {"steps": "C0", "batches": "C2", "params": "C1", "observations": "C4", "actions": "C4"}
OPTIONS = {"svg.hashsalt": "boonta", "svg.fonttype": "none", "font.size": 8}
Place = tuple[float, float]


def draw(picture: Picture, target: pathlib.Path, doing: Mapping[str, str] | None = None) -> None:
    """Draws a program as an SVG, in which `box-NODE` and `doing-NODE` are the ids of a node's box and of its activity.

    Args:
      picture: the program.
      target: the file.
      doing: what each node does, by its name.
    """
    doing, places = doing or {}, _places(picture)
    columns, rows = max(x for x, _ in places.values()) + 1, max(y for _, y in places.values()) + 1
    size = (columns * COLUMN - 0.9, rows * (HEIGHT + GAP) + TOP + BELOW)
    with matplotlib.rc_context(OPTIONS):
        figure = pyplot.figure(figsize=size)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(-0.1, size[0] - 0.1), ylim=(size[1] - TOP, -TOP))
        axes.set_axis_off()
        at = {name: (x * COLUMN, y * (HEIGHT + GAP)) for name, (x, y) in places.items()}
        for arrow in picture.arrows:
            _draw_arrow(axes, arrow, picture, at)
        for i, what in enumerate(dict.fromkeys(arrow.what for arrow in picture.arrows)):
            axes.text(0.9 * i, -0.22, f"→ {what}", color=COLOURS[what])
        for group in picture.groups:
            for name, text in _shown(group).items():
                _draw_node(axes, name, text, at[name], doing.get(name, ""))
        figure.savefig(target, metadata={"Date": None})
        pyplot.close(figure)


def _shown(group: PictureGroup) -> dict[str, str]:
    """The text in each box of a group, by the name of its node."""
    names = group.names if len(group.names) <= MOST else group.names[: MOST - 1]
    texts = dict(zip(names, names))
    if len(group.names) > MOST:
        texts[group.names[MOST - 1]] = f"{group.label}: {len(group.names) - MOST + 1} more"
    return texts


def _places(picture: Picture) -> dict[str, tuple[int, int]]:
    """The column and the row of each box; a column that nothing is in is left out."""
    by_column: dict[int, list[str]] = {}
    for group in picture.groups:
        by_column.setdefault(COLUMNS.get(group.node, ELSEWHERE), []).extend(_shown(group))
    return {name: (x, y) for x, column in enumerate(sorted(by_column)) for y, name in enumerate(by_column[column])}


def _draw_node(axes: matplotlib.axes.Axes, name: str, text: str, at: Place, doing: str) -> None:
    box = patches.FancyBboxPatch(at, WIDTH, HEIGHT, "round,pad=0,rounding_size=0.1", fc="#eef3f8", ec="0.4", zorder=2)
    box.set_gid(f"box-{name}")
    axes.add_patch(box)
    axes.text(at[0] + WIDTH / 2, at[1] + 0.2, text, ha="center", va="center", weight="bold", zorder=3)
    shown = doing or " "  # Matplotlib leaves out a text that is empty.
    axes.text(at[0] + WIDTH / 2, at[1] + 0.43, shown, ha="center", va="center", zorder=3, gid=f"doing-{name}")


def _draw_arrow(axes: matplotlib.axes.Axes, arrow: Arrow, picture: Picture, at: Mapping[str, Place]) -> None:
    """Draws an arrow from each box of a group to each of another."""
    boxes = {group.label: list(_shown(group)) for group in picture.groups}
    for source in boxes.get(arrow.source, ()):
        for target in boxes.get(arrow.target, ()):
            start, end, bend = _ends(at[source], at[target])
            style: dict[str, Any] = {
                "arrowstyle": "-|>",
                "mutation_scale": 9,
                "color": COLOURS[arrow.what],
                "lw": 1.1,
                "alpha": 0.8,
            }
            axes.add_patch(patches.FancyArrowPatch(start, end, connectionstyle=f"arc3,rad={bend}", zorder=1, **style))


def _ends(source: Place, target: Place) -> tuple[Place, Place, float]:
    """Where an arrow begins and ends, at the sides of two boxes, and its bend."""
    if target[0] > source[0]:
        return (source[0] + WIDTH, source[1] + HEIGHT / 3), (target[0], target[1] + HEIGHT / 3), 0.0
    if target[0] < source[0] - 1.5 * COLUMN:  # It goes below the boxes between.
        return (source[0] + WIDTH / 3, source[1] + HEIGHT), (target[0] + WIDTH * 2 / 3, target[1] + HEIGHT), -0.25
    if target[0] < source[0]:
        return (source[0], source[1] + HEIGHT * 2 / 3), (target[0] + WIDTH, target[1] + HEIGHT * 2 / 3), 0.0
    return (source[0] + WIDTH / 2, source[1] + HEIGHT), (target[0] + WIDTH / 2, target[1]), 0.0
