"""Pictures of what an agent sees and does: positions of board games, plots of numbers, and captions below them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402  # The backend must be chosen first.

CELL, MARGIN, LINE, PAD = 44, 24, 22, 8  # Sizes in pixels: of a cell, of its coordinates, of a line of text.
LEAST = 168  # Height of a picture of text.
INK, PAPER, WOOD = (30, 30, 30), (255, 255, 255), (246, 235, 211)
COLOURS = {"x": (200, 40, 40), "o": (30, 90, 200), "b": (20, 20, 20), "w": (255, 255, 255)}  # Of the players' pieces,
COLOURS["#"] = (130, 130, 130)  # and of what blocks a cell of amazons.
EMPTY = ".-+"  # What texts of positions have for an empty cell.
GRID = re.compile(rf"[{re.escape(EMPTY)}xob#]+|[{re.escape(EMPTY)}xow]+", re.IGNORECASE)
LABELLED = re.compile(rf"(\d+)([{re.escape(EMPTY)}xobw]+)(?:\1)?", re.IGNORECASE)  # A row with its number.
SIDES = str.maketrans("xo", "bw")  # Games whose texts have coordinates, such as go, call these black and white.
FEN = re.compile(r"((?:[1-8kqrbnp]+/){7}[1-8kqrbnp]+) [wb] .*", re.IGNORECASE)  # A position of chess.
CHESS = str.maketrans("KQRBNPkqrbnp", "♔♕♖♗♘♙♚♛♜♝♞♟")
STONES = 5  # From this size on, pieces are discs; on smaller boards they are X and O.
PLOTTED = 8  # More numbers are drawn without names.


class Board(NamedTuple):
    """A board.

    Attributes:
      cells: a text for each row from the top, with a character for each cell.
      rows, columns: their names.
    """

    cells: Sequence[str]
    rows: Sequence[str]
    columns: Sequence[str]


def position(text: str) -> np.ndarray:
    """Draws a position as OpenSpiel writes it, uint8 [H, W, 3]: a board with coordinates, or else the text itself."""
    board = _parsed(text.strip())
    return _lines(text.strip("\n").splitlines()) if board is None else _board(board)


def vectors(values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Draws the numbers of each step [D] as curves over the episode, with a line at the step; uint8 [H, W, 3] each."""
    series = np.stack(values)
    figure, axes = pyplot.subplots(figsize=(5, 3), dpi=80, layout="constrained")
    for i, curve in enumerate(series.T):
        axes.plot(curve, label=f"{i}" if series.shape[1] <= PLOTTED else None, lw=1)
    if series.shape[1] <= PLOTTED:
        axes.legend(title="number", fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    axes.set(xlabel="step", ylabel="observation", xlim=(0, max(1, len(series) - 1)))
    figure.canvas.draw()
    whole = np.asarray(figure.canvas.buffer_rgba())[..., :3]  # type: ignore[attr-defined]
    top, bottom = (whole.shape[0] - int(axes.bbox.y1), whole.shape[0] - int(axes.bbox.y0))
    columns = [int(axes.transData.transform((step, 0))[0]) for step in range(len(series))]
    pyplot.close(figure)
    frames = []
    for column in columns:
        frame = whole.copy()
        frame[top:bottom, max(0, column - 1) : column + 1] = COLOURS["x"]
        frames.append(frame)
    return frames


def alike(frames: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Pictures with white added at their right and bottom, so that all have one size, as films need it."""
    height, width = (max(frame.shape[axis] for frame in frames) for axis in (0, 1))
    padding = [((0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)) for frame in frames]
    return [np.pad(frame, pad, constant_values=255) for frame, pad in zip(frames, padding)]


def captioned(frame: np.ndarray, caption: str) -> np.ndarray:
    """A picture, uint8 [H, W, 3], with a line of text below it."""
    image = Image.new("RGB", (frame.shape[1], frame.shape[0] + LINE), PAPER)
    image.paste(Image.fromarray(frame), (0, 0))
    ImageDraw.Draw(image).text((PAD, frame.shape[0] + LINE / 2), caption, INK, _font(14), anchor="lm")
    return np.asarray(image)


def _parsed(text: str) -> Board | None:
    """The board that a text describes; without names, rows and columns are counted from 0, as in names of moves."""
    lines = [line.replace(" ", "") for line in text.splitlines()]
    labelled = [found for line in lines if (found := LABELLED.fullmatch(line))]
    if chess := FEN.fullmatch(text):
        ranks = re.sub(r"\d", lambda number: "." * int(number[0]), chess[1]).translate(CHESS).split("/")
        board = Board(ranks, "87654321", "abcdefgh")
    elif labelled:
        cells = [found[2].lower().translate(SIDES) for found in labelled]
        board = Board(cells, [found[1] for found in labelled], lines[-1])
    elif lines and all(GRID.fullmatch(line) for line in lines):
        board = Board([line.lower() for line in lines], *([str(i) for i in range(len(of))] for of in (lines, lines[0])))
    else:
        return None
    is_board = len(board.cells) > 2 and all(len(line) == len(board.columns) > 2 for line in board.cells)
    is_clear = len({*"".join(board.cells)} & {*EMPTY}) <= 1  # In checkers, one of them is a piece.
    return board if is_board and is_clear else None


def _board(board: Board) -> np.ndarray:
    rows, columns = len(board.rows), len(board.columns)
    image = Image.new("RGB", (columns * CELL + 2 * MARGIN, rows * CELL + 2 * MARGIN), PAPER)
    pen = ImageDraw.Draw(image)
    for y, (name, line) in enumerate(zip(board.rows, board.cells)):
        pen.text((MARGIN / 2, MARGIN + (y + 0.5) * CELL), name, INK, _font(13), anchor="mm")
        for x, piece in enumerate(line):
            left, top = MARGIN + x * CELL, MARGIN + y * CELL
            pen.rectangle((left, top, left + CELL, top + CELL), WOOD, INK)
            _piece(pen, piece, left, top, max(rows, columns) >= STONES)
    for x, name in enumerate(board.columns):
        pen.text((MARGIN + (x + 0.5) * CELL, MARGIN * 1.5 + rows * CELL), name, INK, _font(13), anchor="mm")
    return np.asarray(image)


def _piece(pen: ImageDraw.ImageDraw, piece: str, left: float, top: float, stones: bool) -> None:
    inner = (left + 7, top + 7, left + CELL - 7, top + CELL - 7)
    if piece in EMPTY:
        return
    if ord(piece) in CHESS.values():
        pen.text((left + CELL / 2, top + CELL / 2), piece, INK, _font(32), anchor="mm")
    elif stones:
        pen.ellipse(inner, COLOURS[piece], INK)
    elif piece == "o":
        pen.ellipse(inner, outline=COLOURS["o"], width=5)
    else:
        pen.line(inner, COLOURS["x"], 5)
        pen.line((inner[0], inner[3], inner[2], inner[1]), COLOURS["x"], 5)


def _lines(lines: Sequence[str]) -> np.ndarray:
    """Draws text with letters of one width, so that its columns stay columns."""
    font = ImageFont.truetype(str(matplotlib.get_data_path()) + "/fonts/ttf/DejaVuSansMono.ttf", 16)
    width = max((font.getlength(line) for line in lines), default=0.0)
    image = Image.new("RGB", (int(width) + 2 * PAD, max(LEAST, LINE * len(lines) + 2 * PAD)), PAPER)
    ImageDraw.Draw(image).multiline_text((PAD, PAD), "\n".join(lines), INK, font, spacing=4)
    return np.asarray(image)


def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(matplotlib.get_data_path()) + "/fonts/ttf/DejaVuSans.ttf", size)
