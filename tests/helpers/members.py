"""A population of four small learners on the small Catch."""

from __future__ import annotations

import dataclasses

from boonta.nodes.population import Population
from boonta.nodes.watch.evaluation import Evaluation
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers import tiny
from boonta.tests.helpers.fused import ENV


@dataclasses.dataclass(frozen=True)
class Config:
    learning_rate: float = 0.1
    size: float = 8.0
    factor: float = 1.0  # A factor of the learning rate, with which it can exceed float32's range.
    unused: float = 1.0
    layers: int = 1

    def __post_init__(self):
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate is {self.learning_rate}; it must be above 0")


def make(config: Config):
    return tiny.make(ENV.spec, batch_size=int(config.size), learning_rate=config.learning_rate * config.factor)


def population(folder, **settings) -> Population:
    members = {"make": make, "config": Config(), "vary": {"learning_rate": [0.1, 0.5]}, "seeds": 2, "seed": 3}
    limits = {"evaluation": Evaluation(4, every_updates=10), "stop": StopRule(updates=20), "devices": 1}
    return Population(
        "anakin", make(Config()), ENV, folder=str(folder / "checkpoints"), **{**members, **limits, **settings}
    )
