"""Pictures of positions, of numbers, and their captions."""

from __future__ import annotations

import numpy as np
import pyspiel
import pytest

from boonta.envs.atari import Atari
from boonta.envs.catch import Catch
from boonta.envs.followed import with_open_spiel_states
from boonta.envs.jax.base import as_env
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


def has(picture: np.ndarray, piece: str) -> bool:
    return bool((picture == frames.COLOURS[piece]).all(axis=-1).any())


def test_a_small_board_has_x_and_o_where_they_are():
    drawn = frames.position(str(state("tic_tac_toe", 4, 2)))  # x(1,1), o(0,2)
    assert drawn.shape == (3 * frames.CELL + 2 * frames.MARGIN,) * 2 + (3,)
    assert has(cell(drawn, 1, 1), "x") and has(cell(drawn, 0, 2), "o")
    assert not any(has(cell(drawn, row, column), piece) for row in (0, 2) for column in (0, 1) for piece in "xo")
    middle = frames.CELL // 2
    assert tuple(cell(drawn, 1, 1)[middle, middle]) == frames.COLOURS["x"]  # The strokes cross there;
    assert tuple(cell(drawn, 0, 2)[middle, middle]) == frames.WOOD  # a ring is empty.


def test_a_large_board_has_discs():
    drawn = frames.position(str(state("connect_four", 3, 3)))
    middle = frames.CELL // 2
    assert tuple(cell(drawn, 5, 3)[middle, middle]) == frames.COLOURS["x"]
    assert tuple(cell(drawn, 4, 3)[middle, middle]) == frames.COLOURS["o"]


@pytest.mark.parametrize("game", ["othello", "go(board_size=5)", "breakthrough", "chess", "pig", "nim", "2048"])
def test_any_other_position_is_drawn_as_its_text(game):
    found = state(game)
    while found.is_chance_node():
        found.apply_action(found.legal_actions()[0])
    drawn = frames.position(str(found))
    assert drawn.ndim == 3 and drawn.dtype == np.uint8 and (drawn == frames.INK).all(axis=-1).any()


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
        (with_open_spiel_states(as_env(Pgx("connect_four"))), [f"x{column}" for column in range(7)]),
        (as_env(Pgx("connect_four")), [str(column) for column in range(7)]),
    ],
)
def test_actions_have_names(env, names):
    batch = env(1, seed=0)
    batch.reset()
    assert [batch.action_name(0, action) for action in range(env.spec.actions.num_values)] == names
    batch.close()
