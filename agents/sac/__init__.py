"""SAC: soft actor-critic, with two critics and a learned temperature."""

from boonta.agents.sac.agent import make
from boonta.agents.sac.config import Config

__all__ = ["Config", "make"]
