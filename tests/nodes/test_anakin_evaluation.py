"""The fused node's evaluations: when, by which policy, and what is kept of them."""

from __future__ import annotations

import dataclasses
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import impala
from boonta.envs.jax.pgx import Pgx
from boonta.nodes.acting.local import evaluated_policy
from boonta.nodes.anakin import Anakin
from boonta.nodes.base import Stopped
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.fused.dispatch import Pending
from boonta.nodes.watch.evaluation import Evaluation
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.fused import ENV, IMPALA, agent, node
from boonta.tests.helpers.swap_parts import make_agent

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def test_the_very_state_that_was_evaluated_best_is_kept(tmp_path, monkeypatch):
    returns = {20: 0.25, 40: 0.75, 60: 0.5}
    anakin = node(tmp_path, 60, evaluation=Evaluation(50, every_updates=20))
    anakin.start()
    evaluate, seen = anakin._device.evaluate, {}

    def scripted(learner, version, key):
        seen[anakin._updates] = np.array(learner.weights["linear"]["w"])
        evaluation = evaluate(learner, version, key)
        result = {"eval_return": jnp.float32(returns.get(anakin._updates, 0.0))}
        return evaluation._replace(metrics=evaluation.metrics | result)

    monkeypatch.setattr(anakin._device, "evaluate", scripted)
    while anakin._updates < 60:
        anakin.step()
    anakin.close()
    best, counts = Checkpointer(tmp_path / "best").restore(agent().update.init(None))
    np.testing.assert_array_equal(best.weights["linear"]["w"], seen[40])
    assert not np.array_equal(seen[40], seen[60]) and counts["updates"] == 40
    assert counts["env_steps"] == 16 * (1 + 40 // 2 * 4)


def test_it_evaluates_by_env_steps(tmp_path):
    evaluation = Evaluation(50, "env_steps", every_env_steps=1_000, max_age=70)
    anakin = node(tmp_path, 100, evaluation=evaluation)
    assert anakin._eval_every == 31  # Updates of 8 sequences of 4 steps.
    anakin.start()
    versions = set()
    while anakin._updates < 100:
        anakin.step()
        versions.add(anakin.report()["metrics"].get("eval_version"))
    anakin.close()
    assert versions - {None} == {4.0, 8.0, 16.0, 32.0, 62.0, 94.0, 100.0}
    assert anakin.report()["metrics"]["eval_age_allowed"] == 70


@pytest.mark.parametrize(
    ("updates", "evaluated"),
    [(40, [2, 6, 10, 20, 40]), (50, [2, 6, 10, 20, 40, 50]), (10, [2, 6, 10])],
)
def test_it_evaluates_early_at_intervals_and_the_last_params(tmp_path, monkeypatch, updates, evaluated):
    anakin = node(tmp_path, updates, evaluation=Evaluation(50, every_updates=20))
    anakin.start()
    evaluate, seen = anakin._device.evaluate, []

    def spy(learner, version, key):
        seen.append(anakin._updates)
        return evaluate(learner, version, key)

    monkeypatch.setattr(anakin._device, "evaluate", spy)
    measure, measured = anakin.measure, []
    monkeypatch.setattr(anakin, "measure", lambda metrics: (measured.append(metrics), measure(metrics)))
    while anakin._updates < updates:
        anakin.step()
    anakin.step()  # Without rounds.
    anakin.close()
    # At once: in between, a heartbeat would give an evaluation the version of the last one.
    assert [each["eval_version"] for each in measured if "eval_return" in each] == evaluated
    assert seen == evaluated and anakin.report()["metrics"]["eval_version"] == updates


def test_a_long_evaluation_is_awaited_as_a_save_is_and_nothing_is_dispatched_behind_it(tmp_path, monkeypatch):
    anakin = node(tmp_path, 10_000, evaluation=Evaluation(every_updates=8))
    anakin.start()
    goes_on, get, said = threading.Event(), jax.device_get, []

    def slow(results):
        if results[2] is not None:
            anakin.stop()  # As Ctrl-C would, while the device evaluates.
            goes_on.wait(DEADLINE_S)
        return get(results)

    def taken(*given):
        said.append(anakin.report())
        return take(*given)

    monkeypatch.setattr("boonta.nodes.fused.dispatch.jax.device_get", slow)
    take = anakin._pipeline._take
    monkeypatch.setattr(anakin._pipeline, "_take", taken)
    with pytest.raises(Stopped):
        while True:
            anakin.step()
    assert [pending.evaluation is not None for pending in anakin._pipeline._waiting] == [True]
    goes_on.set()
    anakin.close()
    assert said[-1]["activity"] == "saving: waiting for the device" and said[-1]["saving"]
    assert anakin.report()["counts"]["updates"] == anakin._updates and not anakin._pipeline


def test_a_game_of_two_is_evaluated_against_a_random_player(tmp_path):
    game = Pgx("tic_tac_toe")
    settings = {"devices": 1, "num_envs": 16, "stop": StopRule(updates=8)}
    agent = make_agent(game, "dqn", 0)
    with pytest.raises(ValueError, match="anakin: evaluation.episodes is 5; it must be even, because half are played"):
        Anakin("anakin", agent, game, folder=str(tmp_path), evaluation=Evaluation(5, every_updates=8), **settings)
    anakin = Anakin("anakin", agent, game, folder=str(tmp_path), evaluation=Evaluation(64, every_updates=8), **settings)
    anakin.start()
    while anakin._updates < 8:
        anakin.step()
    anakin.step()
    anakin.close()
    found = anakin.report()["metrics"]
    shares = {share: found[f"arena/random/{share}"] for share in ("win", "draw", "loss")}
    assert sum(shares.values()) == pytest.approx(1) and shares["win"] > 0 and found["eval_cut"] == 0
    assert found["eval_return"] == pytest.approx(shares["win"] - shares["loss"])


def test_which_policy_is_evaluated_is_chosen(tmp_path):
    with pytest.raises(ValueError, match="evaluation.deterministic is True, but neither of the agent's policies is"):
        node(tmp_path, 1, evaluation=Evaluation(deterministic=True))
    greedy = impala.make(dataclasses.replace(IMPALA, eval_mode="greedy"), ENV.spec)
    for deterministic, policy in ((None, greedy.eval_policy), (True, greedy.eval_policy), (False, greedy.policy)):
        assert evaluated_policy(greedy, deterministic) is policy
    assert evaluated_policy(agent("impala"), None).deterministic is False
    searching = agent("muzero")
    assert searching.eval_policy.deterministic and not searching.policy.deterministic


@pytest.mark.parametrize("every", [2, 3])
def test_a_due_checkpoint_is_saved_once_whichever_dispatch_it_is_due_on(tmp_path, monkeypatch, every):
    """A step collects two dispatches where the second one ends with an evaluation."""
    anakin = node(tmp_path, 10_000, evaluation=Evaluation(4, every_updates=1_000))
    anakin.start()
    due_at, dispatched, saved_after = (1, 6, 11, 16, 21, 26), [], []
    dispatch, begin = anakin._dispatch, anakin._saver.begin

    def counted(rounds: int) -> Pending:
        dispatched.append(rounds)
        monkeypatch.setattr(anakin, "_save_every_s", -1.0 if len(dispatched) in due_at else 1e9)
        return dispatch(rounds)

    monkeypatch.setattr(anakin, "_dispatch", counted)
    monkeypatch.setattr(anakin._lengths, "rounds", lambda *given: 1)
    monkeypatch.setattr(anakin._lengths, "evaluates", lambda *given: len(dispatched) % every == 0)
    monkeypatch.setattr(anakin._saver, "begin", lambda *given: (saved_after.append(len(dispatched)), begin(*given)))
    while len(dispatched) < 30:
        anakin.step()
    assert all(after in (due, due + 1) for due, after in zip(due_at, saved_after, strict=True))
    anakin.close()
