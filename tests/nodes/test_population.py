"""Many learners in one program: each learns what it would alone."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.envs.jax.catch import Catch
from boonta.nodes import metrics
from boonta.nodes.anakin import Anakin
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.fused import dispatch
from boonta.nodes.fused.nans import Nans
from boonta.nodes.fused.stage import Episodes
from boonta.nodes.snapshots.best import Record, read_record
from boonta.nodes.snapshots.store import Retention, numbers
from boonta.nodes.watch.evaluation import NONE, Evaluation
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.fused import ENV, agent
from boonta.tests.helpers.members import Config, make, population

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def run(node: Anakin) -> Anakin:
    node.start()
    while node._updates < 20:
        node.step()
    node.close()
    return node


def test_members_learn_what_each_would_alone_and_the_best_is_kept_for_others(tmp_path):
    together = run(population(tmp_path))
    assert together.members == [{"seed": s, "learning_rate": rate} for rate in (0.1, 0.5) for s in (3, 4)]
    weights = together._state.learner.learner.weights["linear"]["w"]
    for i, member in enumerate(together.members):
        agent = make(Config(member["learning_rate"]))
        folder = str(tmp_path / str(i))
        settings = {"seed": member["seed"], "evaluation": NONE, "stop": StopRule(updates=20), "devices": 1}
        alone = run(Anakin("anakin", agent, ENV, folder=folder, **settings))
        np.testing.assert_allclose(weights[i], alone._state.learner.weights["linear"]["w"], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(together._state.key[i], alone._state.key)
    rows = metrics.read(tmp_path, metrics.MEMBERS)
    assert [(row["member"], row["updates"]) for row in rows] == [(i, u) for u in (1, 2, 5, 10, 20) for i in range(4)]
    last = [row["eval_return"] for row in rows[-4:]]
    best, counts = Checkpointer(tmp_path / "checkpoints").restore(make(Config()).update.init(None))
    np.testing.assert_array_equal(best.weights["linear"]["w"], weights[int(np.argmax(last))])
    assert counts["updates"] == 20 and counts["env_steps"] == 4 * 8 * (1 + 20 * 4)
    report = together.report()
    assert report["metrics"]["eval_return"] == pytest.approx(np.mean(last))
    errors = [row["eval_return_se"] for row in rows[-4:]]  # Of seeds 3, 4, 3 and 4, each with episodes of its own.
    expected = math.hypot(errors[0] + errors[2], errors[1] + errors[3]) / 4
    assert report["metrics"]["eval_return_se"] == pytest.approx(expected)
    assert report["counts"]["env_steps"] == counts["env_steps"]

    again = population(tmp_path)
    again.start()
    assert again._updates == 20
    np.testing.assert_array_equal(again._state.learner.learner.weights["linear"]["w"], weights)


def test_the_best_members_checkpoints_are_kept_as_others_are(tmp_path):
    """So that their folder doesn't grow with each start, and what is wrong with one is a warning of the run."""
    for updates in (10, 20):
        together = population(tmp_path, retention=Retention(newest=1), stop=StopRule(updates=updates))
        together.start()
        while together._updates < updates:
            together.step()
        together.close()
    assert numbers(tmp_path / "checkpoints") == [20]


def test_returns_of_members_are_of_all_episodes_since_the_last_evaluation(tmp_path, monkeypatch):
    """However many updates the device is given at once, which is a matter of its speed."""
    found = []
    for seconds in (0.0, 1e9):
        monkeypatch.setattr(dispatch, "DISPATCH_S", seconds)
        run(population(tmp_path / str(seconds)))
        found.append([row["return"] for row in metrics.read(tmp_path / str(seconds), metrics.MEMBERS)])
    assert len(found[0]) == 20
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_members_with_several_tables_renew_their_own(tmp_path):
    def make_several(config: Config):
        update = make(config).update

        def step(state, batch):  # Its table draws by priorities.
            state, _, metrics = update.step(state, batch)
            return state, jnp.ones_like(batch.probability), metrics

        return agent("several")._replace(update=update._replace(step=step))

    together = run(population(tmp_path, make=make_several, seeds=1, evaluation=NONE))
    weights = together._state.learner.learner.weights["linear"]["w"]
    settings = {"folder": str(tmp_path / "1"), "seed": 3, "evaluation": NONE, "devices": 1}
    alone = run(Anakin("anakin", make_several(Config(0.5)), ENV, stop=StopRule(updates=20), **settings))
    np.testing.assert_allclose(weights[1], alone._state.learner.weights["linear"]["w"], rtol=1e-5, atol=1e-6)
    counts, own = together.report()["counts"], alone.report()["counts"]
    assert counts["updates"] == own["updates"] == 20
    for name in ("reanalyzed_sequences", "reanalyzed_steps", "env_steps"):
        assert counts[name] == 2 * own[name] > 0


