"""Actor, evaluator and learner as threads over the in-process queue: the same nodes without Reverb."""

from __future__ import annotations

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest

from boonta.agents.base import Table
from boonta.envs.catch import Catch
from boonta.nodes.acting import local
from boonta.nodes.acting.base import Remote
from boonta.nodes.acting.lock_step import LockStep
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.hosts.placement import Placed
from boonta.nodes.learner import Learner
from boonta.nodes.learning.publishing import Publisher
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.variables import Colocated, DeviceVariables, VariableServer, pack
from boonta.tests.helpers import tiny
from boonta.tests.helpers.clock import Clock


@pytest.fixture
def agent():
    return tiny.make(Catch().spec, batch_size=4, length=6)


@pytest.fixture
def variables(agent):
    server = VariableServer("variables")
    server.put(5, pack({"linear": {"w": np.zeros((50, 3), np.float32)}}))
    return server


def actor(agent, variables, queue, **settings) -> Actor:
    node = Actor("actor/0", agent, Catch(), variables, queue, **{"num_envs": 4, "threads": 2, **settings})
    node.start()
    return node


def first_sequence(queue):
    """The first of those that some group has completed next, leaves [T, ...]."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], queue.get(1.0)[0].shards[0])


def test_rows_hold_what_the_environment_showed_and_the_version_that_acted(agent, variables):
    queue = QueueTable(agent.tables[0])
    node = actor(agent, variables, queue)
    for _ in range(2 * 6):
        node.step()
    counts = node.report()["counts"]
    assert counts["env_steps"] == counts["frames"] == 24 and counts["sequences"] == 4
    steps, _ = first_sequence(queue), first_sequence(queue)
    assert queue.get(0.0) is None  # two groups have completed their sequences once
    assert steps.observation.shape == (6, 10, 5) and steps.step_type[0] == 0
    assert list(steps.version) == [5] * 6
    ball = [int(np.flatnonzero(row.any(axis=1))[0]) for row in steps.observation]
    assert ball == [0, 1, 2, 3, 4, 5]  # the ball falls one row a step: nothing is lost or doubled


def test_an_actors_first_act_is_compiling_and_no_other(agent, variables, monkeypatch):
    doing, policy = [], local.jit_policy(agent.policy)
    reported = lambda *args: doing.append(node.report()["activity"]) or policy.step(*args)  # noqa: E731
    monkeypatch.setattr(local, "jit_policy", lambda _: policy._replace(step=reported))
    node = actor(agent, variables, QueueTable(agent.tables[0]))
    for _ in range(4):
        node.step()
    assert doing == ["compiling", *["acting"] * 3]


def test_each_life_of_an_actor_has_seeds_of_its_own_and_so_has_each_start_of_the_program(agent, variables):
    def seeds(past_lives: int, past_starts: int = 0) -> list[int]:
        env = mock.Mock(side_effect=Catch())
        node = Actor("actor/0", agent, env, variables, QueueTable(agent.tables[0]), num_envs=4, threads=2, seed=7)
        node.past_lives, node.past_starts = past_lives, past_starts
        node.start()
        return [call.args[1] for call in env.call_args_list]

    assert len({*seeds(0), *seeds(1), *seeds(2), *seeds(0, 1), *seeds(0, 2), *seeds(1, 1)}) == 12
    assert [seeds(0), seeds(1)] == [np.random.SeedSequence(of).generate_state(2).tolist() for of in (7, [7, 1])]


def test_params_change_only_where_a_sequence_may_start(agent, variables):
    node = actor(agent, variables, QueueTable(agent.tables[0]), threads=1)
    for t in range(11):
        if t == 3:
            variables.put(6, pack({"linear": {"w": np.zeros((50, 3), np.float32)}}))
        node.step()
    queue = node._replay
    assert list(first_sequence(queue).version) == [5] * 5 + [6]


@pytest.mark.parametrize(
    ("refresh_every", "versions"), [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 0, 2, 2, 4, 4]), (4, [0, 0, 0, 0, 4, 4])]
)
@pytest.mark.parametrize("colocated", [False, True])
def test_params_are_looked_for_every_so_many_steps(agent, colocated, refresh_every, versions):
    pipe, params = QueueTable(agent.tables[0]), {"linear": {"w": np.zeros((50, 3), np.float32)}}
    device = jax.devices()[0]
    server = DeviceVariables([device]) if colocated else VariableServer("variables")
    handle = Colocated(server, device) if colocated else server
    node = None
    for t in range(6):  # The version published last is the number of the step.
        (server if colocated else Publisher(server, lambda: False)).put(t, jax.device_put(params, device))
        node = node or actor(agent, handle, pipe, threads=1, refresh_every=refresh_every)
        node.step()
    assert list(first_sequence(pipe).version) == versions


def test_a_refresh_that_cannot_be_is_refused(agent, variables):
    with pytest.raises(ValueError, match="actor/0: refresh_every is 0; it must be at least 1"):
        actor(agent, variables, None, refresh_every=0)
    with pytest.raises(ValueError, match="refresh_every is 3, but an inference node acts for it"):
        actor(agent, Remote(None), None, refresh_every=3)
    lock_step = Colocated(DeviceVariables(jax.devices()[:1]), jax.devices()[0], LockStep(1, 1, 4, 4))
    with pytest.raises(ValueError, match="refresh_every is 3; in lock-step params change where a sequence has ended"):
        actor(agent, lock_step, None, refresh_every=3)


def test_what_another_group_fetches_does_not_change_params_within_a_sequence(agent, variables):
    node = actor(agent, variables, QueueTable(agent.tables[0]))
    one, other = node._groups
    for t in range(11):
        one.step()
        if t == 2:
            variables.put(6, pack({"linear": {"w": np.zeros((50, 3), np.float32)}}))
            other.step()  # begins a sequence, and so fetches
    assert list(first_sequence(node._replay).version) == [5] * 5 + [6]


def test_sequences_may_lie_apart(agent, variables):
    table = dataclasses.replace(agent.tables[0], sequence_length=4, period=6, batch_size=4, size=100)
    node = actor(agent._replace(tables=(table,)), variables, QueueTable(table), threads=1)
    for _ in range(2 * 6):
        node.step()
    assert node.report()["counts"]["sequences"] == 2 * 4
    starts = [int(np.flatnonzero(first_sequence(node._replay).observation[0].any(axis=1))[0]) for _ in range(2)]
    assert starts == [0, 6]  # rows of the ball when they begin


def test_episodes_are_reported_raw(agent, variables):
    table = dataclasses.replace(agent.tables[0], size=100)
    agent = agent._replace(tables=(table,))
    node = actor(agent, variables, QueueTable(table), threads=1)
    for _ in range(30):
        node.step()
    report = node.report()
    assert report["counts"]["episodes"] == 4 * 3
    assert set(report["samples"]["return"]) <= {-1.0, 1.0}
    assert set(report["samples"]["episode_steps"]) == {9.0}


def test_what_is_written_is_what_the_env_took(agent, variables):
    """Where the env is the past, that isn't what the policy chose."""

    class Recorded(Catch):
        def __call__(self, num_envs: int, seed: int):
            env = super().__call__(num_envs, seed)
            env.executed_action = lambda action: np.full_like(action, 2)
            return env

    queue = QueueTable(agent.tables[0])
    node = Actor("actor/0", agent, Recorded(), variables, queue, num_envs=4, threads=1)
    node.start()
    for _ in range(6):
        node.step()
    steps = first_sequence(queue)
    assert list(steps.action) == [2] * 6
    paddle = [int(np.flatnonzero(row[-1])[-1]) for row in steps.observation]
    assert paddle == [2, 3, 4, 4, 4, 4]  # it went to the right, and stayed there


