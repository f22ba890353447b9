"""A policy is told which of the program's slots it acts in, whoever runs it, and by whichever node it acts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Agent, Policy, Slots, Table
from boonta.envs.catch import Catch
from boonta.nodes.acting.base import Remote, tables_only
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.fused import fusion
from boonta.nodes.hosts.placement import Placement
from boonta.nodes.inference import Inference
from boonta.nodes.learner import Learner
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.tables.rows import Groups
from boonta.nodes.variables import VariableServer, pack
from boonta.programs.wiring.construction import construct
from boonta.programs.wiring.interpreters import sebulba
from boonta.programs.wiring.launch import Program, Run, group
from boonta.tests.helpers import tiny

ENV = Catch()


def numbered() -> Agent:
    """An agent that stores with each step the slot's number, and how many there are."""
    made = tiny.make(ENV.spec, batch_size=4, length=2)

    def initial_state(slots: Slots):
        return jnp.stack([slots.first + jnp.arange(slots.size), jnp.full(slots.size, slots.total or slots.size)], 1)

    def act(params, key, timestep, state):
        return jnp.zeros(len(state), jnp.int32), {"slot": state}, state

    policy = Policy(initial_state, act)
    return made._replace(policy=policy, eval_policy=policy)


def variables():
    server = VariableServer("variables")
    server.put(0, pack({"linear": {"w": np.zeros((50, 3), np.float32)}}))
    return server


def written(actor: Actor, queue: QueueTable) -> list[list[int]]:
    """The numbers in the rows of the next sequences of all the actor's groups."""
    for _ in range(2 * len(actor.tasks)):
        actor.step()
    slots = []
    for _ in actor.tasks:
        extras = queue.get(1.0)[0].shards[0].extras
        slots += np.asarray(jax.tree.leaves(extras)[0])[-1].tolist()
    return slots


@pytest.mark.parametrize("acting", ["local", "central"])
def test_an_actors_groups_know_their_places(acting):
    agent, served = numbered(), variables()
    queue, inference = QueueTable(agent.tables[0]), Inference("inference", agent, ENV, served)
    inference.start()
    handle, given = (served, agent) if acting == "local" else (Remote(inference), tables_only(agent))
    its_own = {"num_envs": 4, "threads": 2, "first_group": 2, "slots": Slots(4, 4, 10)}
    actor = Actor("actor/1", given, ENV, handle, queue, **its_own)
    actor.start()
    assert written(actor, queue) == [[4, 10], [5, 10], [6, 10], [7, 10]]
    inference._lanes[0].groups.clear()  # As when it has been started again.
    assert written(actor, queue) == [[4, 10], [5, 10], [6, 10], [7, 10]]


def test_an_actor_alone_has_all_slots():
    agent = numbered()
    queue = QueueTable(agent.tables[0])
    actor = Actor("actor/0", agent, ENV, variables(), queue, num_envs=2, threads=1)
    actor.start()
    assert written(actor, queue) == [[0, 2], [1, 2]]


def test_a_program_counts_the_slots_of_all_its_actors(tmp_path):
    groups = [
        group(Learner),
        group(Actor, 2, num_envs=4),
        group(Actor, 3, num_envs=2, label="more"),
        group(Evaluator),
    ]
    program = Program("slots", Run(workdir=str(tmp_path)), numbered(), ENV, groups)
    handles = dict.fromkeys(("monitor", "variables", "replay"))
    found = [
        construct(program, each, i, handles)._slots
        for each in program.groups
        if each.node is Actor
        for i in range(each.number)
    ]
    assert found == [Slots(4, 0, 14), Slots(4, 4, 14), Slots(2, 8, 14), Slots(2, 10, 14), Slots(2, 12, 14)]


class Few(Actor):
    def __init__(self, *arguments, num_envs: int = 6, **settings):
        super().__init__(*arguments, num_envs=num_envs, **settings)


class Small(Reanalyzer):
    def __init__(self, *arguments, num_envs: int = 6, **settings):
        super().__init__(*arguments, num_envs=num_envs, **settings)


def test_a_class_has_its_own_default(tmp_path):
    program = Program("few", Run(workdir=str(tmp_path)), numbered(), ENV, [group(Learner), group(Few, 2)])
    (few,) = [each for each in program.groups if each.node is Few]
    made = construct(program, few, 1, dict.fromkeys(("monitor", "variables", "replay")))
    assert made._slots == Slots(6, 6, 12)
    table = Table("renewed", "replay", 5, 4, 8, size=96, sampler="uniform", writer="reanalyzer")
    agent = numbered()._replace(tables=(table,))
    program = Program("small", Run("sebulba", str(tmp_path)), agent, ENV, [group(Learner), group(Small)])
    assert sebulba._writers(program) == {"reanalyzer": Groups(1, 6)}


def test_slots_beside_another_number_of_environments_are_refused():
    agent = numbered()
    with pytest.raises(ValueError, match="actor/0: num_envs is 8, and slots.size 4; both are its environments"):
        Actor("actor/0", agent, ENV, variables(), QueueTable(agent.tables[0]), num_envs=8, slots=Slots(4, 0, 8))


def test_sebulba_counts_over_devices_and_hosts(tmp_path, monkeypatch):
    run = Run("sebulba", str(tmp_path), placement=Placement(acting=2, learning=1, threads=2))
    program = Program("slots", run, numbered(), ENV, [group(Learner), group(Actor, num_envs=4)])
    monkeypatch.setattr(sebulba, "split", lambda placement, devices: (jax.devices() * 2, jax.devices()))
    _, nodes = sebulba.build(program)
    assert [node._slots for node in nodes if isinstance(node, Actor)] == [Slots(4, 0, 8), Slots(4, 4, 8)]


def test_a_fused_program_knows_them():
    from boonta.envs.jax.catch import Catch as JaxCatch

    agent = numbered()
    state, _ = jax.eval_shape(fusion.fuse(agent, JaxCatch(), 4).init, agent.update.init(None), 0, jax.random.PRNGKey(0))
    assert state.stage.policy.shape == (4, 2)
    begun = fusion.stage.begin(JaxCatch(), agent.policy, 4, jax.random.PRNGKey(0))
    assert begun.policy.tolist() == [[i, 4] for i in range(4)]
