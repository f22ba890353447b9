"""The actor-critic network: where it may have a core. Its numbers are in the tests of the agents that share it."""

from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from boonta.agents import impala, ppo
from boonta.agents.config import name_of, replaced
from boonta.agents.groups import Torso
from boonta.agents.heads import categorical
from boonta.agents.policy_value import make_network
from boonta.envs.base import BoardView, EnvSpec

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
BOARD = BoardView(specs.Array((4,), np.float32), specs.Array((3,), bool), specs.BoundedArray((), np.int32, 0, 1))
TWO = EnvSpec(BOARD, specs.DiscreteArray(3), num_players=2)


@pytest.mark.parametrize("agent", [impala, ppo])
def test_a_core_in_a_game_of_two_is_refused(agent):
    """In a match each side acts on every ply, and would remember its action though the other's was played."""
    config = agent.Config(Torso("mlp", widths=(8,)), discount=-1.0)
    recurrent = replaced(config, {"lstm_size": 4})
    refused = f"{name_of(agent.Config)}: lstm_size is 4; it must be 0 for a game of two"
    with pytest.raises(ValueError, match=refused):
        agent.make(recurrent, TWO)
    refused = r"network: initial_state must return \(\) for a game of two: .*, but returns .*float32\[2, 4\]"
    with pytest.raises(ValueError, match=refused):
        agent.make(config, TWO, network=make_network(recurrent, TWO, categorical(3)))
    agent.make(config, TWO, network=make_network(config, TWO, categorical(3)))
