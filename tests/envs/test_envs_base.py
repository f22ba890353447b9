import numpy as np
import pytest

from boonta.envs import base


def test_slot_seeds_are_reproducible_and_apart():
    seeds = np.concatenate([base.slot_seeds(64, seed) for seed in range(16)])
    np.testing.assert_array_equal(seeds[:64], base.slot_seeds(64, 0))
    assert len(set(seeds.tolist())) == len(seeds)  # Neighbouring seeds share none.
    assert seeds.min() >= 0 and seeds.max() < 2**31


@pytest.mark.parametrize(
    ("num_envs", "seed", "message"),
    [(0, 0, "num_envs is 0; it must be at least 1"), (1, -2, "seed is -2; it must be at least 0")],
)
def test_slot_seeds_refuses(num_envs, seed, message):
    with pytest.raises(ValueError, match=message):
        base.slot_seeds(num_envs, seed)


def test_rewards_of_player_0_are_those_of_its_own_moves_and_the_reverse_of_the_others():
    view = base.BoardView(np.zeros(2), np.ones((2, 3), bool), np.array([0, 1], np.int32))  # Who is to move now.
    timestep = base.TimeStep(np.full(2, base.MID), np.array([1.0, 2.0]), np.ones(2), view)
    assert base.reward_of_player_0(timestep, num_players=2).tolist() == [-1.0, 2.0]
    assert base.reward_of_player_0(timestep, num_players=1).tolist() == [1.0, 2.0]
