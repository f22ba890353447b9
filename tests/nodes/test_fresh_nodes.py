"""Actors and a learner whose data must be fresh: every batch is, nobody waits for ever, and restarts are met."""

from __future__ import annotations

import dataclasses
import threading
import time
import types

import numpy as np
import pytest

from boonta.agents.base import Slots
from boonta.envs.catch import Catch
from boonta.nodes.acting import allowance
from boonta.nodes.acting.base import Remote
from boonta.nodes.actor import Actor
from boonta.nodes.hosts.agreement import Agreement
from boonta.nodes.hosts.placement import Placement
from boonta.nodes.learner import Learner
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.variables import VariableServer
from boonta.programs.wiring.interpreters.sebulba import build
from boonta.programs.wiring.launch import Program, Run, group
from boonta.tests.helpers import tiny
from boonta.tests.helpers.batches import Batches, BatchStore
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once

ENV = Catch(rows=3, columns=3)


def bounded(staleness: int = 0, batch_size: int = 8, size: int = 8):
    agent = tiny.make(ENV.spec, batch_size, length=4)
    return agent._replace(tables=(dataclasses.replace(agent.tables[0], period=4, size=size, max_staleness=staleness),))


class Ages(Learner):
    """Keeps how much older than its params a batch's oldest step is, and the youngest."""

    def _draw(self):
        super()._draw()
        lag = self._updates - np.asarray(self._drawn[-1][0].steps.version)
        vars(self).setdefault("ages", []).append((int(lag.min()), int(lag.max())))


