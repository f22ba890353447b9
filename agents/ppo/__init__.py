"""PPO: a clipped policy gradient, several epochs over fresh sequences; A2C is a setting of it."""

from boonta.agents.policy_value import Network, Outputs
from boonta.agents.ppo.agent import make
from boonta.agents.ppo.config import A2C, CARTPOLE, CATCH, CONTINUOUS, MINATAR, Config
from boonta.agents.recurrence import Inputs, example_inputs

__all__ = [
    "A2C",
    "CARTPOLE",
    "CATCH",
    "CONTINUOUS",
    "MINATAR",
    "Config",
    "Inputs",
    "Network",
    "Outputs",
    "example_inputs",
    "make",
]
