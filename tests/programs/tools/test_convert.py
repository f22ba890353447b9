"""Data sets of other formats become archives, and agents learn from these."""

from __future__ import annotations

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer

from boonta.agents import dqn
from boonta.agents.tables import from_archives
from boonta.envs.gymnasium import Gymnasium
from boonta.nodes import metrics
from boonta.nodes.archive.files import open_archive, read
from boonta.nodes.archive.reanalyzer import replayed_shapes
from boonta.programs import unplugged
from boonta.programs.tools import convert
from boonta.programs.wiring import launch
from boonta.programs.wiring.archived import env_of_archive
from boonta.programs.wiring.environments import make_env
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers.archives import signature, trajectory
from boonta.tests.helpers.countdown import Countdown, countdown
from boonta.tests.helpers.datasets import record

pytestmark = [pytest.mark.unoptimised, pytest.mark.filterwarnings("ignore::UserWarning")]  # Minari asks for authors.


@pytest.fixture(autouse=True)
def _root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def two_episodes(name: str, **changed) -> None:
    """A data set of CartPole whose numbers are made up: one episode that terminated, and one that was truncated."""
    no, view = [False, False], np.arange(1, 13, dtype=np.float32).reshape(3, 4) / 10
    one = {"actions": [1, 0], "rewards": [1.0, 2.0], "terminations": [False, True], "truncations": no}
    two = {"actions": [0, 1], "rewards": [3.0, 4.0], "terminations": no, "truncations": [False, True], **changed}
    minari.create_dataset_from_buffers(
        name, [EpisodeBuffer(observations=view, **each) for each in (one, two)], env="CartPole-v1"
    )


def test_a_data_set_becomes_an_archive_of_its_environment(tmp_path, capsys):
    two_episodes("made/up-v0")
    convert.convert("made/up-v0", tmp_path / "data")
    shown = capsys.readouterr().out
    assert "2 complete episodes, of mean return 5, and 0 pieces of others; in all 6 steps, in 1 chunks" in shown
    env = env_of_archive(tmp_path / "data")
    assert env == Gymnasium("CartPole-v1") == make_env("gymnasium/CartPole-v1")
    agent = from_archives(dqn.make(dqn.CARTPOLE, env.spec))
    one, two = read(open_archive(tmp_path / "data", env, replayed_shapes(agent, env.spec)))
    assert one.observation[2].tolist() == pytest.approx([0.9, 1.0, 1.1, 1.2])
    assert one.step_type.tolist() == two.step_type.tolist() == [0, 1, 2]
    assert one.action.tolist() == [1, 0, 0] and two.action.tolist() == [0, 1, 1]
    assert one.reward.tolist() == [0.0, 1.0, 2.0] and two.reward.tolist() == [0.0, 3.0, 4.0]
    assert one.discount.tolist() == [1.0, 1.0, 0.0] and two.discount.tolist() == [1.0, 1.0, 1.0]


def test_a_data_set_with_action_masks(tmp_path):
    record("masked-v0", Countdown(), 2, action=1)
    convert.convert("masked-v0", tmp_path / "data", env="boonta.tests.helpers.countdown:countdown")
    shapes = signature(trajectory(0, env=countdown())._replace(extras=()))
    opened = open_archive(tmp_path / "data", countdown(), shapes)
    assert opened.index.episodes == 2
    for steps in read(opened):
        assert steps.observation.legal[0].tolist() == [True] * 3 and (np.diff(steps.observation.view[:, 0]) == -1).all()


def test_what_can_not_be_converted_leaves_nothing(tmp_path):
    two_episodes("broken-v0", rewards=[3.0, float("nan")])
    with pytest.raises(ValueError, match="episode 1: reward of step 1 is nan"):
        convert.convert("broken-v0", tmp_path / "data")
    two_episodes("whole-v0")
    with pytest.raises(ValueError, match=r"'whole-v0': 'observation' is float32\[4\]; it must be float32\[10, 5\]"):
        convert.convert("whole-v0", tmp_path / "data", env="catch")
    assert not (tmp_path / "data").exists()
    (tmp_path / "rlds").mkdir()
    for file in ("features.json", "dataset_info.json"):
        (tmp_path / "rlds" / file).touch()
    with pytest.raises(BadInput, match="rlds' doesn't name its environment; give it with --env"):
        convert.convert(str(tmp_path / "rlds"), tmp_path / "data")


def test_an_archive_that_is_there_stays_as_it_was(tmp_path, monkeypatch, capsys):
    two_episodes("whole-v0")
    convert.convert("whole-v0", tmp_path / "data")
    held = {file: file.read_bytes() for file in (tmp_path / "data").iterdir()}
    monkeypatch.setattr("sys.argv", ["convert", "whole-v0", "--out", str(tmp_path / "data")])
    with pytest.raises(SystemExit) as ended:
        convert.main()
    assert ended.value.code == 2 and "is not an empty folder" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in (tmp_path / "data").iterdir()} == held


@pytest.mark.once
def test_dqn_learns_from_it_without_an_actor(tmp_path):
    record("cartpole/random-v0", gymnasium.make("CartPole-v1"), 60)
    convert.convert("cartpole/random-v0", tmp_path / "data")
    small = ["--config.torso.widths=16", "--config.head-width=16", "--config.replay.min-size=200"]
    flags = ["--data", str(tmp_path / "data"), "--workdir", str(tmp_path / "run"), "--launch", "sebulba"]
    with pytest.raises(SystemExit) as ended:
        launch.main(unplugged.unplugged, [*flags, "--stop.updates", "300", "config:dqn-cartpole", *small])
    assert ended.value.code == 0
    last = metrics.read(tmp_path / "run")[-1]
    assert last["updates"] >= 300 and last["reanalyzed_sequences"] >= 200 and "env_steps" not in last
