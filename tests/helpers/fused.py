"""Small agents of every kind, and the fused node with one of them on a small Catch."""

from __future__ import annotations

import dataclasses

from boonta.agents import impala, muzero
from boonta.agents.base import Table
from boonta.agents.config import replaced
from boonta.agents.groups import Replay
from boonta.envs.jax.catch import Catch
from boonta.nodes.anakin import Anakin
from boonta.nodes.watch.evaluation import NONE
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers import tiny

ENV = Catch(rows=4, columns=3)
REPLAY = Table("trajectories", "replay", 5, 4, 8, 80, "proportional", samples_per_insert=2.0, min_size=16)
SEVERAL = (
    dataclasses.replace(REPLAY, share=0.5),
    dataclasses.replace(REPLAY, name="past", sampler="uniform", samples_per_insert=None, share=0.0),
    dataclasses.replace(REPLAY, name="again", sampler="uniform", writer="reanalyzer", period=5, share=0.5),
)
IMPALA = replaced(impala.CATCH, {"torso.widths": (8, 8), "batch_size": 8, "unroll_length": 4})
MUZERO = dataclasses.replace(
    replaced(muzero.CATCH, {"torso.widths": (8,)}),
    **{"head_width": 8, "num_simulations": 2, "unroll_length": 1, "bootstrap_length": 2, "roots": 2},
    replay=Replay(batch_size=8, size=400, min_size=32, samples_per_insert=2.0),
)


def agent(kind: str = "queue"):
    """Agents by kind: with a queue, with a replay table with priorities, with several of which one is renewed from
    another, and the real ones, MuZero's table uniform.
    """
    if kind == "impala":
        return impala.make(IMPALA, ENV.spec)
    if kind == "muzero":
        return muzero.make(MUZERO, ENV.spec)
    queue = tiny.make(ENV.spec)
    if kind == "queue":
        return queue

    def step(state, batch):
        state, _, metrics = queue.update.step(state, batch)
        return state, 0.1 + abs(batch.steps.reward).mean(axis=0), metrics

    return queue._replace(tables=(REPLAY,) if kind == "replay" else SEVERAL, update=queue.update._replace(step=step))


def node(folder, updates: int, kind: str = "queue", **settings) -> Anakin:
    settings = {"evaluation": NONE, "num_envs": 16, "devices": 1, "stop": StopRule(updates=updates), **settings}
    return Anakin("anakin", agent(kind), ENV, folder=str(folder), **settings)
