"""MuZero: planning with a learned model."""

from boonta.agents.muzero.agent import make, make_unplugged
from boonta.agents.muzero.config import ATARI, BOARD, CARTPOLE, CATCH, CONNECT_FOUR, MINATAR, Config
from boonta.agents.muzero.groups import Puct, SelfPlay
from boonta.agents.muzero.history import Seen
from boonta.agents.muzero.networks import ChanceModel, Model, Prediction, scale_hidden

__all__ = [
    "ATARI",
    "BOARD",
    "CARTPOLE",
    "CATCH",
    "CONNECT_FOUR",
    "MINATAR",
    "ChanceModel",
    "Config",
    "Model",
    "Prediction",
    "Puct",
    "Seen",
    "SelfPlay",
    "make",
    "make_unplugged",
    "scale_hidden",
]
