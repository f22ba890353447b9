"""The fused node: it is repeatable, the same on one device and on many, and its checkpoints fit other programs."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import impala
from boonta.agents.config import replaced
from boonta.agents.groups import Torso
from boonta.envs import catch
from boonta.envs.jax.catch import Catch
from boonta.nodes.anakin import Anakin
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.monitor import Monitor
from boonta.nodes.snapshots.store import BEST, numbers
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.variables import VariableServer, unpack
from boonta.nodes.watch.evaluation import NONE, Evaluation
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.fused import ENV, agent, node

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def learn(folder, updates: int, kind: str = "queue", **settings) -> dict:
    """The params after so many updates."""
    anakin = node(folder, updates, kind, **settings)
    anakin.start()
    while anakin._updates < updates:
        anakin.step()
    anakin.step()  # There is nothing left to do.
    assert anakin._updates == updates
    anakin.close()
    return jax.tree.map(np.asarray, anakin._agent.update.params(anakin._state.learner))


def equal(one: dict, other: dict) -> bool:
    """Whether all bits are the same."""
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, one, other)))


@pytest.mark.parametrize("kind", ["several", "impala"])
def test_the_same_seed_gives_the_same_bits(tmp_path, kind):
    """What is killed and goes on shows it of the others, see test_exact_resume."""
    first = learn(tmp_path / "a", 16, kind)
    assert equal(first, learn(tmp_path / "b", 16, kind))
    if kind == "impala":  # Environments and params are seeded alike for any table.
        assert not equal(first, learn(tmp_path / "c", 16, kind, seed=1))


def test_no_key_is_used_twice(tmp_path):
    """`split(key)[i]` is `fold_in(key, i)`: keys that are derived by both from one may be the same."""
    config = replaced(impala.CATCH, {"batch_size": 2, "unroll_length": 2, "torso.widths": (4, 4)})
    anakin = Anakin("anakin", impala.make(config, ENV.spec), ENV, folder=str(tmp_path), devices=1)
    anakin.start()
    state, seed_key = anakin._state, jax.random.PRNGKey(0)
    used = [seed_key, *jax.random.split(seed_key)]
    for key in [state.learner.key, state.key, state.stage.key, *state.stage.env.key, anakin._fused.eval_key]:
        used.append(key)
        for i in range(5):  # Both a chain of splits and folding numbers in derive keys.
            key, drawn = jax.random.split(key)
            used += [key, drawn, jax.random.fold_in(drawn, i)]
    assert len({tuple(np.asarray(key).tolist()) for key in used}) == len(used)


def check_devices(folder, kind: str) -> None:
    """Called in a process that has eight."""
    start = agent(kind).update
    before = start.params(start.init(jax.random.PRNGKey(0)))
    one, eight = (learn(folder / str(devices), 16, kind, devices=devices) for devices in (1, 8))
    assert not equal(before, one)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one, eight)
    # MuZero's third compilation costs as much as all the others' do; several tables show what a queue would.
    if kind not in ("queue", "muzero"):
        assert equal(eight, learn(folder / "again", 16, kind, devices=8))


@pytest.mark.parametrize(
    "kinds", [("queue", "several"), pytest.param(("impala", "muzero"), marks=pytest.mark.slow)], ids="-".join
)
def test_one_device_and_eight_learn_the_same(kinds):
    """Simulated devices must be requested before JAX starts, so this runs in a process of its own."""
    code = textwrap.dedent(
        f"""
        import pathlib, tempfile, pytest
        from boonta.tests.helpers.fused import node
        from boonta.tests.nodes.test_anakin import check_devices
        for kind in {kinds}:
            check_devices(pathlib.Path(tempfile.mkdtemp()), kind)
        with pytest.raises(ValueError, match="num_envs is 12; it must divide over 8 devices"):
            node("x", 1, "replay", num_envs=12, devices=8)
        """
    )
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S, env=environment)


@contextlib.contextmanager
def compilations():
    """Counts what XLA compiles."""
    seen: list[str] = []

    def listen(name: str, seconds: float, **about) -> None:
        if name == "/jax/core/compile/backend_compile_duration":
            seen.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    jax.jit(lambda x: x + 1)(0)
    assert seen, "a compilation is not reported; JAX's event may have another name now"
    seen.clear()
    yield seen  # The listener stays, for JAX 0.6 can't take it back.


def test_convolutions_learn_out_of_the_loop_what_they_would_within(tmp_path, monkeypatch):
    """XLA on CPU differentiates convolutions slowly inside of a loop, so each round is a program of its own there."""
    config = dataclasses.replace(impala.CATCH, torso=Torso("shallow"), batch_size=4, unroll_length=2)
    env = Catch(rows=36, columns=36)  # A board of 1,024 pixels or fewer needs no convolution.
    weights = []
    for convolves in (True, False):
        if not convolves:
            monkeypatch.setattr("boonta.nodes.fused.learners.convolves_on_cpu", lambda *given: False)
        settings = {"evaluation": NONE, "num_envs": 4, "devices": 1, "stop": StopRule(updates=3)}
        anakin = Anakin("anakin", impala.make(config, env.spec), env, folder=str(tmp_path / str(convolves)), **settings)
        assert anakin._fused.in_loop != convolves
        anakin.start()
        while anakin._updates < 3:
            anakin.step()
        anakin.close()
        weights.append(jax.tree.map(np.asarray, anakin._agent.update.params(anakin._state.learner)))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5), *weights)


def test_nothing_is_compiled_after_the_first_dispatches(tmp_path):
    anakin = node(tmp_path, 10_000, evaluation=Evaluation(50, every_updates=7), save_every_s=0.0)
    anakin.start()
    while "eval_return" not in anakin.report()["metrics"]:
        anakin.step()
    with compilations() as seen:
        for _ in range(20):
            anakin.step()
        assert not seen
    assert anakin.report()["metrics"]["compile_s"] > 0
    anakin.close()  # This waits for the save under way.


def test_the_next_dispatch_is_enqueued_before_the_last_is_collected(tmp_path, monkeypatch):
    anakin = node(tmp_path, 10_000)
    anakin.start()
    order = []
    rounds, take = anakin._device.rounds, anakin._pipeline._take
    monkeypatch.setattr(anakin._device, "rounds", lambda *given: (order.append("dispatched"), rounds(*given))[1])
    monkeypatch.setattr(anakin._pipeline, "_take", lambda *given: (order.append("collected"), take(*given))[1])
    for _ in range(3):
        anakin.step()
    assert order == ["dispatched", "dispatched", "collected", "dispatched", "collected"]


def test_a_device_that_hangs_does_not_keep_the_node_from_its_end(tmp_path, monkeypatch):
    anakin, works = node(tmp_path, 10_000), threading.Event()
    anakin.start()
    anakin.step()
    anakin.stop()
    with monkeypatch.context() as patched:
        patched.setattr("boonta.nodes.fused.dispatch.DISPATCH_DEADLINE_S", 0.01)
        patched.setattr("boonta.nodes.fused.dispatch.jax.device_get", lambda results: works.wait(DEADLINE_S))
        with pytest.raises(TimeoutError, match="waited 0 s for the device"):
            anakin.close()
    works.set()


def test_it_evaluates_counts_and_resumes_where_it_saved(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    settings = {"evaluation": Evaluation(50, every_updates=100), "stop": StopRule(updates=200)}
    anakin = Anakin("anakin", agent(), ENV, monitor, folder=str(tmp_path / "c"), **settings)
    anakin.start()
    for _ in range(60):
        anakin.step()
    anakin.close()
    report = anakin.report()
    assert -1 <= report["metrics"]["eval_return_min"] <= report["metrics"]["eval_return"] <= 1
    assert report["metrics"]["return"] > -0.6  # Random play has -1 / 3.
    assert report["counts"]["updates"] == 200
    assert report["counts"]["eval_episodes"] == 5 * 50  # After 12, 25, 50, 100 and 200 updates.
    assert report["counts"]["env_steps"] == report["counts"]["frames"] == 8 * (1 + 200 * 4)
    anakin.heartbeat()
    saved, counts = Checkpointer(tmp_path / "c").restore(agent().update.init(None))
    np.testing.assert_array_equal(saved.weights["linear"]["w"], anakin._state.learner.weights["linear"]["w"])
    assert counts["updates"] == 200 and counts["env_steps"] == report["counts"]["env_steps"]
    again = Anakin("anakin", agent(), ENV, Monitor("m", str(tmp_path), StopRule()), folder=str(tmp_path / "c"))
    again.start()
    assert again._updates == 200 and again.monitor.totals()["updates"] == 200
    np.testing.assert_array_equal(saved.weights["linear"]["w"], again._state.learner.weights["linear"]["w"])


def test_the_best_is_kept_where_the_last_save_finds_no_room(tmp_path, monkeypatch):
    settings = {"evaluation": Evaluation(50, every_updates=10), "stop": StopRule(updates=20)}
    anakin = Anakin("anakin", agent(), ENV, folder=str(tmp_path), **settings)
    anakin.start()
    while anakin._updates < 20:
        anakin.step()

    def full(*state):
        raise OSError("no space left")

    monkeypatch.setattr(anakin._saver, "save", full)
    with pytest.raises(OSError, match="no space left"):
        anakin.close()
    assert numbers(tmp_path / BEST)


def test_a_clusters_learner_goes_on_from_its_checkpoint_and_its_evaluator_plays_it(tmp_path):
    weights = learn(tmp_path, 12)["linear"]["w"]
    variables = VariableServer("variables")
    table = agent().tables[0]
    learner = Learner("learner", agent(), ENV.spec, QueueTable(table), variables, folder=str(tmp_path), devices=1)
    learner.start()
    version, packed = variables.get(-1)
    assert version == 12
    np.testing.assert_array_equal(unpack(packed, {"linear": {"w": weights}})["linear"]["w"], weights)
    evaluator = Evaluator("evaluator", agent(), catch.Catch(rows=4, columns=3), variables, episodes=4)
    evaluator.start()
    evaluator.round()
    metrics = evaluator.report()["metrics"]
    assert metrics["eval_version"] == 12 and -1 <= metrics["eval_return"] <= 1


class Impure(Catch):
    def step(self, state, action):
        print(float(action))
        return super().step(state, action)


class Steered(Catch):
    """Moves by the first of two numbers."""

    @property
    def spec(self):
        return super().spec._replace(actions=specs.BoundedArray((2,), np.float32, -1, 1, "action"))

    def move(self, key, state, action):
        return super().move(key, state, jnp.sign(action[0]).astype(jnp.int32) + 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"devices": 99}, r"devices is 99; this process has \d+"),
        ({"num_envs": 12}, "num_envs is 12; it must be a multiple of batch_size, 8"),
        ({"num_envs": 0}, "num_envs is 0, num_replayed 32; they must be at least 1"),
        ({"stop": StopRule(eval_return=1.0)}, "evaluation.every_updates is 0, nothing measures it"),
        ({"stop": StopRule(patience=3)}, "stop.patience is 3; evaluation.every_updates is 0, nothing measures it"),
        ({"evaluation": Evaluation(by="seconds")}, "evaluation.by is 'seconds'; a fused program counts 'updates' or"),
    ],
)
def test_what_cannot_work_is_refused_before_compiling(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        node(tmp_path, 1, **settings)


def test_an_impure_environment_is_refused_before_compiling(tmp_path):
    with pytest.raises(ValueError, match="Impure.step is not a pure JAX program"):
        Anakin("anakin", agent(), Impure(4, 3), folder=str(tmp_path))


def test_an_environment_that_is_not_of_jax_is_refused(tmp_path):
    with pytest.raises(ValueError, match="env is of boonta.envs.catch.Catch; it must be a JaxEnv"):
        Anakin("anakin", agent(), catch.Catch(4, 3), folder=str(tmp_path))


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            Catch(6, 4),
            r"policy can't take observations of Catch, float32\[6, 4\] \(.*make the agent with the spec",
        ),
        (
            Steered(4, 3),
            r"the agent's actions are int32\[\], those of the environment are float32\[2\]; make the agent with",
        ),
    ],
)
def test_an_agent_made_for_another_spec_is_refused_before_compiling(tmp_path, env, message):
    with pytest.raises(ValueError, match=message):
        Anakin("anakin", agent(), env, folder=str(tmp_path))
