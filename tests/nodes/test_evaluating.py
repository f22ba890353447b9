"""Nodes that evaluate: when they do, and what the learner and the monitor hear of it."""

from __future__ import annotations

import pytest

from boonta.nodes.evaluating import Evaluating


class Params:
    """Has params once the learner has published any."""

    published = True

    def poll(self, timeout_s):
        return True if self.published else None


class Probe(Evaluating):
    """Counts its evaluations."""

    def __init__(self, **settings):
        super().__init__("evaluator", **settings)
        self.rounds = 0
        self._params = Params()

    def round(self):
        self.finish(self.begin(self.rounds), {"eval_return": 1.0})
        self.rounds += 1


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
    began = node.begin(7)
    assert node.report()["metrics"] == {"eval_started": 7.0}
    node.finish(began, {"eval_version": 7.0})
    assert node.report()["metrics"] == {"eval_started": 7.0, "eval_version": 7.0, "eval_age_allowed": 500.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"by": "hours"}, "by is 'hours'; it must be one of seconds, updates, env_steps"),
        ({"by": "updates", "every_updates": 0}, "every_updates 0, .* above 0"),
        ({"by": "env_steps"}, "every_env_steps 0, by env_steps; .* above 0"),
        ({"every_s": -1.0}, "every_s is -1.0, .* at least 0"),
        ({"max_age": 0}, "max_age is 0; it must be at least 1, or none"),
    ],
)
def test_what_cannot_work_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Probe(**settings)
