"""DQN: action values learned from replay, from the plain agent to Rainbow and Ape-X."""

from boonta.agents.dqn.agent import make
from boonta.agents.dqn.config import (
    APEX,
    BOARD,
    CARTPOLE,
    CATCH,
    DQN,
    GRID_WORLD,
    MINATAR,
    RAINBOW,
    ApeX,
    Config,
    Rainbow,
)
from boonta.agents.dqn.networks import Network, Outputs

__all__ = [
    "APEX",
    "BOARD",
    "CARTPOLE",
    "CATCH",
    "DQN",
    "GRID_WORLD",
    "MINATAR",
    "RAINBOW",
    "ApeX",
    "Config",
    "Network",
    "Outputs",
    "Rainbow",
    "make",
]
