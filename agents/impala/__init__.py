"""IMPALA: V-trace actor-critic, learned from sequences that many actors write."""

from boonta.agents.impala.agent import make
from boonta.agents.impala.config import ATARI, CARTPOLE, CATCH, GRID_WORLD, MINATAR, Config
from boonta.agents.policy_value import Network, Outputs
from boonta.agents.recurrence import Inputs, example_inputs

__all__ = [
    "ATARI",
    "CARTPOLE",
    "CATCH",
    "GRID_WORLD",
    "MINATAR",
    "Config",
    "Inputs",
    "Network",
    "Outputs",
    "example_inputs",
    "make",
]
