"""Nodes that evaluate: when they do, and what the learner and the monitor hear of it."""

from __future__ import annotations

import dataclasses
import math
from unittest import mock

import jax
import numpy as np
import pytest

from boonta.envs.base import Episode, mixed_seed
from boonta.nodes import evaluator
from boonta.nodes.base import Stopped
from boonta.nodes.evaluating import EvalEpisodes, Evaluating, play_out
from boonta.nodes.fused import stage
from boonta.nodes.watch.evaluation import NONE, Evaluation, as_metrics
from boonta.programs.wiring.program import parameters
from boonta.tests.helpers.fused import ENV, agent

AGENT = agent()
AGENT = AGENT._replace(eval_policy=AGENT.eval_policy._replace(deterministic=True))


class Params:
    """Has params once the learner has published any."""

    published = True

    def fetch(self, timeout_s):
        return (7, ()) if self.published else None


class Probe(Evaluating):
    """Counts its evaluations, and keeps what the last one had reported when it began."""

    def __init__(self, **settings):
        super().__init__("evaluator", AGENT, ENV, None, **settings)
        self.rounds = 0
        self._params, self._made = Params(), 1  # There is nothing to compile.

    def evaluate(self, version, params):
        self.rounds += 1
        self.reported = self.report()["metrics"]
        return {"eval_version": float(version)}


def test_a_program_that_is_started_again_is_evaluated_with_other_seeds(monkeypatch):
    """Its evaluator has no folder by which it would know."""

    def seeds(past_starts: int) -> list[int]:
        env = mock.Mock()
        env.spec = ENV.spec
        node = evaluator.Evaluator("evaluator", agent(), env, None, seed=7)
        node.past_starts, node._made = past_starts, 1  # The first one only compiles besides.
        node._params = mock.Mock(fetch=lambda timeout_s: (0, None))
        monkeypatch.setattr(evaluator, "Play", mock.Mock(side_effect=Stopped))
        with pytest.raises(Stopped):
            node.round()
        return [call.args[1] for call in env.call_args_list]

    assert seeds(0) == [mixed_seed(7, 1)] and len({*seeds(0), *seeds(1), *seeds(2)}) == 3


@pytest.mark.parametrize("returns", [[1.0, math.inf], [math.inf, -math.inf], [1.0, math.nan]])
def test_an_evaluator_reports_a_policy_that_has_diverged(monkeypatch, returns):
    env = mock.Mock()
    env.spec = ENV.spec
    node = evaluator.Evaluator("evaluator", agent(), env, None)
    node._made, node._means = 1, {}
    monkeypatch.setattr(evaluator, "Play", mock.Mock())
    monkeypatch.setattr(evaluator, "play_out", lambda *args: EvalEpisodes(returns, 0, {}))
    found = node.evaluate(7, ())
    assert not math.isfinite(found["eval_return"]) and math.isnan(found["eval_return_se"])
    assert found["eval_version"] == 7.0


@pytest.mark.parametrize("by", ["updates", "env_steps"])
def test_it_evaluates_once_for_each_multiple_that_a_counter_has_passed(by):
    node = Probe(by=by, **{f"every_{by}": 100}, max_share=1.0)
    evaluated = []
    for count in (0, 50, 99, 101, 150, 199, 200, 230, 470, 480, 500):
        node.program_counts = {by: float(count)}
        if node.ready():
            node.step()
            evaluated.append(count)
    assert evaluated == [101, 200, 470, 500] and node.rounds == 4


def test_a_resumed_run_goes_on_with_the_next_multiple():
    node = Probe(by="updates", every_updates=100)
    node._params.published = False  # The learner is still restoring its checkpoint.
    assert not node.ready()
    node._params.published, node.program_counts = True, {"updates": 1_234.0}
    assert not node.ready()
    node.program_counts = {"updates": 1_300.0}
    assert node.ready()


def test_it_leaves_the_cores_to_others_by_a_counter_too():
    node = Probe(by="updates", every_updates=1, max_share=1e-9)
    for count in (0, 1):
        node.program_counts = {"updates": float(count)}
        assert node.ready() == (count > 0)
    node.step()
    node.program_counts = {"updates": 2.0}
    assert node.rounds == 1 and not node.ready()


