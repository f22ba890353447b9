"""Pictures of positions, of numbers, and their captions."""

from __future__ import annotations

import matplotlib
import numpy as np
import pyspiel
import pytest
from PIL import Image, ImageDraw, ImageFont

from boonta.envs.atari import Atari
from boonta.envs.catch import Catch
from boonta.envs.followed import with_open_spiel_states
from boonta.envs.jax.pgx import Pgx
from boonta.envs.minatar import MinAtar
from boonta.envs.open_spiel import OpenSpiel
from boonta.programs.reports import frames

pytestmark = pytest.mark.once


def state(game: str, *moves: int) -> pyspiel.State:
    found = pyspiel.load_game(game).new_initial_state()
    for move in moves:
        found.apply_action(move)
    return found


def cell(picture: np.ndarray, row: int, column: int) -> np.ndarray:
    top, left = frames.MARGIN + row * frames.CELL, frames.MARGIN + column * frames.CELL
    return picture[top : top + frames.CELL, left : left + frames.CELL]


def middle(picture: np.ndarray, row: int, column: int) -> tuple[int, ...]:
    """The colour in the middle of a cell."""
    return tuple(cell(picture, row, column)[frames.CELL // 2, frames.CELL // 2])


def has(picture: np.ndarray, piece: str) -> bool:
    return bool((picture == frames.COLOURS[piece]).all(axis=-1).any())


def assert_names(picture: np.ndarray, rows: str, columns: str) -> None:
    """Checks the names beside each row, from the top, and below each column."""
    for row, name in enumerate(rows.split()):
        top = frames.MARGIN + row * frames.CELL
        assert (picture[top : top + frames.CELL, : frames.MARGIN] == written(name, frames.MARGIN, frames.CELL)).all()
    below = picture[-frames.MARGIN + 1 :]
    for column, name in enumerate(columns.split()):
        left = frames.MARGIN + column * frames.CELL
        shown = below[:, left : left + frames.CELL]
        assert (shown == written(name, frames.CELL, frames.MARGIN)[1:]).all()
    assert picture.shape[:2] == tuple(len(each.split()) * frames.CELL + 2 * frames.MARGIN for each in (rows, columns))


def written(name: str, width: int, height: int) -> np.ndarray:
    """A name in the middle of white paper, uint8 [height, width, 3]."""
    image = Image.new("RGB", (width, height), frames.PAPER)
    font = ImageFont.truetype(str(matplotlib.get_data_path()) + "/fonts/ttf/DejaVuSans.ttf", 13)
    ImageDraw.Draw(image).text((width / 2, height / 2), name, frames.INK, font, anchor="mm")
    return np.asarray(image)


def test_a_small_board_has_x_and_o_where_they_are():
    drawn = frames.position(str(state("tic_tac_toe", 4, 2)))  # x(1,1), o(0,2)
    assert_names(drawn, "0 1 2", "0 1 2")
    assert has(cell(drawn, 1, 1), "x") and has(cell(drawn, 0, 2), "o")
    assert not any(has(cell(drawn, row, column), piece) for row in (0, 2) for column in (0, 1) for piece in "xo")
    assert middle(drawn, 1, 1) == frames.COLOURS["x"]  # The strokes cross there;
    assert middle(drawn, 0, 2) == frames.WOOD  # a ring is empty.


def test_a_large_board_has_discs():
    drawn = frames.position(str(state("connect_four", 3, 3)))
    assert_names(drawn, "0 1 2 3 4 5", "0 1 2 3 4 5 6")
    assert middle(drawn, 5, 3) == frames.COLOURS["x"] and middle(drawn, 4, 3) == frames.COLOURS["o"]


@pytest.mark.parametrize(
    ("game", "rows", "columns", "black", "white"),
    [
        ("othello", "1 2 3 4 5 6 7 8", "a b c d e f g h", [(3, 4), (4, 3)], [(3, 3), (4, 4)]),
        ("go(board_size=5)", "5 4 3 2 1", "A B C D E", [(4, 1)], [(2, 0)]),
        ("breakthrough", "8 7 6 5 4 3 2 1", "a b c d e f g h", [(0, 0), (1, 7)], [(6, 0), (7, 7)]),
    ],
)
def test_a_board_with_names_has_them_and_discs_of_black_and_white(game, rows, columns, black, white):
    drawn = frames.position(str(state(game, *([1, 10] if game.startswith("go") else []))))  # B b1, W a3
    assert_names(drawn, rows, columns)
    assert [middle(drawn, *at) for at in black] == [frames.COLOURS["b"]] * len(black)
    assert [middle(drawn, *at) for at in white] == [frames.COLOURS["w"]] * len(white)
    assert middle(drawn, 2, 4) == frames.WOOD


def test_a_board_of_chess_has_its_pieces_where_they_are():
    drawn = frames.position("8/3q4/8/8/8/8/K7/7k b - - 0 1")
    assert_names(drawn, "8 7 6 5 4 3 2 1", "a b c d e f g h")
    inked = {(y, x) for y in range(8) for x in range(8) if (cell(drawn, y, x)[2:-2, 2:-2] != frames.WOOD).any()}
    assert inked == {(1, 3), (6, 0), (7, 7)}
    own, other = (int((cell(drawn, *at)[2:-2, 2:-2] == frames.INK).all(axis=-1).sum()) for at in ((6, 0), (7, 7)))
    assert other > 1.5 * own  # A black king is filled.
    assert frames.position(str(state("chess"))).shape == drawn.shape


def test_a_blocked_cell_does_not_turn_a_board_into_text():
    found = state("amazons")
    for _ in range(3):  # Whose piece moves, to where, and which cell it blocks.
        found.apply_action(found.legal_actions()[0])
    drawn = frames.position(str(found))
    assert_names(drawn, "0 1 2 3 4 5 6 7 8 9", "0 1 2 3 4 5 6 7 8 9")
    assert [middle(drawn, y, x) for y in range(10) for x in range(10)].count(frames.COLOURS["#"]) == 1


@pytest.mark.parametrize("game", ["checkers", "lines_of_action", "pig", "nim", "2048"])
def test_any_other_position_is_drawn_as_its_text(game):
    found = state(game)
    while found.is_chance_node():
        found.apply_action(found.legal_actions()[0])
    drawn = frames.position(str(found))
    assert drawn.ndim == 3 and drawn.dtype == np.uint8 and not (drawn == frames.WOOD).all(axis=-1).any()
    assert (drawn == frames.INK).all(axis=-1).any()


@pytest.mark.parametrize("text", ["", "\n", " \n "])
def test_a_blank_position_is_blank_paper(text):
    assert (frames.position(text) == frames.PAPER).all()


def test_numbers_are_curves_and_each_step_is_marked():
    values = [np.array([step, -step], np.float32) for step in range(10)]
    drawn = frames.vectors(values)
    assert len(drawn) == 10 and len({frame.shape for frame in drawn}) == 1
    columns = [np.flatnonzero((frame == frames.COLOURS["x"]).all(axis=-1).any(axis=0)) for frame in drawn]
    marked = [int(np.median(each)) for each in columns]
    assert marked == sorted(marked) and marked[-1] - marked[0] > 200


def test_a_caption_is_below_and_pictures_of_a_film_have_one_size():
    small, large = np.zeros((10, 50, 3), np.uint8), np.zeros((20, 40, 3), np.uint8)
    alike = frames.alike([small, large])
    assert [frame.shape for frame in alike] == [(20, 50, 3)] * 2 and alike[0][15, 5, 0] == 255
    captioned = frames.captioned(small, "0: left")
    assert captioned.shape == (10 + frames.LINE, 50, 3) and (captioned[:10] == 0).all()
    assert (captioned[10:] == frames.INK).all(axis=-1).any()


@pytest.mark.parametrize(
    ("env", "names"),
    [
        (Catch(), ["left", "stay", "right"]),
        (MinAtar("breakout", minimal_actions=True), ["stay", "left", "right"]),
        (Atari("Pong"), ["noop", "fire", "right", "left", "rightfire", "leftfire"]),
        (OpenSpiel("tic_tac_toe"), [f"x({row},{column})" for row in range(3) for column in range(3)]),
        (with_open_spiel_states(Pgx("connect_four")), [f"x{column}" for column in range(7)]),
        (Pgx("connect_four"), [str(column) for column in range(7)]),
    ],
)
def test_actions_have_names(env, names):
    batch = env(1, seed=0)
    batch.reset()
    assert [batch.action_name(0, action) for action in range(env.spec.actions.num_values)] == names
    batch.close()
