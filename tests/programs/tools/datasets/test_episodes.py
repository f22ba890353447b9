"""Episodes of any data set as rows of an archive, whose numbers are made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from boonta.envs.base import EnvSpec
from boonta.envs.catch import Catch
from boonta.envs.gymnasium import Gymnasium
from boonta.programs.tools.datasets.episodes import Episode, require_same, to_steps, write
from boonta.tests.helpers.archives import by_chance

SPEC = EnvSpec(specs.Array((2,), np.float32, "observation"), specs.DiscreteArray(3, np.int32, "action"))
VIEW = np.arange(8.0).reshape(4, 2)


def episode(**changed) -> Episode:
    whole = Episode(
        observation=VIEW,
        action=np.array([2, 0, 1]),
        reward=np.array([0.5, -1.0, 2.0]),
        terminated=np.array([False, False, True]),
        truncated=np.zeros(3, bool),
    )
    return whole._replace(**changed)


def test_rewards_and_discounts_are_in_the_row_that_the_action_led_to():
    steps = to_steps(episode(), SPEC)
    assert steps.observation.tolist() == VIEW.tolist()
    assert steps.action.tolist() == [2, 0, 1, 1]
    assert steps.reward.tolist() == [0.0, 0.5, -1.0, 2.0]
    assert steps.discount.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert steps.step_type.tolist() == [0, 1, 1, 2]
    assert steps.version.tolist() == [0] * 4 and steps.extras == steps.core == ()
    assert {leaf.dtype.name for leaf in (steps.observation, steps.reward, steps.discount)} == {"float32"}
    assert {leaf.dtype.name for leaf in (steps.action, steps.step_type, steps.version)} == {"int32"}


@pytest.mark.parametrize(
    ("changed", "step_type", "discount"),
    [
        ({"terminated": [0, 0, 0], "truncated": [0, 0, 1]}, [0, 1, 1, 2], 1.0),
        ({"terminated": [0, 0, 1], "truncated": [0, 0, 1]}, [0, 1, 1, 2], 0.0),
        ({"terminated": [0, 0, 0]}, [0, 1, 1, 1], 1.0),
        ({"begun": False}, [1, 1, 1, 2], 0.0),
    ],
)
def test_ends(changed, step_type, discount):
    steps = to_steps(episode(**changed), SPEC)
    assert steps.step_type.tolist() == step_type and steps.discount.tolist() == [1.0, 1.0, 1.0, discount]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reward": [0.5, np.nan, 2.0]}, "reward of step 1 is nan; it must be a number"),
        ({"reward": [0.5, 2.0]}, r"observation has shape \(4, 2\); it must be \(3, 2\)"),
        ({"observation": np.where(VIEW == 5, np.nan, VIEW)}, "observation of step 2 is nan"),
        ({"observation": {"view": VIEW}}, "it has no 'observation'; it has observation/view"),
        ({"action": [0, 3, 1]}, "action of step 1 is 3; it must be from 0 to 2"),
        ({"action": [0.0, 1.0, 2.0]}, "action is of float64; it must be of int32"),
        ({"terminated": [False, True, True]}, "step 1 ended it, but it has 3 steps"),
    ],
)
def test_what_does_not_fit_is_named_with_its_step(changed, message):
    with pytest.raises(ValueError, match=message):
        to_steps(episode(**changed), SPEC)


def test_integers_that_the_spec_s_type_has_not_are_refused():
    spec = SPEC._replace(observations=specs.Array((2,), np.int32, "observation"))
    values = VIEW.astype(np.int64)
    assert to_steps(episode(observation=values), spec).observation.tolist() == values.tolist()
    values[1, 0] = 2**31
    with pytest.raises(ValueError, match="observation of step 1 is 2147483648; it must be from -2147483648 to 21474"):
        to_steps(episode(observation=values), spec)


def test_real_actions_are_clipped_and_leaves_that_nobody_wants_left_out():
    spec = EnvSpec({"a": SPEC.observations}, specs.BoundedArray((), np.float32, -1.0, 1.0, "action"))
    steps = to_steps(episode(observation={"a": VIEW, "b": VIEW}, action=[-2.0, 0.5, 3.0]), spec)
    assert list(steps.observation) == ["a"] and steps.action.tolist() == [-1.0, 0.5, 1.0, 1.0]


def test_a_folder_is_an_archive_or_is_not_there(tmp_path):
    catch = Catch()
    episodes = [
        Episode(steps.observation, steps.action[:-1], steps.reward[1:], steps.step_type[1:] == 2, np.zeros(9))
        for steps in by_chance(3)
    ]
    bad = episodes[2]._replace(reward=np.full(9, np.nan))
    none = Episode(np.zeros((1, 10, 5)), [], [], [], [])
    with pytest.raises(ValueError, match="episode 3: reward of step 0 is nan"):
        write(tmp_path / "data", catch, [none, *episodes[:2], bad])
    assert not list(tmp_path.iterdir())
    (tmp_path / "data").mkdir()  # An empty folder is taken.
    index = write(tmp_path / "data", catch, [none, *episodes])
    assert (index.episodes, index.steps) == (3, 30) and (tmp_path / "data" / "index.json").is_file()
    held = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="data is not an empty folder; an archive needs one of its own"):
        write(tmp_path / "data", catch, episodes)
    with pytest.raises(ValueError, match="^there is no trajectory to archive"):
        write(tmp_path / "empty", catch, [none])
    assert sorted(tmp_path.rglob("*")) == held


def test_the_environment_must_be_like_the_data_set():
    require_same("it", SPEC, SPEC)
    with pytest.raises(ValueError, match=r"it: 'observation' is float32\[2\]; it must be float32\[4\]"):
        require_same("it", SPEC, Gymnasium("CartPole-v1").spec)
    with pytest.raises(ValueError, match="it has 3 actions; the environment has 2"):
        require_same("it", SPEC, SPEC._replace(actions=specs.DiscreteArray(2, np.int32, "action")))