def test_a_member_starts_and_is_evaluated_with_its_own_hyper_parameters(tmp_path):
    def make_all_by_rate(config: Config):
        agent = make(config)

        def init(key):
            return jax.tree.map(lambda x: x + jnp.asarray(config.learning_rate, x.dtype), agent.update.init(key))

        def to_a_side(params, key, timestep, state):  # The action is the member's hyper-parameter.
            side = jnp.where(config.learning_rate > 0.3, 0, 2)
            return jnp.full(timestep.step_type.shape, side, jnp.int32), {}, state

        eval_policy = agent.eval_policy._replace(step=to_a_side)
        return agent._replace(update=agent.update._replace(init=init), eval_policy=eval_policy)

    settings = {"evaluation": Evaluation(64, every_updates=10), "stop": StopRule(updates=20), "devices": 1}
    together = run(population(tmp_path, make=make_all_by_rate, seeds=2, **settings))
    returns = [row["eval_return"] for row in together._evaluations.rows]
    assert len(set(returns)) == 4
    for i, member in enumerate(together.members):
        agent = make_all_by_rate(Config(member["learning_rate"]))
        alone = run(Anakin("anakin", agent, ENV, folder=str(tmp_path / str(i)), seed=member["seed"], **settings))
        assert returns[i] == pytest.approx(alone.report()["metrics"]["eval_return"])
        weights = [
            learner.weights["linear"]["w"] for learner in (together._state.learner.learner, alone._state.learner)
        ]
        np.testing.assert_allclose(weights[0][i], weights[1], rtol=1e-5, atol=1e-6)


def test_hyper_parameters_are_state_which_checkpoints_hold_and_others_may_change(tmp_path):
    together = population(tmp_path, seeds=1, stop=StopRule(updates=40))
    together.start()
    while together._updates < 20:
        together.step()
    member = together._state.learner
    np.testing.assert_array_equal(member.values["learning_rate"], np.float32([0.1, 0.5]))
    before = np.asarray(member.learner.weights["linear"]["w"])
    changed = {"learning_rate": jnp.where(jnp.arange(2) == 0, 0.0, member.values["learning_rate"])}
    changed = jax.device_put(changed, member.values["learning_rate"].sharding)
    together._state = together._state._replace(learner=member._replace(values=changed))
    while together._updates < 40:
        together.step()
    together.close()
    after = np.asarray(together._state.learner.learner.weights["linear"]["w"])
    np.testing.assert_array_equal(before[0], after[0])
    assert np.any(before[1] != after[1])
    rows = metrics.read(tmp_path, metrics.MEMBERS)
    assert [row["learning_rate"] for row in rows[:2] + rows[-2:]] == [0.1, 0.5, 0.0, 0.5]
    again = population(tmp_path, seeds=1)
    again.start()
    np.testing.assert_array_equal(again._state.learner.values["learning_rate"], np.float32([0.0, 0.5]))


def test_a_member_that_collapses_is_named_and_the_best_ever_is_kept(tmp_path):
    """The learning rate of the first is 0, so that its update is nothing; that of the other goes on."""

    def make_measured(config: Config):
        agent = make(config)

        def step(state, batch):
            state, priorities, metrics = agent.update.step(state, batch)
            return state, priorities, metrics | {"grad_norm": jnp.float32(config.factor)}

        return agent._replace(update=agent.update._replace(step=step))

    vary = {"factor": [0.0, 1.0]}
    evaluation = Evaluation(16, every_updates=4)
    together = run(population(tmp_path, make=make_measured, vary=vary, seeds=2, evaluation=evaluation))
    report = together.report()
    warnings = [warning for warning in report["warnings"] if "gradient vanished" in warning]
    assert [warning.partition(":")[0] for warning in warnings] == ["member 0 (seed 3)", "member 1 (seed 4)"]
    assert report["metrics"]["members_collapsed"] == 2 and report["metrics"]["members"] == 4
    rows = metrics.read(tmp_path, metrics.MEMBERS)
    best = max(rows, key=lambda row: row["eval_return"])
    assert read_record(tmp_path / "checkpoints" / "best", print) == Record(
        best["eval_return"], best["eval_return_se"], int(best["updates"]), int(best["updates"]), int(best["member"])
    )


