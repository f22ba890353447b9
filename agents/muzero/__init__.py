"""MuZero: planning with a learned model."""

from boonta.agents.muzero.agent import make, make_unplugged
from boonta.agents.muzero.config import (
    ATARI,
    BOARD,
    CARTPOLE,
    CATCH,
    CONNECT_FOUR,
    MINATAR,
    REANALYZE_ATARI,
    REANALYZE_CATCH,
    Config,
)

__all__ = [
    "ATARI",
    "BOARD",
    "CARTPOLE",
    "CATCH",
    "CONNECT_FOUR",
    "MINATAR",
    "REANALYZE_ATARI",
    "REANALYZE_CATCH",
    "Config",
    "make",
    "make_unplugged",
]
