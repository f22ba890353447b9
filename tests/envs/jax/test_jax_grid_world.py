import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.envs import base, conformance
from boonta.envs.jax.grid_world import GridWorld
from boonta.envs.jax.purity import check_pure

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def boards(env: GridWorld, count: int) -> np.ndarray:
    """What the first steps of some slots show, bool [B, S, S, 3]."""
    init = jax.jit(jax.vmap(env.init))
    return np.asarray(init(jax.random.split(jax.random.PRNGKey(0), count))[1].observation).astype(bool)


def distances(free: np.ndarray, start: tuple[int, int]) -> np.ndarray:
    """Steps from start to every square of a board [S, S]; -1 where there is no way."""
    distance = np.full(free.shape, -1)
    distance[start] = 0
    for steps in range(1, free.size):
        near = np.pad(distance, 1, constant_values=-1) == steps - 1
        reached = near[:-2, 1:-1] | near[2:, 1:-1] | near[1:-1, :-2] | near[1:-1, 2:]
        distance[reached & free & (distance < 0)] = steps
    return distance


@pytest.mark.parametrize("cells", [4, 7])
def test_keeps_the_contract(cells):
    env = GridWorld(cells, max_episode_steps=30)
    check_pure(env)
    conformance.check(env, num_envs=8, steps=120)


@pytest.mark.parametrize("cells", [2, 3, 6])  # The bits take one word, and two.
def test_every_cell_can_be_reached_by_one_way_alone(cells):
    for board in boards(GridWorld(cells), 50):
        free = ~board[..., 0]
        assert free[::2, ::2].all() and not free[1::2, 1::2].any()
        assert free.sum() == 2 * cells**2 - 1  # The cells, and as many openings as a tree of them has.
        assert (distances(free, (0, 0))[free] >= 0).all()


def test_agent_and_goal_are_two_cells_anywhere():
    shown = boards(GridWorld(3), 300)
    agent, goal = (shown[..., plane].reshape(300, -1) for plane in (1, 2))
    assert (agent.sum(axis=1) == 1).all() and (goal.sum(axis=1) == 1).all() and not (agent & goal).any()
    cells = np.add.outer(5 * np.array([0, 2, 4]), [0, 2, 4]).ravel()
    for plane in (agent, goal):
        np.testing.assert_array_equal(np.flatnonzero(plane.any(axis=0)), cells)
        assert plane.sum(axis=0)[cells].min() > 300 / 9 / 2


def test_mazes_differ_and_open_to_all_sides():
    shown = boards(GridWorld(4), 200)[..., 0]
    assert len(np.unique(shown, axis=0)) > 150  # There are 2,048 boards.
    straight = [~shown[:, 0], ~shown[:, -1], ~shown[:, :, 0], ~shown[:, :, -1]]  # A binary tree has two open edges.
    assert all(40 < edge.all(axis=1).sum() < 160 for edge in straight)


def test_the_shortest_way_is_rewarded_at_its_end():
    env = GridWorld(4)
    state, timestep = env.init(jax.random.PRNGKey(5))
    board = np.asarray(timestep.observation).astype(bool)
    row, column = map(int, np.argwhere(board[..., 1])[0])
    to_goal = distances(~board[..., 0], tuple(np.argwhere(board[..., 2])[0]))
    step, total = jax.jit(env.step), 0
    for left in range(to_goal[row, column] - 1, -1, -1):
        ways = [(row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)]
        action = [left == (to_goal[way] if 0 <= min(way) <= max(way) < 7 else None) for way in ways].index(True)
        row, column = ways[action]
        state, timestep = step(state, jnp.int32(action))
        assert timestep.observation[row, column, 1] == 1
        assert int(timestep.step_type) == (base.MID if left else base.LAST)
        total += float(timestep.reward)
    assert (total, float(timestep.reward), float(timestep.discount)) == (1, 1, 0)
    _, timestep = step(state, jnp.int32(0))
    assert int(timestep.step_type) == base.FIRST
    assert not np.array_equal(timestep.observation[..., 0], board[..., 0])


def test_walls_stop_the_agent_and_time_ends_the_episode():
    env = GridWorld(2, max_episode_steps=6)
    batch = env(num_envs=16, seed=0)
    before = batch.reset().observation
    walls, agent = before[..., 0].astype(bool), before[..., 1].reshape(16, -1).argmax(axis=1)
    row, column = agent // 3, agent % 3
    blocked = (row == 0) | walls[np.arange(16), row - 1, column]
    after = batch.step(np.zeros(16, np.int32))  # Up.
    moved = (after.observation[..., 1] != before[..., 1]).any(axis=(1, 2))
    np.testing.assert_array_equal(moved, ~blocked)
    assert blocked.any() and moved.any()
    for _ in range(5):
        after = batch.step(np.zeros(16, np.int32))
    idle = blocked
    assert (after.step_type[idle] == base.LAST).all() and (after.discount[idle] == 1).all()


def test_draws_each_slot():
    batch = GridWorld()(num_envs=3, seed=0)
    board = batch.reset().observation
    picture = batch.render()
    assert picture.shape == (3, 7, 7, 3)
    np.testing.assert_array_equal(picture.any(axis=-1), board.any(axis=-1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cells": 1}, "cells is 1; it must be at least 2"),
        ({"max_episode_steps": 0}, "max_episode_steps is 0; it must"),
    ],
)
def test_refuses_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        GridWorld(**settings)