def test_an_actor_that_ends_closes_its_writers(agent, variables):
    queue = QueueTable(agent.tables[0])
    with mock.patch("boonta.nodes.tables.queue.QueueWriter.close") as close:
        actor(agent, variables, queue).close()
    assert close.call_count == 2


def test_environments_must_divide_over_threads(agent, variables):
    with pytest.raises(ValueError, match=r"actor/0: num_envs is 5; it must divide over the threads, 2"):
        Actor("actor/0", agent, Catch(), variables, None, num_envs=5, threads=2)


def test_an_evaluation_is_one_episode_of_each_slot_and_writes_nothing(agent, variables):
    node = Evaluator("evaluator", agent, Catch(), variables, episodes=6, every_s=0.0)
    node.start()
    node.step()
    report = node.report()
    assert report["counts"] == {"eval_episodes": 6}
    assert -1 <= report["metrics"]["eval_return"] <= 1 and report["metrics"]["eval_version"] == 5


def test_the_evaluator_rests_by_what_it_plays_and_not_by_what_it_compiles(agent, variables, monkeypatch):
    node = Evaluator("evaluator", agent, Catch(), variables, episodes=2, every_s=0.0, max_share=0.25)
    node.start()
    clock = Clock(monkeypatch)
    node._policy = node._policy._replace(step=clock.timed(node._policy.step))
    for _ in range(2):
        node.step()
        assert clock.until(node.ready) == 3 * 9  # An episode of Catch has nine steps.
    assert "compiling" in node.stopwatch.finished


