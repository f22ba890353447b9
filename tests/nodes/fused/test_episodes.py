"""What a fused program measures of episodes besides their returns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Policy
from boonta.envs.jax.catch import Catch
from boonta.nodes.fused import fusion, stage
from boonta.nodes.fused.episodes import Recent
from boonta.nodes.fused.learners import EvaluationResult
from boonta.nodes.fused.population import _rows, _summarise
from boonta.tests.helpers import guess, tiny
from boonta.tests.helpers.jax_guess import Guess

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
KEY = jax.random.PRNGKey(3)


def always(action: int) -> Policy:
    def step(params, key, timestep, state):
        return jnp.full(timestep.step_type.shape, action, jnp.int32), {}, state

    return Policy(lambda slots: (), step)


def test_numbers_of_the_episodes_that_ended_are_summed_as_their_returns_are():
    begun = stage.begin(Guess(), always(0), 8, KEY)
    _, steps, episodes = stage.act(Guess(), always(0), (), jnp.int32(0), begun, 10)
    ended = int(np.sum(np.asarray(steps.step_type) == 2))
    assert 0 < ended < 80 and episodes.number == ended
    assert episodes.metrics["is_success"] == (ended + episodes.returns) / 2
    assert 0 < episodes.metrics["is_success"] < ended  # Some bits are 0, and others are 1.
    assert episodes.metrics["steps"] == episodes.steps == ended * guess.STEPS


def test_a_program_of_an_environment_without_any_has_no_array_more():
    """The fused program of one with two numbers has two more results, of which the slots' state is no part."""
    shapes = []
    for env in (Catch(4, 3), Guess()):
        agent = tiny.make(env.spec)
        fused = fusion.fuse(agent, env, 8)
        state, _ = jax.eval_shape(fused.init, agent.update.init(KEY), 0, KEY)
        after, outcome = jax.eval_shape(fused.rounds, state, 1)
        assert jax.tree.structure(after) == jax.tree.structure(state)
        shapes.append(len(jax.tree.leaves(outcome.episodes)))
        played = jax.eval_shape(lambda env=env: stage.play_out(env, always(0), (), 3, 9, KEY))
        assert set(played.metrics) == set(outcome.episodes.metrics)
    # Besides the sums, NaNs are counted in reward, discount and observation, and the first has a place.
    assert shapes == [4 + 6, 4 + 6 + 2]


def test_evaluations_have_means_over_the_episodes_that_came_to_their_end():
    for action in (0, 1):
        played = stage.play_out(Guess(), always(action), (), 20, 100, KEY)
        np.testing.assert_array_equal(played.metrics["is_success"], played.returns > 0)
        found = stage.play(Guess(), always(action), (), 20, 100, KEY)
        assert found["eval_episode/is_success"] == pytest.approx(float(1 + found["eval_return"]) / 2)
        assert 0 < found["eval_episode/is_success"] < 1
        assert found["eval_episode/steps"] == guess.STEPS
    cut = stage.play(Guess(), always(0), (), 20, 1, KEY)
    assert cut["eval_cut"] == 20 and np.isnan(cut["eval_episode/is_success"])


class Lasting(Guess):
    """Odd streams last twice as long; only what their own end shows counts."""

    def move(self, key, state, action):
        state, reward, _, _ = super().move(key, state, action)
        return state, reward, state.steps == guess.STEPS * (1 + state.bit), False


def test_later_episodes_of_a_slot_and_those_that_are_cut_dont_count():
    played = stage.play_out(Lasting(), always(0), (), 20, 100, KEY)
    assert played.over.all() and set(np.asarray(played.metrics["steps"])) == {guess.STEPS, 2 * guess.STEPS}
    part = stage.play_out(Lasting(), always(0), (), 20, guess.STEPS + 1, KEY)
    np.testing.assert_array_equal(part.over, played.metrics["steps"] == guess.STEPS)
    np.testing.assert_array_equal(part.metrics["steps"], np.where(part.over, guess.STEPS, 0))
    found = stage.play(Lasting(), always(0), (), 20, guess.STEPS + 1, KEY)
    assert 0 < found["eval_cut"] < 20 and found["eval_episode/steps"] == guess.STEPS


def test_the_twin_of_an_environment_gives_the_same():
    batch = Guess()(6, 0)
    batch.reset()
    for _ in range(12):
        batch.step(np.zeros(6, np.int32))
    episodes = batch.episodes()
    assert {episode.episode_return for episode in episodes} == {-1.0, 1.0}
    for episode in episodes:
        assert episode.metrics == {"is_success": (1 + episode.episode_return) / 2, "steps": guess.STEPS}
        assert all(isinstance(value, float) for value in episode.metrics.values())


def test_means_are_of_the_same_last_episodes_as_the_return():
    recent = Recent(fresh=True)
    recent.add(stage.Episodes(90.0, 0.0, 0.0, 180.0, metrics={"is_success": 9.0}))
    both = recent.add(stage.Episodes(60.0, 30.0, 15.0, 120.0, metrics={"is_success": 36.0}))
    assert both["return"] == 0.2 and both["episode/is_success"] == 0.3
    last = recent.add(stage.Episodes(40.0, 10.0, 2.5, 80.0, metrics={"is_success": 24.0}))
    assert last["return_episodes"] == 100.0 and last["episode/is_success"] == 0.6


def test_each_member_of_a_population_has_its_own_and_the_mean_leaves_out_those_without():
    members = [{"seed": 0}, {"seed": 1}]
    episodes = stage.Episodes(*np.array([[4.0, 2.0], [4.0, 0.0], [4.0, 2.0], [8.0, 4.0]]))
    episodes = episodes._replace(metrics={"is_success": np.array([4.0, 1.0])})
    evaluated = {"eval_return": np.array([1.0, 3.0]), "eval_episode/is_success": np.array([np.nan, 0.75])}
    rows = _rows(members, EvaluationResult(evaluated, {}), {}, episodes, 5)
    assert [row["episode/is_success"] for row in rows] == [1.0, 0.5] and rows[1]["eval_episode/is_success"] == 0.75
    found = _summarise({**evaluated, "loss": np.zeros(2)}, [0, 1], 5)
    assert found["eval_return"] == 2.0 and found["eval_episode/is_success"] == 0.75
    nothing = _summarise({"loss": np.zeros(2), "eval_episode/is_success": np.full(2, np.nan)}, [0, 1], 5)
    assert np.isnan(nothing["eval_episode/is_success"])


def test_an_environment_gets_actions_of_its_own_dtype():
    class Typed(Guess):
        def move(self, key, state, action):
            assert action.dtype == self.spec.actions.dtype
            return super().move(key, state, action)

    def step(params, key, timestep, state):
        return jnp.zeros(timestep.step_type.shape, jnp.uint8), {}, state

    policy = Policy(lambda slots: (), step)
    begun = stage.begin(Typed(), policy, 8, KEY)
    stage.act(Typed(), policy, (), jnp.int32(0), begun, 10)
