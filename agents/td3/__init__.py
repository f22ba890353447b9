"""TD3, and DDPG as a preset of it: a deterministic policy learns from critics of replayed transitions."""

from boonta.agents.td3.agent import make
from boonta.agents.td3.config import DDPG, Config

__all__ = ["DDPG", "Config", "make"]
