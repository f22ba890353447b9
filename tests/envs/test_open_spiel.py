import pickle

import numpy as np
import pytest

from boonta.envs import base, conformance
from boonta.envs.open_spiel import OpenSpiel
from boonta.envs.players import RandomPlayer

pytestmark = pytest.mark.once


def play(env: base.BatchedEnv, *actions: list[int]) -> list[base.TimeStep]:
    """The steps of actions [T][B], after a reset."""
    return [env.reset(), *(env.step(np.array(action)) for action in actions)]


def row(steps: list[base.TimeStep], field: str, slot: int) -> list:
    """A field of each step in one slot."""
    return [getattr(step, field)[slot].item() for step in steps]


@pytest.mark.parametrize(
    ("env", "steps"),
    [
        (OpenSpiel("tic_tac_toe"), 60),
        (OpenSpiel("connect_four", "flat"), 200),
        (OpenSpiel("dots_and_boxes", passes=True), 100),
        (OpenSpiel("pig(horizon=40)", passes=True), 200),
        (OpenSpiel("2048"), 400),
        (OpenSpiel("nim", "flat"), 60),
    ],
    ids=str,
)
def test_keeps_the_contract(env, steps):
    conformance.check(env, num_envs=2, steps=steps)


def test_a_game_row_by_row():
    """x and o fill cells 0 to 8; in slot 0 the first to move completes 0 1 2, in slot 1 the second completes 3 4 5."""
    env = OpenSpiel("tic_tac_toe")(num_envs=2, seed=0)
    steps = play(env, [0, 0], [3, 3], [1, 1], [4, 4], [2, 8])
    assert env.episodes() == [base.Episode(slot=0, episode_return=1.0, env_steps=5)]
    steps.append(env.step(np.array([7, 5])))  # Slot 0 begins anew, whatever its action.
    assert env.episodes() == [base.Episode(slot=1, episode_return=-1.0, env_steps=6)]

    assert row(steps, "step_type", 0) == [base.FIRST, *[base.MID] * 4, base.LAST, base.FIRST]
    assert row(steps, "step_type", 1) == [base.FIRST, *[base.MID] * 5, base.LAST]
    assert row(steps, "reward", 0) == [0, 0, 0, 0, 0, 1, 0]
    assert row(steps, "reward", 1) == [0, 0, 0, 0, 0, 0, 1]  # A win is +1 for whoever moved.
    assert row(steps, "discount", 0) == [1, 1, 1, 1, 1, 0, 1]
    boards = [step.observation for step in steps]
    assert row(boards, "player", 0) == [0, 1, 0, 1, 0, 1, 0]
    assert row(boards, "player", 1) == [0, 1, 0, 1, 0, 1, 0]
    np.testing.assert_array_equal(boards[3].legal, [[False, False, True, False, True, True, True, True, True]] * 2)
    assert boards[5].legal[0].all() and boards[5].legal[1].nonzero()[0].tolist() == [2, 5, 6, 7]

    view = boards[3].view[0]  # The planes are: empty, o, x, the player.
    np.testing.assert_array_equal(view[..., 1], [[0, 0, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(view[..., 2], [[1, 1, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(view[..., 0], 1 - view[..., 1] - view[..., 2])
    np.testing.assert_array_equal(view[..., 3], np.ones((3, 3)))
    np.testing.assert_array_equal(boards[2].view[0, ..., 3], np.zeros((3, 3)))


def test_a_draw_earns_nobody_anything():
    env = OpenSpiel("tic_tac_toe")(num_envs=1, seed=0)
    steps = play(env, *([cell] for cell in (0, 1, 2, 4, 3, 5, 7, 6, 8)))
    assert row(steps, "reward", 0) == [0] * 10
    assert (steps[-1].step_type, steps[-1].discount) == (base.LAST, 0)
    assert env.episodes() == [base.Episode(slot=0, episode_return=0.0, env_steps=9)]


def test_connect_four_is_won_by_a_row_of_four():
    env = OpenSpiel("connect_four")(num_envs=1, seed=0)
    steps = play(env, *([column] for column in (0, 0, 1, 1, 2, 2, 3)))
    assert env.spec.observations.view.shape == (6, 7, 4)
    assert row(steps, "reward", 0) == [0, 0, 0, 0, 0, 0, 0, 1]
    assert steps[-1].step_type == base.LAST


def test_a_full_column_is_illegal():
    env = OpenSpiel("connect_four")(num_envs=2, seed=0)
    steps = play(env, *([3, column] for column in (3, 0, 3, 0, 3, 1)))
    assert steps[-1].observation.legal.tolist() == [[True, True, True, False, True, True, True], [True] * 7]
    with pytest.raises(ValueError, match=r"action of slot 0 is 3, which is illegal there; legal: \[0, 1, 2, 4, 5, 6\]"):
        env.step(np.array([3, 3]))
    env.step(np.array([2, 3]))  # A refused action has changed nothing.


def test_a_flat_view_holds_the_same_and_the_player_last():
    flat, planes = (OpenSpiel("connect_four", view)(1, 0) for view in ("flat", "planes"))
    for one, two in zip(play(flat, [3], [2]), play(planes, [3], [2])):
        np.testing.assert_array_equal(
            one.observation.view[0, :-1], np.moveaxis(two.observation.view[0, ..., :-1], -1, 0).ravel()
        )
        assert one.observation.view[0, -1] == one.observation.player[0]


def test_who_must_wait_passes():
    """Two boxes side by side: who draws the fourth line of the left one moves again."""
    env = OpenSpiel("dots_and_boxes(num_rows=1,num_cols=2)", passes=True)(num_envs=1, seed=0)
    num_actions = env.spec.actions.num_values
    assert num_actions == 7 + 1
    lines = [0, 2, 4, 5]  # The lines around the left box; player 1 draws the last one.
    steps = play(env, *([line] for line in lines))
    waits = steps[-1].observation
    assert waits.player[0] == 0 and np.flatnonzero(waits.legal[0]).tolist() == [num_actions - 1]
    assert (waits.view[..., -1] == 1).all() and (steps[-2].observation.view[..., -1] == 0).all()
    with pytest.raises(ValueError, match=r"action of slot 0 is 1, which is illegal there; legal: \[7\]"):
        env.step(np.array([1]))

    steps += [env.step(np.array([num_actions - 1]))]
    assert steps[-1].observation.player[0] == 1
    assert np.flatnonzero(steps[-1].observation.legal[0]).tolist() == [1, 3, 6]
    steps += [env.step(np.array([line])) for line in (1, 3, 6)]  # Player 1 completes the right box, too.
    assert row([step.observation for step in steps], "player", 0) == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    assert row(steps, "reward", 0) == [0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert env.episodes() == [base.Episode(slot=0, episode_return=-1.0, env_steps=8)]


def test_rewards_on_the_way_add_up():
    env = OpenSpiel("2048")(num_envs=3, seed=4)
    timestep, rng, earned = env.reset(), np.random.default_rng(0), np.zeros(3)
    assert env.spec.num_players == 1 and env.spec.observations.view.shape == (4, 4, 1)
    while not (episodes := env.episodes()):
        timestep = env.step(RandomPlayer()(env, timestep, rng))
        earned += timestep.reward
        assert not timestep.observation.player.any()
    assert episodes[0].episode_return == earned[episodes[0].slot] > 0


def test_slots_and_seeds_draw_their_own_chances():
    boards = [OpenSpiel("2048")(num_envs=16, seed=seed).reset().observation.view for seed in (0, 1)]
    assert len(np.unique(boards[0], axis=0)) > 8
    assert not np.array_equal(*boards)


def test_goes_to_another_process():
    env = OpenSpiel("breakthrough(rows=6,columns=6)")
    spec = env.spec
    assert pickle.loads(pickle.dumps(env)).spec == spec


def test_draws_each_slot():
    env = OpenSpiel("connect_four")(num_envs=2, seed=0)
    play(env, [0, 6])
    picture = env.render()
    assert picture.shape == (2, 6 * 12, 7 * 12, 3) and picture.dtype == np.uint8
    cells = picture[:, 6::12, 6::12]  # Their middles.
    stones = (cells != cells[:, :1, 3:4]).any(axis=-1)
    assert np.argwhere(stones).tolist() == [[0, 5, 0], [1, 5, 6]]  # The stones are in the lowest row.
    assert np.unique(cells.reshape(-1, 3), axis=0).shape == (2, 3)
    assert OpenSpiel("nim", "flat")(num_envs=1, seed=0).render() is None


def test_draws_greater_numbers_brighter():
    env = OpenSpiel("2048")(num_envs=40, seed=0)
    tiles = env.reset().observation.view[..., 0]  # 0, 2 or 4
    brightness = env.render()[:, 6::12, 6::12].sum(axis=-1)
    assert brightness[tiles == 0].max() == 0 < brightness[tiles == 2].max() < brightness[tiles == 4].min()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("conect_four",), "'conect_four', which OpenSpiel does not know; did you mean 'connect_four'"),
        (("zzzz",), "'zzzz', which OpenSpiel does not know; allowed: .*connect_four"),
        (
            ("connect_four(rows=x)",),
            r"'connect_four\(rows=x\)', which OpenSpiel refuses: Wrong type for parameter rows",
        ),
        (("goofspiel",), "'goofspiel': its players move at the same time; allowed: "),
        (("kuhn_poker",), "'kuhn_poker': it hides things from its players; allowed: "),
        (("hearts",), "'hearts': it hides things"),
        (("tic_tac_toe", "picture"), "view is 'picture'; allowed: 'planes', 'flat'"),
        (("backgammon",), r"view is 'planes', but backgammon has observations of shape \[200\]; allowed: 'flat'"),
        (("pig",), "'pig', where a player may move twice in a row; set passes=True"),
        (("dots_and_boxes",), "'dots_and_boxes', where a player may move twice in a row; set passes=True"),
        (("2048", "planes", True), "passes is True, but 2048 has one player"),
    ],
)
def test_refuses_what_it_cannot_play(settings, message):
    with pytest.raises(ValueError, match=message):
        OpenSpiel(*settings)