def test_it_says_which_version_is_being_evaluated_and_how_old_an_evaluation_may_get():
    node = Probe(every_s=0.0, max_age=500)
    node.round()
    assert node.reported == {"eval_started": 7.0}
    assert node.report()["metrics"] == {"eval_started": 7.0, "eval_version": 7.0, "eval_age_allowed": 500.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"by": "hours"}, "by is 'hours'; it must be one of seconds, updates, env_steps"),
        ({"by": "updates", "every_updates": 0}, "every_updates is 0, by 'updates'; it must be above 0"),
        ({"by": "env_steps"}, "every_env_steps is 0, by 'env_steps'; it must be above 0 if and only if"),
        ({"every_env_steps": 9}, "every_env_steps is 9, by 'default'; it must be above 0 if and only if"),
        ({"every_s": -1.0}, "every_s is -1.0, .* at least 0"),
        ({"every_s": math.nan}, "every_s is nan, .* finite"),
        ({"max_share": 0.0}, "max_share is 0.0; it must be above 0 and at most 1"),
        ({"episodes": 0}, "episodes is 0; it must be at least 1"),
        ({"max_age": 0}, "max_age is 0; it must be at least 1, or none"),
        ({"max_steps": 0}, "max_steps is 0; it must be at least 1, or none"),
    ],
)
def test_what_cannot_work_is_refused(settings, message):
    """By the one value that nodes and command line share."""
    with pytest.raises(ValueError, match=rf"evaluation\.{message}"):
        Probe(**settings)


def test_a_node_takes_every_field_and_has_its_defaults():
    """Whoever adds a field to the value adds it to the node."""
    found = parameters(Evaluating)
    for field in dataclasses.fields(Evaluation):
        assert found[field.name].default == field.default, field.name
    settings = {"episodes": 3, "by": "updates", "every_s": 4.0, "every_updates": 5, "deterministic": True}
    settings |= {"max_share": 0.5, "max_age": 6, "max_steps": 7}
    assert Probe(**settings)._evaluation == Evaluation(**settings)


def test_results_have_one_name_each_however_they_are_computed():
    """Those of a host, whose version is known, and those of a device."""
    found = as_metrics(mean=1.0, error=0.5, least=-1.0, cut=0.0, version=7.0)
    values = {"eval_return": 1.0, "eval_return_se": 0.5, "eval_return_min": -1.0, "eval_cut": 0.0, "eval_version": 7.0}
    assert found == values and as_metrics(mean=0.0) == {"eval_return": 0.0}
    tiny_agent = agent()
    params = tiny_agent.update.params(tiny_agent.update.init(jax.random.PRNGKey(0)))
    for episodes, missing in ((4, set()), (1, {"eval_return_se"})):
        played = stage.play(ENV, tiny_agent.eval_policy, params, episodes, 9, jax.random.PRNGKey(1))
        assert set(played) == set(values) - {"eval_version"} - missing


def test_a_fused_program_counts_updates_unless_asked_otherwise():
    assert Evaluation(every_updates=7).in_updates(env_steps=50.0) == 7 and NONE.in_updates(50.0) == 0
    by_steps = Evaluation(by="env_steps", every_env_steps=1_020)
    assert by_steps.in_updates(env_steps=50.0) == 20 and by_steps.in_updates(5_000.0) == 1
    with pytest.raises(ValueError, match="evaluation.by is 'seconds'; a fused program counts 'updates' or 'env_steps'"):
        Evaluation(by="seconds").in_updates(50.0)


def test_of_each_slot_the_first_episode_counts():
    finished = [[Episode(0, 1.0, 1)], [Episode(0, 9.0, 1), Episode(1, 2.0, 2)]]
    play = mock.Mock(env=mock.Mock(num_envs=2, episodes=lambda: finished.pop(0)))
    play.timestep.reward = np.zeros(2)
    assert play_out(play, (), max_steps=5) == EvalEpisodes([1.0, 2.0], 0, {})
