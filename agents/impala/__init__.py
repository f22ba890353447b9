"""IMPALA: `make` and a `Config` are all that a program needs."""

from boonta.agents.impala.agent import make
from boonta.agents.impala.config import ATARI, CATCH, Config

__all__ = ["ATARI", "CATCH", "Config", "make"]
