"""The learner on its own: fed by a list instead of Reverb."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import textwrap
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Agent
from boonta.envs.catch import Catch
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.learner import Learner
from boonta.nodes.snapshots.best import Record, read_record
from boonta.nodes.snapshots.store import numbers
from boonta.nodes.variables import VariableServer, unpack
from boonta.tests.helpers import tiny
from boonta.tests.helpers.batches import Batches, BatchStore, batch
from boonta.tests.helpers.deadline import DEADLINE_S

SPEC = Catch().spec
AGENT = tiny.make(SPEC)


def learn(tmp_path, updates: int, devices: int | None = 1, **settings) -> np.ndarray:
    """The weights after so many updates, as the variable server got them."""
    variables = VariableServer("variables")
    learner = Learner(
        "learner", AGENT, SPEC, BatchStore(), variables, folder=str(tmp_path), devices=devices, **settings
    )
    learner.start()
    while learner._updates < updates:
        learner.step()
    learner.close()
    version, packed = variables.get(-1)
    assert version == learner._updates
    return unpack(packed, learner._agent.update.params(learner._state))["linear"]["w"]


def check_priorities(tmp_path, devices: int | None = 1, updates_per_step: int = 1) -> None:
    """Each batch's errors, here the sequences' mean rewards, reach the dataset with its keys and in its order."""
    agent = tiny.make(SPEC)

    def step(state, batch):
        return state, jnp.mean(jnp.abs(batch.steps.reward), axis=0), {}

    agent = agent._replace(update=agent.update._replace(step=step))
    cadence = {"updates_per_step": updates_per_step}
    learner = Learner(
        "learner", agent, SPEC, BatchStore(), VariableServer("v"), folder=str(tmp_path), devices=devices, **cadence
    )
    learner.start()
    for _ in range(3):
        learner.step()
    learner.settle()
    assert len(learner._dataset.prioritised) == 3 * updates_per_step
    for seed, (keys, errors) in enumerate(learner._dataset.prioritised):
        assert isinstance(errors, np.ndarray)
        np.testing.assert_array_equal(keys, 100 * seed + np.arange(8))
        np.testing.assert_allclose(errors, np.mean(np.abs(batch(seed).steps.reward), axis=0), rtol=1e-6)


@pytest.mark.parametrize("updates_per_step", [1, 3])
def test_priorities_go_back_with_their_keys(tmp_path, updates_per_step):
    check_priorities(tmp_path, updates_per_step=updates_per_step)


def test_four_updates_in_one_step_learn_what_four_steps_do(tmp_path, monkeypatch):
    """But for rounding, which depends on the processor: a small weight may be a sum of large steps."""
    single = learn(tmp_path / "single", 8)
    rounding = 1e-6 * np.abs(single).max()
    four = learn(tmp_path / "four", 8, updates_per_step=4)
    np.testing.assert_allclose(four, single, rtol=1e-6, atol=rounding)
    monkeypatch.setattr("boonta.nodes.learning.step.convolves_on_cpu", lambda *given: True)
    unrolled = learn(tmp_path / "unrolled", 8, updates_per_step=4)
    np.testing.assert_allclose(unrolled, single, rtol=1e-6, atol=rounding)


def test_more_updates_without_a_loop_than_may_be_compiled_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("boonta.nodes.learning.step.convolves_on_cpu", lambda *given: True)
    with pytest.raises(ValueError, match="updates_per_step is 17; on CPU, .* it must be at most 16"):
        learn(tmp_path, 17, updates_per_step=17)


def test_each_of_several_updates_is_logged_as_if_it_were_alone(tmp_path):
    cadence = {"updates_per_step": 2}
    learner = Learner(
        "learner", AGENT, SPEC, BatchStore(), VariableServer("v"), folder=str(tmp_path), devices=1, **cadence
    )
    learner.start()
    for _ in range(2):
        learner.step()
    learner.settle()
    report = learner.report()
    assert report["counts"]["updates"] == 4
    assert report["metrics"]["policy_lag"] == 3.0  # The fourth update learns from version 0.
    assert report["metrics"]["target_age/trajectories"] == 3.0


def test_a_step_of_several_updates_is_ready_when_all_its_batches_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr(Batches, "there", 2)
    cadence = {"updates_per_step": 3}
    learner = Learner(
        "learner", AGENT, SPEC, BatchStore(), VariableServer("v"), folder=str(tmp_path), devices=1, **cadence
    )
    learner.start()
    assert not learner.ready()
    learner._dataset.there += 1
    assert learner.ready() and learner.ready()
    learner.step()
    assert learner._updates == 3 and learner._dataset.there == 0 and not learner.ready()


@pytest.mark.parametrize("cadence", [{"updates_per_step": 0}, {"publish_every": 0}])
def test_a_cadence_below_one_is_refused(tmp_path, cadence):
    ((field, _),) = cadence.items()
    with pytest.raises(ValueError, match=f"learner: .*{field} (is )?0.* must be at least 1"):
        Learner("learner", AGENT, SPEC, None, VariableServer("v"), folder=str(tmp_path), **cadence)


def test_the_state_that_was_evaluated_best_is_kept(tmp_path):
    learner = Learner("learner", AGENT, SPEC, BatchStore(), VariableServer("v"), folder=str(tmp_path), devices=1)
    learner.start()
    weights = []
    for evaluation in ({"eval_started": 0.0}, {}, {"eval_version": 0.0, "eval_return": 0.5}, {"eval_return": 0.2}):
        learner.evaluation |= evaluation
        learner.step()
        weights.append(np.array(learner._state.weights["linear"]["w"]))
    learner.fail(ValueError("broken"))
    learner.close()
    assert not numbers(tmp_path) and numbers(tmp_path / "best") == [1]
    best, counts = Checkpointer(tmp_path / "best").restore(learner._state)
    np.testing.assert_array_equal(best.weights["linear"]["w"], weights[0])
    assert counts == {"updates": 1.0}
    assert read_record(tmp_path / "best", print) == Record(0.5, None, version=0, updates=1)


def test_priorities_and_the_lag_that_is_allowed_are_measured(tmp_path):
    agent = tiny.make(SPEC)
    queue, update = dataclasses.replace(agent.tables[0], max_lag=7.0), agent.update

    def step(state, batch):
        state, _, metrics = update.step(state, batch)
        return state, jnp.arange(8.0), metrics

    agent = agent._replace(update=update._replace(step=step), tables=(queue,))
    learner = Learner("learner", agent, SPEC, BatchStore(), VariableServer("v"), folder=str(tmp_path), devices=1)
    learner.start()
    learner.step()
    learner.settle()
    measured = learner.report()["metrics"]
    assert (measured["priority"], measured["priority_max"], measured["policy_lag_allowed"]) == (3.5, 7.0, 7.0)


def test_publishes_every_update_and_resumes_where_it_saved(tmp_path):
    first = learn(tmp_path, 3)
    resumed = learn(tmp_path, 0)
    np.testing.assert_array_equal(first, resumed)
    assert np.any(first != 0)


def unsound_after(updates: int) -> Agent:
    """An agent whose loss is no number after so many updates."""
    agent = tiny.make(SPEC)

    def step(state, batch):
        state, priorities, metrics = agent.update.step(state, batch)
        bad = state.steps > updates
        weights = jax.tree.map(lambda w: jnp.where(bad, jnp.nan, w), state.weights)
        return state._replace(weights=weights), priorities, {"loss": jnp.where(bad, jnp.nan, metrics["loss"])}

    return agent._replace(update=agent.update._replace(step=step))


def test_a_loss_that_is_no_number_ends_it_and_is_not_saved(tmp_path):
    settings = {"folder": str(tmp_path), "devices": 1, "save_every_s": 1e-9}
    learner = Learner("learner", unsound_after(2), SPEC, BatchStore(), VariableServer("v"), **settings)
    with pytest.raises(FloatingPointError, match="the loss is nan after 3 updates"):
        learner.run()
    assert sorted(int(path.name) for path in tmp_path.iterdir() if path.name.isdecimal()) == [1, 2]


def test_a_state_whose_loss_is_no_number_is_not_kept_as_the_best(tmp_path, monkeypatch):
    learner = Learner(
        "learner", unsound_after(2), SPEC, BatchStore(), VariableServer("v"), folder=str(tmp_path), devices=1
    )
    step = learner.step

    def evaluated() -> None:
        if learner._updates == 2:  # Of an evaluation that began and ended since the last report the next state is kept.
            learner.evaluation = {"eval_version": 2.0, "eval_started": 2.0, "eval_return": 1.0}
        step()

    monkeypatch.setattr(learner, "step", evaluated)
    with pytest.raises(FloatingPointError, match="the loss is nan after 3 updates"):
        learner.run()
    assert not numbers(tmp_path / "best")


def test_a_loss_that_is_no_number_ends_it_though_no_batch_comes_any_more(tmp_path):
    """As with PPO, whose actors wait for the params that were not published."""

    class Three(Batches):
        polls = 1_200  # A minute, in which the third update is done on any machine.

        def next(self, timeout_s):
            if self.there > 17:
                return super().next(timeout_s)
            time.sleep(0.05)
            self.polls -= 1
            assert self.polls, "the learner waits for more"
            return None

    learner = Learner(
        "learner", unsound_after(2), SPEC, BatchStore(Three), VariableServer("v"), folder=str(tmp_path), devices=1
    )
    with pytest.raises(FloatingPointError, match="the loss is nan after 3 updates"):
        learner.run()


def test_a_learner_that_failed_does_not_save(tmp_path):
    class Broken(Batches):
        def next(self, timeout_s):
            raise RuntimeError("broken")

    learner = Learner("learner", AGENT, SPEC, BatchStore(Broken), VariableServer("v"), folder=str(tmp_path), devices=1)
    with pytest.raises(RuntimeError, match="broken"):
        learner.run()
    assert not [path for path in tmp_path.iterdir() if path.name.isdecimal()]


def test_policy_lag_counts_versions(tmp_path):
    learner = Learner("learner", AGENT, SPEC, BatchStore(), VariableServer("v"), folder=str(tmp_path), devices=1)
    learner.start()
    for _ in range(4):
        learner.step()
    learner.settle()
    assert learner._dataset.prioritised == []  # This agent has none.
    assert learner.report()["metrics"]["policy_lag"] == 3.0  # The fourth update learns from version 0.
    assert learner.report()["counts"]["updates"] == 4


@pytest.mark.once
def test_one_device_and_eight_learn_the_same():
    """Simulated devices must be requested before JAX starts, so this runs in a process of its own."""
    code = textwrap.dedent(
        """
        import pathlib, tempfile, numpy as np, pytest
        from boonta.nodes.hosts.placement import make_mesh
        from boonta.tests.nodes.test_learner import check_priorities, learn
        one, eight = (learn(pathlib.Path(tempfile.mkdtemp()), 5, devices) for devices in (1, 8))
        np.testing.assert_allclose(one, eight, rtol=1e-5, atol=1e-7)
        four = learn(pathlib.Path(tempfile.mkdtemp()), 8, 8, updates_per_step=4)
        np.testing.assert_allclose(learn(pathlib.Path(tempfile.mkdtemp()), 8), four, rtol=1e-5, atol=1e-7)
        check_priorities(pathlib.Path(tempfile.mkdtemp()), 8)
        check_priorities(pathlib.Path(tempfile.mkdtemp()), 8, updates_per_step=3)
        with pytest.raises(ValueError, match="batch_size is 9; it must divide over 8 learner devices"):
            make_mesh(8, 9)
        """
    )
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S, env=environment)
