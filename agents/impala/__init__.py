"""IMPALA: `make` and a `Config` are all that a program needs."""

from boonta.agents.impala.agent import make
from boonta.agents.impala.config import ATARI, CARTPOLE, CATCH, GRID_WORLD, MINATAR, Config

__all__ = ["ATARI", "CARTPOLE", "CATCH", "GRID_WORLD", "MINATAR", "Config", "make"]