@pytest.mark.parametrize("max_share", [0.0, -0.5, 1.5])
def test_an_impossible_share_of_time_is_refused(agent, variables, max_share):
    with pytest.raises(ValueError, match=rf"evaluation\.max_share is {max_share}; it must be above 0 and at most 1"):
        Evaluator("evaluator", agent, Catch(), variables, max_share=max_share)


class Endless:
    """Slot i earns i with every step, and no episode ever ends."""

    spec = Catch().spec

    def __call__(self, num_envs, seed):
        env = Catch()(num_envs, seed)
        first, step = env.reset(), env.step
        shown = first._replace(reward=np.arange(num_envs, dtype=np.float32))
        env.step = lambda action: (step(action), shown)[1]
        env.episodes = lambda: []
        return env


def test_an_evaluation_of_what_never_ends_is_cut(agent, variables):
    node = Evaluator("evaluator", agent, Endless(), variables, episodes=3, every_s=0.0, max_steps=7)
    node.start()
    node.step()
    metrics = node.report()["metrics"]
    assert metrics["eval_return"] == 7.0 and metrics["eval_return_min"] == 0.0 and metrics["eval_cut"] == 3.0


@dataclasses.dataclass(frozen=True)
class Faulty:
    """Catch whose second step has a NaN in slot 1, in the observation or in the reward."""

    leaf: str
    spec = Catch().spec

    def __call__(self, num_envs, seed):
        batch = Catch()(num_envs, seed)
        sound, taken = batch.step, []

        def step(action):
            taken.append(action)
            timestep = sound(action)
            if len(taken) == 2:
                getattr(timestep, self.leaf)[1] = np.nan
            return timestep

        batch.step = step
        return batch


@pytest.mark.parametrize("leaf", ["observation", "reward"])
def test_nan_of_an_environment_ends_actors_evaluators_and_placed_environments_by_its_place(agent, variables, leaf):
    message = rf"the environment's {leaf}.* is nan in slot 1 at step 2 of its stream"
    actor = Actor("actor/0", agent, Faulty(leaf), variables, QueueTable(agent.tables[0]), num_envs=4)
    evaluator = Evaluator("evaluator", agent, Faulty(leaf), variables, episodes=3, every_s=0.0)
    for node in (actor, evaluator):
        node.start()
        with pytest.raises(FloatingPointError, match=message):
            for _ in range(3):
                node.step()
    placed = Placed(Faulty(leaf), jax.devices()[0])(4, 0)
    placed.reset()
    placed.step(np.zeros(4, int))
    with pytest.raises(FloatingPointError, match=message):
        placed.step(np.zeros(4, int))


def test_actor_and_learner_learn_through_the_queue(tmp_path):
    """Also on Pythons where Reverb can't be installed: only the queue is between them."""
    agent = tiny.make(Catch(rows=3, columns=3).spec, batch_size=32, length=3, learning_rate=2.0)
    table = dataclasses.replace(agent.tables[0], size=64)
    agent, variables = agent._replace(tables=(table,)), VariableServer("variables")
    queue = QueueTable(table)
    learner = Learner(
        "learner", agent, Catch(rows=3, columns=3).spec, queue, variables, folder=str(tmp_path), devices=1
    )
    learner.start()
    node = Actor("actor/0", agent, Catch(rows=3, columns=3), variables, queue, num_envs=32, threads=1)
    node.start()
    for _ in range(800):
        node.step()
        if learner.ready():
            learner.step()
            learner.settle()
    returns = node.report()["samples"]["return"]
    assert np.mean(returns[-500:]) > np.mean(returns[:500]) + 0.3  # it credits only the last move: not all of it


def test_the_store_of_a_queue_takes_no_replay():
    with pytest.raises(ValueError, match="this store keeps a queue, not a 'replay'"):
        QueueTable(Table("t", "replay", 5, 4, 1, 10, sampler="uniform"))
