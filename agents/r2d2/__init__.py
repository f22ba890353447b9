"""R2D2: recurrent action values, learned from replayed sequences with a stored state and a burn-in."""

from boonta.agents.r2d2.agent import make
from boonta.agents.r2d2.config import CARTPOLE, CATCH, MINATAR, Config
from boonta.agents.r2d2.networks import Network
from boonta.agents.recurrence import Inputs, example_inputs

__all__ = ["CARTPOLE", "CATCH", "MINATAR", "Config", "Inputs", "Network", "example_inputs", "make"]
