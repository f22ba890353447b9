"""Minari's data sets: what is in them, and what can't be taken."""

from __future__ import annotations

import json
import sys

import ale_py
import gymnasium
import minari
import numpy as np
import pytest
from gymnasium.wrappers import FlattenObservation, RecordEpisodeStatistics

from boonta.envs.gymnasium import Gymnasium
from boonta.programs.tools.datasets import minari as datasets
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers.countdown import Countdown, Stuck, countdown
from boonta.tests.helpers.datasets import Everything, record

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Minari asks for authors.


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def test_the_environment_is_the_recorded_one_with_what_was_unusual():
    record("plain-v0", RecordEpisodeStatistics(gymnasium.make("CartPole-v1", render_mode="rgb_array")), 1)
    assert datasets.MinariDataset("plain-v0").env() == Gymnasium("CartPole-v1")
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=7)
    record("lake-v0", lake, 2)
    dataset = datasets.MinariDataset("lake-v0")
    assert dataset.env() == Gymnasium("FrozenLake-v1", {"is_slippery": False, "max_episode_steps": 7})
    record("endless-v0", gymnasium.make("CartPole-v1", max_episode_steps=-1), 1)
    assert datasets.MinariDataset("endless-v0").env() == Gymnasium("CartPole-v1", {"max_episode_steps": -1})
    dataset.require(dataset.env())
    with pytest.raises(ValueError, match="data set 'lake-v0': 'observation' is int32"):
        dataset.require(Gymnasium("CartPole-v1"))


def test_what_a_package_registers_is_found_in_other_processes_too():
    gymnasium.register_envs(ale_py)
    record("pong-v0", gymnasium.make("ALE/Pong-v5", frameskip=2, max_episode_steps=3), 1)
    dataset = datasets.MinariDataset("pong-v0")
    env = dataset.env()
    assert env == Gymnasium("ale_py:ALE/Pong-v5", {"frameskip": 2, "max_episode_steps": 3})
    dataset.require(env)
    assert next(dataset.episodes()).observation.shape == (4, 210, 160, 3)


def test_all_spaces_are_those_of_the_environments_adapter():
    minari_set = record("all-v0", Everything(), 1)
    dataset = datasets.MinariDataset("all-v0")
    env = Gymnasium(Everything)
    dataset.require(env)
    (episode,) = dataset.episodes()
    played = env(1, 0)
    timesteps = [played.reset()]
    for action in episode.action:
        timesteps.append(played.step(action[None].astype(np.int32)))
    for t, timestep in enumerate(timesteps):
        assert timestep.observation["where"][0] == episode.observation["where"][t]
        for i in range(2):
            np.testing.assert_array_equal(timestep.observation["both"][i][0], episode.observation["both"][i][t])
            assert timestep.observation["dials"][i][0] == episode.observation["dials"][i][t]
    assert [timestep.reward[0] for timestep in timesteps[1:]] == episode.reward.tolist()
    np.testing.assert_array_equal(minari_set[0].actions - [1, 5], episode.action)
    assert episode.truncated.tolist() == [False, False, True] and not episode.terminated.any()


def test_an_action_mask_is_as_the_adapter_has_it():
    record("masked-v0", Countdown(), 2, action=1)
    dataset = datasets.MinariDataset("masked-v0")
    dataset.require(countdown())
    for episode in dataset.episodes():
        view, legal, player = episode.observation
        assert [n.tolist() for n in legal[:-1]] == [[left >= n for n in (1, 2, 3)] for left in view[:-1, 0]]
        assert legal[-1].all() and view[-1] == 0 and player.tolist() == [0] * len(view)
    record("stuck-v0", Stuck(), 1, action=1)
    with pytest.raises(BadInput, match="'stuck-v0', episode 0: the environment's action_mask allows no action"):
        list(datasets.MinariDataset("stuck-v0").episodes())


def refusal(name: str) -> str:
    with pytest.raises(BadInput) as refused:
        datasets.MinariDataset(name).env()
    return str(refused.value)


def test_names(root, tmp_path_factory):
    assert f"data set 'x-v0' is not on this machine: there is none in {root}. `minari download`" in refusal("x-v0")
    record("mine/cartpole/random-v0", gymnasium.make("CartPole-v1"), 1)
    assert "did you mean 'mine/cartpole/random-v0'?" in refusal("mine/cartpol/random-v1")
    for folder in (root / "mine" / "cartpole" / "random-v0", root / "mine" / "cartpole" / "random-v0" / "data"):
        assert datasets.MinariDataset(str(folder)).env() == Gymnasium("CartPole-v1")


def test_environments_that_have_to_be_given(root):
    record("none-v0", Everything(), 1)
    assert refusal("none-v0") == "data set 'none-v0' doesn't name its environment; give it with --env"
    record("wrapped-v0", FlattenObservation(gymnasium.make("CartPole-v1")), 1)
    assert "was recorded in CartPole-v1 with the wrappers FlattenObservation; give" in refusal("wrapped-v0")
    record("old-v0", gymnasium.make("CartPole-v1"), 1)
    change(root / "old-v0", lambda text: text.replace("CartPole-v1", "CartPoles-v1"))
    assert "was recorded in 'CartPoles-v1'" in refusal("old-v0") and "CartPole-v1" in refusal("old-v0")
    change(root / "old-v0", lambda text: text.replace("CartPoles-v1", "antigravity:CartPole-v1"))
    assert "its name has a module" in refusal("old-v0") and "antigravity" not in sys.modules


def change(folder, changed) -> None:
    file = folder / "data" / "metadata.json"
    file.write_text(changed(file.read_text()))


def test_what_can_not_be_read(root, monkeypatch):
    words, choices = gymnasium.spaces.Dict(words=gymnasium.spaces.Text(3)), gymnasium.spaces.Discrete(2)
    minari.create_dataset_from_buffers("words-v0", [], observation_space=words, action_space=choices)
    assert "data set 'words-v0': space of observation.words is Text" in refusal("words-v0")
    record("damaged-v0", gymnasium.make("CartPole-v1"), 2)
    (root / "damaged-v0" / "data" / "main_data.hdf5").write_bytes(b"no HDF5")
    with pytest.raises(BadInput, match="data set 'damaged-v0' can't be read: OSError"):
        list(datasets.MinariDataset("damaged-v0").episodes())
    change(root / "damaged-v0", lambda text: json.dumps({**json.loads(text), "minari_version": "9.0"}))
    assert "can't be read: ValueError: The installed Minari version" in refusal("damaged-v0")
    change(root / "damaged-v0", lambda text: json.dumps({"env_spec": json.loads(text)["env_spec"]}))
    assert "can't be read: ValueError: its metadata.json has no spaces" in refusal("damaged-v0")
    monkeypatch.setitem(sys.modules, "minari", None)
    assert "needs Minari: pip install 'boonta-rl[minari]'" in refusal("damaged-v0")
