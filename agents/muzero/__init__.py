"""MuZero: planning with a learned model."""

from agents.muzero.agent import make
from agents.muzero.config import Config

__all__ = ["Config", "make"]
