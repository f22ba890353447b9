import numpy as np
import pytest

from envs import base, catch, minatar
from envs.gymnasium import Gymnasium
from envs.jax import consistency
from envs.jax.catch import Catch
from envs.jax.gymnax import Gymnax
from envs.jax.minatar import MinAtar
from envs.jax.pgx import Pgx


def ball_of_catch(timestep, slot, state):
    return state._replace(ball=timestep.observation[slot, 0].argmax())


def ball_of_breakout(timestep, slot, state):
    column = timestep.observation[slot, 3, :, 1].argmax()
    return state.replace(_ball_x=column, _last_x=column, _ball_dir=2 if column == 0 else 3)


def pole(timestep, slot, state):
    x, x_dot, theta, theta_dot = timestep.observation[slot]
    env = state.env.replace(x=x, x_dot=x_dot, theta=theta, theta_dot=theta_dot)
    return state._replace(env=env, observation=timestep.observation[slot])


@pytest.mark.parametrize(("rows", "columns"), [(10, 5), (4, 6)])
def test_catch(rows, columns):
    ended = consistency.check(Catch(rows, columns), catch.Catch(rows, columns), ball_of_catch, steps=100)
    assert ended == 4 * (101 // rows)


@pytest.mark.parametrize("minimal", [True, False])
def test_minatar_breakout(minimal):
    settings = {"sticky_actions": 0.0, "minimal_actions": minimal, "max_episode_steps": 30}
    env, twin = MinAtar("breakout", **settings), minatar.MinAtar("breakout", **settings)
    assert consistency.check(env, twin, ball_of_breakout, num_envs=8, steps=400) > 100


def test_minatar_breakout_through_whole_walls_of_bricks():
    """A paddle that follows the ball plays games in which bricks, both walls and the ceiling are met."""
    env, twin = (kind("breakout", sticky_actions=0.0, minimal_actions=True) for kind in (MinAtar, minatar.MinAtar))

    def follow(timestep: base.TimeStep) -> np.ndarray:
        board = timestep.observation
        ball, trail = board[..., 1].any(axis=1).argmax(axis=1), board[..., 2].any(axis=1).argmax(axis=1)
        paddle = board[:, 9, :, 0].argmax(axis=1)
        aim = np.clip(2 * ball - trail, 0, 9)
        return np.where(aim > paddle, 2, np.where(aim < paddle, 1, 0)).astype(np.int32)

    rewards = []

    def choose(timestep, rng):
        rewards.append(timestep.reward.sum())
        return follow(timestep)

    consistency.check(env, twin, ball_of_breakout, num_envs=4, steps=600, choose=choose)
    assert sum(rewards) > 4 * 30  # a whole wall of them, which then comes back


def test_cart_pole_to_float_error():
    env = Gymnax("CartPole-v1", max_episode_steps=25)
    twin = Gymnasium("CartPole-v1", {"max_episode_steps": 25})
    assert consistency.check(env, twin, pole, num_envs=8, steps=200, rtol=1e-4, atol=1e-5) > 50


def mine_and_theirs(first: int, second: int, rows: slice):
    """Makes OpenSpiel's planes, of both players and of what is empty, those of the one who is to move."""

    def adapt(observation: base.BoardView) -> base.BoardView:
        planes = observation.view[:, rows]
        own = planes[..., -1:]  # the player
        mine = np.where(own == 0, planes[..., first, None], planes[..., second, None])
        theirs = np.where(own == 0, planes[..., second, None], planes[..., first, None])
        return observation._replace(view=np.concatenate([mine, theirs, own], axis=-1))

    return adapt


@pytest.mark.parametrize(
    ("game", "adapt"),
    [
        ("tic_tac_toe", mine_and_theirs(2, 1, slice(None))),
        ("connect_four", mine_and_theirs(0, 1, slice(None, None, -1))),  # OpenSpiel's lowest row comes first
    ],
)
def test_board_games(game, adapt):
    open_spiel = pytest.importorskip("envs.open_spiel")
    assert consistency.check(Pgx(game), open_spiel.OpenSpiel(game), adapt=adapt, steps=250) > 15


def test_names_the_first_difference():
    class Greedy(Catch):
        def move(self, key, state, action):
            state, reward, landed, no = super().move(key, state, action)
            return state, 2 * reward, landed, no

    with pytest.raises(
        consistency.ConsistencyError, match=r"step 9, slot 0, reward: -?2.0, and the twin's -?1.0 \(4 of 4"
    ):
        consistency.check(Greedy(), catch.Catch(), ball_of_catch)

    class Lazy(Catch):
        def move(self, key, state, action):
            return super().move(key, state, action // 2)

    with pytest.raises(
        consistency.ConsistencyError, match=r"step 1, slot \d, observation\[9, \d\]: .*, and the twin's"
    ):
        consistency.check(Lazy(), catch.Catch(), ball_of_catch)


def test_starts_must_be_the_same():
    with pytest.raises(consistency.ConsistencyError, match=r"step 0, slot \d, observation\[0, \d\]"):
        consistency.check(Catch(), catch.Catch(), num_envs=16)


def test_refuses_twins_of_other_actions_or_shapes():
    with pytest.raises(ValueError, match="the actions are .* and the twin's .* they must be equal"):
        consistency.check(MinAtar("breakout"), catch.Catch())
    with pytest.raises(
        consistency.ConsistencyError, match=r"step 0, observation: float32\[4, 10, 5\], and the twin's float"
    ):
        consistency.check(Catch(), catch.Catch(columns=6))
