import dm_env
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.envs import base, catch, minatar
from boonta.envs.gymnasium import Gymnasium
from boonta.envs.jax import consistency
from boonta.envs.jax.catch import Catch
from boonta.envs.jax.grid_world import GridWorld, State
from boonta.envs.jax.gymnax import Gymnax
from boonta.envs.jax.minatar import MinAtar
from boonta.envs.jax.pgx import Pgx
from boonta.envs.looped import LoopedEnv

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def ball_of_catch(timestep, slot, state):
    return state._replace(ball=timestep.observation[slot, 0].argmax())


def ball_of_breakout(timestep, slot, state):
    column = timestep.observation[slot, 3, :, 1].argmax()
    return state.replace(_ball_x=column, _last_x=column, _ball_dir=2 if column == 0 else 3)


def cars_of_freeway(timestep, slot, state):
    lanes = timestep.observation[slot, 1:9, :, 2:]  # What a car trails: where, and in the channel of its speed.
    trail, speed = lanes.any(axis=2).argmax(axis=1), 1 + lanes.any(axis=1).argmax(axis=1)
    speed = np.where(trail == 9, speed, -speed)  # All begin in column 0.
    return state.replace(_cars=np.stack([np.zeros(8), np.arange(1, 9), abs(speed), speed], axis=1))


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
    assert sum(rewards) > 4 * 30  # A whole wall of them, which then comes back.


@pytest.mark.parametrize("minimal", [True, False])
def test_minatar_space_invaders(minimal):
    settings = {"sticky_actions": 0.0, "minimal_actions": minimal}
    env, twin = MinAtar("space_invaders", **settings), minatar.MinAtar("space_invaders", **settings)
    assert consistency.check(env, twin, num_envs=8, steps=800) > 80


@pytest.mark.parametrize(("limit", "steps", "ended"), [(150, 600, 16), (None, 2501, 2)])  # The rules end it at 2,501.
def test_minatar_freeway_short_of_the_other_side(limit, steps, ended):
    """The chicken stops before the other side, because there the two games draw new, different speeds."""
    settings = {"sticky_actions": 0.0, "minimal_actions": True, "max_episode_steps": limit}
    env, twin = MinAtar("freeway", **settings), minatar.MinAtar("freeway", **settings)

    def choose(timestep, rng):
        row = timestep.observation[:, :, 4, 0].argmax(axis=1)
        action = np.where(rng.random(len(row)) < 0.6, 1, rng.integers(3, size=len(row)))  # Most moves are up.
        return np.where(row == 1, 0, action).astype(np.int32)

    assert consistency.check(env, twin, cars_of_freeway, choose=choose, num_envs=ended, steps=steps) >= ended


@pytest.mark.parametrize(("game", "draws_at"), [("asterix", 11), ("seaquest", 21)])
def test_minatar_until_something_comes(game, draws_at):
    """Steps can be compared until the two games draw new objects, each with its own generator."""

    def both(limit: int) -> tuple[MinAtar, minatar.MinAtar]:
        settings = {"sticky_actions": 0.0, "max_episode_steps": limit}
        return MinAtar(game, **settings), minatar.MinAtar(game, **settings)

    assert consistency.check(*both(draws_at - 1), num_envs=8, steps=200) > 70
    with pytest.raises(consistency.ConsistencyError, match=f"step {draws_at}, slot 0, observation"):
        consistency.check(*both(draws_at), num_envs=8, steps=200)


class Maze(dm_env.Environment):
    """The rules of `GridWorld`, on a board of squares."""

    def __init__(self, env: GridWorld, seed: int):
        self._env, self._rng = env, np.random.default_rng(seed)

    def reset(self):
        n = self._env.cells
        free = np.zeros((2 * n - 1, 2 * n - 1), bool)
        free[::2, ::2] = True
        for row, column in np.ndindex(n, n):
            up = row > 0 and (column == 0 or self._rng.random() < 0.5)
            if up or column > 0:
                free[2 * row - up, 2 * column - (not up)] = True
        self._free = free[:: self._rng.choice([1, -1]), :: self._rng.choice([1, -1])]
        start, goal = self._rng.choice(n * n, 2, replace=False)
        self._at, self._goal = ([2 * (cell // n), 2 * (cell % n)] for cell in (start, goal))
        self._steps = 0
        return dm_env.restart(self._board())

    def step(self, action):
        down, right = [(-1, 0), (0, 1), (1, 0), (0, -1)][action]
        row, column = self._at[0] + down, self._at[1] + right
        side = range(len(self._free))
        if row in side and column in side and self._free[row, column]:
            self._at = [row, column]
        self._steps += 1
        if self._at == self._goal:
            return dm_env.termination(1.0, self._board())
        ended = self._steps == self._env.max_episode_steps
        return (dm_env.truncation if ended else dm_env.transition)(0.0, self._board())

    def _board(self):
        board = np.zeros((*self._free.shape, 3), np.float32)
        board[..., 0] = ~self._free
        board[(*self._at, 1)] = board[(*self._goal, 2)] = 1
        return board

    def observation_spec(self):
        return self._env.spec.observations

    def action_spec(self):
        return self._env.spec.actions


def maze_of(env: GridWorld):
    """Recovers the coins of a maze from its board; see `GridWorld`."""

    def start(timestep, slot, state):
        board = timestep.observation[slot]
        agent, goal = (np.int32(board[..., plane].argmax()) for plane in (1, 2))
        for upside_down, mirrored in np.ndindex(2, 2):
            free = board[:: -1 if upside_down else 1, :: -1 if mirrored else 1, 0] == 0
            opens_up = np.zeros((env.cells, env.cells), bool)
            opens_up[1:] = free[1::2, ::2]
            coins = [*opens_up.ravel(), upside_down, mirrored]
            words = [
                sum(int(coin) << i for i, coin in enumerate(coins[at : at + 32])) for at in range(0, len(coins), 32)
            ]
            found = State(np.array(words, np.uint32), agent, goal, np.int32(0))
            if np.array_equal(env.observe(State(*map(jnp.asarray, found))), board):
                return found
        raise AssertionError(f"no coins make the walls\n{board[..., 0]}")

    return start


@pytest.mark.parametrize("cells", [3, 6])  # The coins take one word, and two.
def test_grid_world(cells):
    env = GridWorld(cells, max_episode_steps=40)

    class Twin:
        spec = env.spec

        def __call__(self, num_envs, seed):
            return LoopedEnv([Maze(env, int(each)) for each in base.slot_seeds(num_envs, seed)], env.spec)

    assert consistency.check(env, Twin(), maze_of(env), num_envs=8, steps=300) > 8 * 7


def test_cart_pole_to_float_error():
    env = Gymnax("CartPole-v1", max_episode_steps=25)
    twin = Gymnasium("CartPole-v1", {"max_episode_steps": 25})
    assert consistency.check(env, twin, pole, num_envs=8, steps=200, rtol=1e-4, atol=1e-5) > 50


def mine_and_theirs(first: int, second: int, rows: slice):
    """Converts OpenSpiel's planes (both players, empty cells) to the planes of the player to move and the other."""

    def adapt(observation: base.BoardView) -> base.BoardView:
        planes = observation.view[:, rows]
        own = planes[..., -1:]  # The player.
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
    open_spiel = pytest.importorskip("boonta.envs.open_spiel")
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