def test_it_goes_on_without_those_that_diverged(tmp_path, monkeypatch):
    def play(env, policy, params, *others):  # It would prefer the diverged ones.
        return {"eval_return": jnp.isnan(params["linear"]["w"]).any().astype(jnp.float32)}

    monkeypatch.setattr("boonta.nodes.fused.stage.play", play)
    together = run(population(tmp_path, config=Config(factor=1e10), vary={"learning_rate": [1e30, 1e-11]}, seeds=1))
    weights = together._state.learner.learner.weights["linear"]["w"]
    assert np.isnan(weights[0]).any() and np.isfinite(weights[1]).all()
    rows = metrics.read(tmp_path, metrics.MEMBERS)[-4:]
    assert [row["loss"] is None for row in rows] == [True, False, True, False]
    assert [row["eval_return"] for row in rows] == [1, 0, 1, 0]
    assert rows[0]["learning_rate"] == 1e30
    measured = together.report()["metrics"]
    assert measured["diverged"] == 1 and measured["eval_return"] == 0
    assert measured["loss"] == pytest.approx(rows[-1]["loss"])
    best, _ = Checkpointer(tmp_path / "checkpoints").restore(make(Config()).update.init(None))
    np.testing.assert_array_equal(best.weights["linear"]["w"], weights[1])


def test_it_ends_when_none_is_left(tmp_path):
    with pytest.raises(FloatingPointError, match="all 2 members have diverged after .* updates: lower"):
        run(population(tmp_path, config=Config(factor=1e10), vary={"learning_rate": [1e30]}))


class Unsound(Catch):
    """Catch whose reward is NaN where the ball lands."""

    def move(self, key, state, action):
        state, reward, landed, cut = super().move(key, state, action)
        return state, jnp.where(landed, jnp.nan, reward), landed, cut


def test_what_its_environments_show_as_nan_is_named_and_no_learning_rate_is_blamed(tmp_path, monkeypatch):
    monkeypatch.setattr("boonta.tests.helpers.members.ENV", Unsound(rows=4, columns=3))
    message = (
        r"^member 0 \(seed 3\): the environment's reward \(\d+ times\) is NaN, after \d+ updates, "
        r"first in slot 0 at step 3; it is so in all 4 members$"
    )
    with pytest.raises(FloatingPointError, match=message):
        run(population(tmp_path))


def test_what_the_environments_of_some_members_show_as_nan_is_no_loss_of_the_others(tmp_path):
    node = population(tmp_path)

    def collect(*times: float) -> None:
        zeros = np.zeros(4, np.int32)
        shown = Nans({"reward": np.array(times)}, zeros, zeros, zeros)
        node._sound(Episodes(*np.zeros((4, 4)), nans=shown), updates=8, env_steps=0)

    collect(0.0, 3.0, 1.0, 0.0)
    collect(0.0, 0.0, 5.0, 2.0)
    found = ["member 1 (seed 4): …reward (3", "member 2 (seed 3): …reward (1", "member 3 (seed 4): …reward (2"]
    told = [warning.replace("the environment's ", "…").partition(" times")[0] for warning in node.warnings]
    assert told == found
    with pytest.raises(FloatingPointError, match=r"^member 0 .*; it is so in all 4 members$"):
        collect(1.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vary": {"learning_rate": []}}, r"learning_rate is to vary over \[\]; it must be finite"),
        ({"vary": {"size": [8, 16]}}, "size can't vary within a population: the program needs its value"),
        ({"vary": {"learning_rate": [0.1, -1.0]}}, "learning_rate is -1.0; it must be above 0"),
        ({"vary": {"learning_rate": [0.1, np.inf]}}, r"learning_rate is to vary over \[0.1, inf\]; it must be finite"),
        ({"vary": {"learning_rate": [0.1, 0.1]}}, "none of them twice"),
        ({"vary": {"unused": [1, 2]}}, "unused has no effect with these settings"),
        ({"members": [{"seed": 0}, {"seed": 1, "learning_rate": 0.2}]}, "all must have one set of fields, and a seed"),
        ({"members": [{"learning_rate": 0.2}]}, r"members have \[\['learning_rate'\]\]; all must have"),
        ({"seeds": 0}, "seeds is 0, seed 3; they must be at least 1 and 0"),
        ({"seed": -1}, "seeds is 2, seed -1; they must be"),
        ({"devices": 99}, r"devices is 99; this process has \d+"),
    ],
)
def test_what_cannot_vary_is_refused_before_compiling(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        population(tmp_path, **settings)


def check_devices(folder) -> None:
    """Called in a process that has four."""
    one, four = (run(population(folder / str(devices), devices=devices)) for devices in (1, 4))
    leaves = [node._state.learner.learner.weights["linear"]["w"] for node in (one, four)]
    assert len(leaves[1].sharding.device_set) == 4
    np.testing.assert_allclose(*leaves, rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="members are 4; they must divide over 3 devices"):
        population(folder, devices=3)


def test_members_spread_over_devices():
    code = textwrap.dedent(
        """
        import pathlib, tempfile
        from boonta.tests.nodes.test_population import check_devices
        check_devices(pathlib.Path(tempfile.mkdtemp()))
        """
    )
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S, env=environment)
