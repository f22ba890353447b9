import dm_env
import numpy as np
import pytest
from dm_env import specs

from boonta.envs import base
from boonta.envs.looped import LoopedEnv


class Countdown(dm_env.Environment):
    """Shows `start`, `start - 1`, … 0; the reward is the action."""

    def __init__(self, start: int):
        self.start = self.left = start
        self.closed = False

    def reset(self):
        self.left = self.start
        return dm_env.restart(self._observation())

    def step(self, action):
        self.left -= 1
        if self.left == 0:
            return dm_env.termination(float(action), self._observation())
        return dm_env.transition(float(action), self._observation())

    def _observation(self):
        return {"left": np.float64(self.left), "board": np.full((2,), self.left)}

    def observation_spec(self):
        return SPEC.observations

    def action_spec(self):
        return SPEC.actions

    def close(self):
        self.closed = True


SPEC = base.EnvSpec(
    observations={"left": specs.Array((), np.float32), "board": specs.Array((2,), np.int64)},
    actions=specs.DiscreteArray(5, np.int32),
)


def test_looped_env_resets_each_slot_after_its_own_last():
    env = LoopedEnv([Countdown(1), Countdown(2)], SPEC)
    steps = [env.reset()] + [env.step(np.array([3, 4])) for _ in range(4)]
    assert [step.step_type.tolist() for step in steps] == [[0, 0], [2, 1], [0, 2], [2, 0], [0, 1]]
    assert [step.reward.tolist() for step in steps] == [[0, 0], [3, 4], [0, 4], [3, 0], [0, 4]]
    assert [step.discount.tolist() for step in steps] == [[1, 1], [0, 1], [1, 0], [0, 1], [1, 1]]
    assert [step.observation["left"].tolist() for step in steps] == [[1, 2], [0, 1], [1, 0], [0, 2], [1, 1]]
    assert env.episodes() == [base.Episode(0, 3.0, 1), base.Episode(1, 8.0, 2), base.Episode(0, 3.0, 1)]
    assert env.episodes() == []


class Growing(Countdown):
    def _observation(self):
        return {"left": np.float64(self.left), "board": np.full((self.start - self.left + 2,), self.left)}


def test_an_observation_of_another_shape_is_named_with_its_slot():
    env = LoopedEnv([Countdown(3), Growing(3)], SPEC)
    env.reset()
    with pytest.raises(ValueError, match=r"as its spec says: board of slot 1 has the shape \[3\]; it must be \[2\]"):
        env.step(np.array([0, 0]))


def test_looped_env_takes_the_dtypes_of_its_spec():
    step = LoopedEnv([Countdown(3)], SPEC).reset()
    assert step.observation["left"].dtype == np.float32
    assert step.observation["board"].dtype == np.int64
    assert (step.step_type.dtype, step.reward.dtype, step.discount.dtype) == (np.int32, np.float32, np.float32)


def test_looped_env_forgets_the_running_episode_on_reset():
    env = LoopedEnv([Countdown(2)], SPEC)
    env.reset()
    env.step(np.array([4]))
    env.reset()
    for _ in range(2):
        env.step(np.array([1]))
    assert env.episodes() == [base.Episode(0, 2.0, 2)]


@pytest.mark.parametrize(
    ("board", "message"),
    [
        (np.array([1, -1]), "board has -1, which uint8 doesn't hold"),
        (np.array([1, 256]), "board has 256, which uint8 doesn't hold"),
        (np.array([1.0, 0.5]), "board has 0.5, which uint8 doesn't hold"),
        (np.array([1.0, np.nan]), "board has nan, which uint8 doesn't hold"),
    ],
    ids=["negative", "large", "fraction", "nan"],
)
def test_looped_env_refuses_numbers_that_its_spec_does_not_hold(board, message):
    class Boards(Countdown):
        def _observation(self):
            return board

    spec = SPEC._replace(observations=specs.Array((2,), np.uint8, "board"))
    with pytest.raises(ValueError, match=message):
        LoopedEnv([Boards(1)], spec).reset()


def test_looped_env_takes_other_dtypes_whose_numbers_its_spec_holds():
    class Boards(Countdown):
        def _observation(self):
            return np.array([0, 255.0])

    spec = SPEC._replace(observations=specs.Array((2,), np.uint8, "board"))
    observation = LoopedEnv([Boards(1)], spec).reset().observation
    assert observation.dtype == np.uint8 and observation.tolist() == [[0, 255]]


def test_looped_env_closes_its_environments():
    envs = [Countdown(1), Countdown(1)]
    LoopedEnv(envs, SPEC).close()
    assert all(env.closed for env in envs)


class Drawn(Countdown):
    steps_per_s = 20.0

    def render(self):
        return np.full((2, 3, 3), self.left, np.uint8)


def test_looped_env_draws_slots_that_all_draw_themselves():
    env = LoopedEnv([Drawn(1), Drawn(2)], SPEC)
    assert env.render().shape == (2, 2, 3, 3) and env.render()[:, 0, 0, 0].tolist() == [1, 2]
    assert env.steps_per_s == 20.0
    assert LoopedEnv([Drawn(1), Countdown(2)], SPEC).render() is None
    assert LoopedEnv([Countdown(2)], SPEC).steps_per_s is None


class Rewarded(Countdown):
    """Its rewards are arrays."""

    def __init__(self, reward):
        super().__init__(3)
        self.reward = reward

    def step(self, action):
        return super().step(action)._replace(reward=self.reward)


def test_a_reward_may_be_an_array_of_one_number():
    env = LoopedEnv([Rewarded(np.array([0.5])), Rewarded(np.array(2.0))], SPEC)
    env.reset()
    assert env.step(np.array([0, 0])).reward.tolist() == [0.5, 2.0]


def test_rewards_and_observations_of_another_form_are_named():
    env = LoopedEnv([Rewarded(np.array([0.5, 1.0]))], SPEC)
    env.reset()
    with pytest.raises(ValueError, match=r"the environment's reward has the shape \[2\]; it must be one number"):
        env.step(np.array([0]))
    other = SPEC._replace(observations=[SPEC.observations["board"]])
    with pytest.raises(ValueError, match="the environment's observations are not as its spec says: .*structure"):
        LoopedEnv([Countdown(1)], other).reset()