def run(nodes, learner: Ages, updates: int, before: int = 0) -> None:
    """Runs them as threads until the learner has made so many updates."""
    threads = [threading.Thread(target=node.run, daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 150
    while getattr(learner, "_updates", 0) < before + updates:
        assert time.monotonic() < deadline, f"{getattr(learner, '_updates', None)} updates"
        assert not any(node.failed for node in nodes), [node._error for node in nodes]
        time.sleep(0.01)
    for node in nodes:
        node.stop()
    for thread in threads:
        thread.join(timeout=DEADLINE_S)
        assert not thread.is_alive()


@pytest.mark.parametrize(("actors", "num_envs", "staleness"), [(1, 8, 0), (4, 2, 0), (2, 2, 0), (2, 8, 1), (1, 8, 2)])
def test_batches_are_fresh_and_without_staleness_nothing_is_left_out(tmp_path, actors, num_envs, staleness):
    agent, variables = bounded(staleness), VariableServer("variables")
    queue = QueueTable(agent.tables[0])
    learner = Ages("learner", agent, ENV.spec, queue, variables, folder=str(tmp_path), devices=1)
    acting = []
    for i in range(actors):
        slots = Slots(num_envs, i * num_envs, actors * num_envs)
        acting.append(
            Actor(f"actor/{i}", agent, ENV, variables, queue, num_envs=num_envs, seed=i, first_group=2 * i, slots=slots)
        )
    run([learner, *acting], learner, 30)
    assert len(learner.ages) >= 30
    assert all(least >= 0 and most <= staleness for least, most in learner.ages)
    # Where actors may be ahead, one that the scheduler forgets for a while is overtaken in the queue.
    assert staleness or "stale_sequences" not in learner.report()["counts"]
    assert learner.report()["metrics"]["policy_lag_max"] <= staleness


@pytest.mark.parametrize("placement", [Placement(), Placement(lag=0), Placement(threads=1)])
def test_sebulba_keeps_it(tmp_path, placement):
    groups = [group(Ages), group(Actor)]
    _, (learner, actor) = build(
        Program("tiny", Run(workdir=str(tmp_path), placement=placement), bounded(), ENV, groups)
    )
    run([learner, actor], learner, 20)
    assert {age for ages in learner.ages for age in ages} == {0}
    assert actor.report()["counts"]["env_steps"] >= 20 * 8 * 4


def test_a_learner_that_starts_again_leaves_out_what_is_lost_and_goes_on(tmp_path, monkeypatch):
    """It is killed, and goes on from its first checkpoint: the actors' params, and what they wrote, are newer."""
    monkeypatch.setattr(allowance, "PATIENCE_S", 0.5)  # The actors may have no reason to go on but this.
    agent, variables = bounded(), VariableServer("variables")
    queue = QueueTable(agent.tables[0])
    actor = Actor("actor/0", agent, ENV, variables, queue, num_envs=8)
    threading.Thread(target=actor.run, daemon=True).start()
    lives = []
    for _ in range(3):
        learner = Ages("learner", agent, ENV.spec, queue, variables, folder=str(tmp_path), devices=1)
        learner.close = lambda: None  # A learner that is killed saves nothing.
        run([learner], learner, 10)
        lives.append(learner)
    actor.stop()
    assert all(set(sum(learner.ages, ())) == {0} for learner in lives)
    assert all(learner.ages[0] == (0, 0) and len(learner.ages) >= 10 for learner in lives)


def test_what_cannot_keep_it_is_refused_before_anything_starts(tmp_path):
    agent = bounded()
    with pytest.raises(ValueError, match="actor/0: all actors have 32 environments"):
        Actor("actor/0", agent, ENV, None, None)
    with pytest.raises(ValueError, match="actor/0: an inference node acts for it, so that params change within"):
        Actor("actor/0", agent, ENV, Remote(None), None, num_envs=8)
    with pytest.raises(ValueError, match="actor/0: refresh_every is 2, so that params change within a sequence"):
        Actor("actor/0", agent, ENV, None, None, num_envs=8, refresh_every=2)
    for cadence in ({"updates_per_step": 2}, {"publish_every": 3}):
        with pytest.raises(ValueError, match="learner: updates_per_step is .*; both must be 1, since table"):
            Learner("learner", agent, ENV.spec, None, None, folder=str(tmp_path), **cadence)
    groups = [group(Learner), group(Actor, num_envs=16)]
    late = Program("tiny", Run(workdir="unused", placement=Placement(lag=1)), bounded(), ENV, groups)
    with pytest.raises(ValueError, match="placement.lag is 1, with 8 environments .*: data is 1 updates old"):
        build(late)


def test_one_of_several_learners_draws_only_once_its_update_is_done(tmp_path):
    class OfSeveral(Agreement):
        shares_tables = True

    class Slow(VariableServer):
        def put(self, *params):
            time.sleep(0.05)  # So an update would not be done when the next batch is drawn.
            return super().put(*params)

    class Watching(Batches):
        def next(self, timeout_s):
            assert learner._finished.done()
            return super().next(timeout_s)

    settings = {"folder": str(tmp_path), "devices": 1, "agreement": OfSeveral()}
    agent = tiny.make(Catch().spec)
    agent = agent._replace(tables=(dataclasses.replace(agent.tables[0], period=5, max_staleness=0),))
    learner = Learner("learner", agent, Catch().spec, BatchStore(Watching), Slow("variables"), **settings)
    learner.start()
    for _ in range(3):
        learner.step()
    learner.settle()


def test_a_group_that_must_wait_is_passed_over_and_the_others_take_turns():
    stepped, ready = [], {1, 2}

    def fake(i: int) -> types.SimpleNamespace:
        act = types.SimpleNamespace(ready=lambda: i in ready)
        return types.SimpleNamespace(act=act, step=lambda: stepped.append(i))

    actor = Actor("actor/0", bounded(), ENV, VariableServer("variables"), None, num_envs=8)
    actor._groups, actor._turn = [fake(i) for i in range(4)], 0
    for _ in range(4):
        actor.step()
    ready.clear()
    assert not actor.ready()
    actor.step()  # All must wait: the one whose turn it is does.
    assert stepped == [1, 2, 1, 2, 3]
