"""One of several learners, as a process of its own, fed by batches of random steps that all of them share.

python tests/helpers/learning_together.py impala 4 FOLDER PORT NUMBER INDEX
"""

from __future__ import annotations

import importlib
import pathlib
import sys

import jax
import numpy as np

from boonta.agents.base import Agent, Batch, Steps
from boonta.envs.catch import Catch
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.hosts.arrays import place
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.learners import SeveralLearners
from boonta.nodes.learner import Learner
from boonta.nodes.tables import contract
from boonta.nodes.tables.base import Drawn
from boonta.nodes.variables import VariableServer
from boonta.tests.helpers.batches import BatchStore


def batch_of(agent: Agent, seed: int) -> Batch:
    """Random steps [T, B, ...] with the shapes of the agent's own."""
    table, rng = agent.tables[0], np.random.default_rng(seed)
    shapes = step_shapes(agent, Catch().spec)

    def random(leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        shape = (table.sequence_length, table.batch_size, *leaf.shape)
        if np.issubdtype(leaf.dtype, np.integer):
            return rng.integers(0, 3, shape).astype(leaf.dtype)
        return rng.uniform(0.1, 1.0, shape).astype(leaf.dtype)  # Probabilities and discounts, too.

    steps: Steps = jax.tree.map(random, shapes)
    steps = steps._replace(step_type=np.ones_like(steps.step_type), version=np.zeros_like(steps.version))
    return Batch(contract.with_one_core(table, steps), np.ones(table.batch_size, np.float32))


class Parts:
    """A dataset of the learner's own part of each batch."""

    waits_for = "random steps"

    def __init__(self, agent: Agent, hosts: Hosts, sharding: Batch):
        self._agent, self._hosts, self._sharding = agent, hosts, sharding
        self._drawn = 0

    def next(self, timeout_s: float):
        whole = batch_of(self._agent, self._drawn)
        self._drawn += 1
        steps = jax.tree.map(lambda leaf: np.split(leaf, self._hosts.number, 1)[self._hosts.index], whole.steps)
        part = Batch(steps, np.split(whole.probability, self._hosts.number)[self._hosts.index])
        if self._drawn % 2 == 0:  # As a replay that is kept on a device gives them.
            part = part._replace(steps=jax.device_put(part.steps, jax.local_devices()[0]))
        zeros = np.zeros(len(part.probability), np.float32)
        return place(part, self._sharding), Drawn(zeros.astype(np.uint64), zeros.astype(np.int32), zeros)

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        assert len(errors) == len(drawn.keys)  # Only its own come back.

    def close(self) -> None:
        """Nothing is open."""


def save(learner: Learner, file: pathlib.Path) -> None:
    """Writes the leaves of the learner's state."""
    np.savez(file, *map(np.asarray, jax.tree.leaves(jax.device_get(learner._state))))


def main(name: str, updates: int, folder: pathlib.Path, hosts: Hosts) -> None:
    module = importlib.import_module(f"boonta.agents.{name}")
    agent = module.make(module.CATCH, Catch().spec)
    store = BatchStore(lambda tables, sharding, *_: Parts(agent, hosts, sharding))
    agreement = SeveralLearners(hosts) if hosts.number > 1 else None
    variables = VariableServer("variables") if hosts.first else None
    learner = Learner(
        "learner", agent, Catch().spec, store, variables, folder=str(folder / "checkpoints"), agreement=agreement
    )
    learner.start()
    save(learner, folder / f"start-{hosts.number}-{hosts.index}.npz")
    for _ in range(updates):
        learner.step()
    learner.settle()
    save(learner, folder / f"state-{hosts.number}-{hosts.index}.npz")
    learner._agreement.leave(False)


if __name__ == "__main__":
    agent_name, made, where, port, count, number = sys.argv[1:]
    main(agent_name, int(made), pathlib.Path(where), Hosts(f"127.0.0.1:{port}", int(count), int(number)))
