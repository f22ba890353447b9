"""Data sets in the form of RLDS, whose steps hold the action that follows an observation, and that action's reward."""

from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from boonta.agents import dqn
from boonta.agents.tables import from_archives
from boonta.envs.base import EnvSpec
from boonta.nodes.archive.files import open_archive, read
from boonta.nodes.archive.reanalyzer import replayed_shapes
from boonta.programs.tools import convert
from boonta.programs.tools.datasets import rlds
from boonta.programs.tools.datasets.episodes import to_steps
from boonta.programs.wiring.archived import env_of_archive

SPEC = EnvSpec({"view": specs.Array((2,), np.float32, "view")}, specs.DiscreteArray(3, np.int32, "action"))


def step(t: int, **flags: bool) -> dict[str, object]:
    return {
        "observation": {"view": np.full(2, t, np.float32)},
        "action": np.int64(t % 3),
        "reward": np.float64(t + 0.5),
        "discount": np.float32(0.9),
        **{f"is_{name}": np.bool_(flags.get(name, False)) for name in ("first", "last", "terminal")},
    }


def test_the_last_steps_action_and_reward_mean_nothing():
    recorded = [
        {"steps": iter([step(0, first=True), step(1), step(2, last=True, terminal=True)])},
        {"steps": [step(3, first=True), step(4, last=True)]},
        {"steps": [step(5), step(6)]},
        {"steps": []},
    ]
    first, second, third = (to_steps(episode, SPEC) for episode in rlds.to_episodes(recorded))
    assert first.observation["view"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert first.action.tolist() == [0, 1, 1] and first.reward.tolist() == [0.0, 0.5, 1.5]
    assert first.step_type.tolist() == [0, 1, 2] and first.discount.tolist() == [1.0, 1.0, 0.0]
    assert second.step_type.tolist() == [0, 2] and second.discount.tolist() == [1.0, 1.0]
    assert third.step_type.tolist() == [1, 1] and third.reward.tolist() == [0.0, 5.5]


def test_a_field_that_is_missing_is_named():
    lacking = step(1)
    del lacking["is_terminal"]
    with pytest.raises(ValueError, match="episode 1: a step has no 'is_terminal'; it has observation, action, reward"):
        list(rlds.to_episodes([{"steps": [step(0, first=True)]}, {"steps": [step(0), lacking]}]))


def test_a_data_set_on_disk(tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets", reason="it isn't installed: it is an extra")
    pytest.importorskip("tensorflow")
    flags = {f"is_{name}": np.bool_ for name in ("first", "last", "terminal")}
    fields = {"action": np.int64, "reward": np.float64, "discount": np.float32, **flags}

    class Made(tfds.core.GeneratorBasedBuilder):
        __module__ = "made"  # It looks for files of the package of a module in one.
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            view = tfds.features.Tensor(shape=(4,), dtype=np.float32)
            steps = tfds.features.Dataset({"observation": view, **fields})
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"steps": steps}))

        def _split_generators(self, dl_manager):
            return {name: self._generate_examples(name) for name in ("train", "test")}

        def _generate_examples(self, name):
            steps = [step(0, first=True), step(1), step(2, last=True, terminal=name == "test")]
            views = np.arange(3, dtype=np.float32)[:, None].repeat(4, axis=1)
            yield name, {"steps": [{**each, "observation": view} for each, view in zip(steps, views)]}

    builder = Made(data_dir=tmp_path)
    builder.download_and_prepare()
    assert not rlds.is_on_disk(tmp_path)
    convert.convert(builder.data_dir, tmp_path / "data", env="gymnasium/CartPole-v1")
    env = env_of_archive(tmp_path / "data")
    agent = from_archives(dqn.make(dqn.CARTPOLE, env.spec))
    one, two = read(open_archive(tmp_path / "data", env, replayed_shapes(agent, env.spec)))
    assert sorted([one.discount.tolist(), two.discount.tolist()]) == [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    assert one.observation[:, 3].tolist() == [0.0, 1.0, 2.0] and one.reward.tolist() == [0.0, 0.5, 1.5]
