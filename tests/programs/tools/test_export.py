"""A run's replay becomes an archive."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

from boonta.envs.base import FIRST, LAST
from boonta.nodes.archive import files as archive

pytestmark = [pytest.mark.cluster, pytest.mark.unoptimised]
pytest.importorskip("launchpad")
from boonta.nodes.acting.local import step_shapes  # noqa: E402
from boonta.nodes.tables.reverb import recorded as reading  # noqa: E402
from boonta.nodes.tables.reverb.recorded import newest_checkpoints, recorded  # noqa: E402
from boonta.programs import muzero  # noqa: E402
from boonta.programs.tools import export, play  # noqa: E402
from boonta.programs.wiring import launch, run  # noqa: E402
from boonta.programs.wiring.machine import network  # noqa: E402
from boonta.programs.wiring.run_folder import folder  # noqa: E402
from boonta.tests.helpers import tiny_program  # noqa: E402
from boonta.tests.helpers.deadline import DEADLINE_S  # noqa: E402
from boonta.tests.helpers.namespaces import can_unshare  # noqa: E402

TINY = {
    "num-simulations": 2,
    "search": "puct",
    "consistency-cost": 0,
    "torso.widths": 8,
    "head-width": 8,
    "replay.min-size": 8,
    "replay.batch-size": 4,
    "replay.samples-per-insert": 1,
}


def make_run(folder, *arguments: str, program=muzero.muzero):
    with pytest.raises(SystemExit) as ended:
        launch.main(program, ["--workdir", str(folder), "--launch", "serial", "--stop.updates", "6", *arguments])
    assert ended.value.code == 0
    return folder


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A short run of MuZero on Catch."""
    settings = [part for name, value in TINY.items() for part in (f"--config.{name}", str(value))]
    return make_run(tmp_path_factory.mktemp("run"), "--num-envs", "4", *settings)


def test_every_episode_is_exported_whole_and_once(run_folder, tmp_path, capsys):
    export.export(run_folder, tmp_path / "data")
    agent, env = play.agent_and_env(run_folder)
    opened = archive.open_archive(tmp_path / "data", env, step_shapes(agent, env.spec))
    trajectories = list(archive.read(opened))
    episodes = [trajectory for trajectory in trajectories if archive.complete(trajectory)]
    assert len(episodes) == opened.index.episodes >= 4
    for episode in episodes:
        assert_played_by_the_rules(episode)
    # All slots have been stepped as often, so the last episodes are cut where the last sequences end.
    table = agent.tables[0]
    number = len(list(recorded(newest_checkpoints(run_folder / "replay")[0], table, step_shapes(agent, env.spec))))
    per_slot = table.sequence_length + (number // 4 - 1) * table.period
    left = per_slot % 10
    assert opened.index.episodes == 4 * (per_slot // 10)
    assert opened.index.trajectories - opened.index.episodes == (4 if left > 1 else 0)
    mean = np.mean([episode.reward.sum() for episode in episodes])
    assert opened.index.mean_return == pytest.approx(mean)
    assert f"{len(episodes)} complete episodes, of mean return {mean:.4g}" in capsys.readouterr().out


def test_the_parts_of_several_replay_servers_are_one_archive(run_folder, tmp_path):
    divided = tmp_path / "divided"
    shutil.copytree(run_folder, divided)
    checkpoint = newest_checkpoints(divided / "replay")[0]
    for i in range(2):
        shutil.copytree(checkpoint, divided / "replay" / f"{i}_of_2" / checkpoint.name)
    shutil.rmtree(checkpoint)
    one, two = export.archive(run_folder, tmp_path / "one"), export.archive(divided, tmp_path / "two")
    assert (two.episodes, two.steps) == (2 * one.episodes, 2 * one.steps) and one.episodes > 0


def assert_played_by_the_rules(episode) -> None:
    """The recorded actions, played again from the recorded beginning, lead to the recorded observations."""
    assert episode.step_type.tolist() == [FIRST] + [1] * 8 + [LAST]
    ball = episode.observation[0, 0].argmax()
    paddle = episode.observation[0, -1].argmax()
    for t in range(1, 10):
        paddle = np.clip(paddle + episode.action[t - 1] - 1, 0, 4)
        expected = np.zeros((10, 5))
        expected[t, ball] = expected[9, paddle] = 1
        np.testing.assert_array_equal(episode.observation[t], expected)
    assert episode.reward.tolist() == [0.0] * 9 + [1.0 if ball == paddle else -1.0]


def test_a_table_is_read_once_through_in_order_and_its_checkpoint_left_alone(run_folder):
    checkpoint = newest_checkpoints(run_folder / "replay")[0]
    files = {path: path.read_bytes() for path in checkpoint.iterdir()}
    agent, env = play.agent_and_env(run_folder)
    signature = step_shapes(agent, env.spec)
    first, again = (list(recorded(checkpoint, agent.tables[0], signature)) for _ in range(2))
    keys = [sequence.extras.policy.tobytes() for sequence in first]
    assert len(set(keys)) == len(keys) >= 8 + 4
    assert [sequence.extras.policy.tobytes() for sequence in again] == keys
    assert {path: path.read_bytes() for path in checkpoint.iterdir()} == files


def test_a_sequence_that_does_not_come_is_not_waited_for_without_end(run_folder, monkeypatch):
    """As where whoever reaches the server draws from the table, too."""
    monkeypatch.setattr(reading, "DRAW_DEADLINE_S", 1.0)
    write_as_queue = reading._write_as_queue
    monkeypatch.setattr(reading, "_write_as_queue", lambda *arguments: write_as_queue(*arguments) + 1)
    agent, env = play.agent_and_env(run_folder)
    with pytest.raises(TimeoutError, match=f"table '{agent.tables[0].name}' gave no sequence within 1 s"):
        list(recorded(newest_checkpoints(run_folder / "replay")[0], agent.tables[0], step_shapes(agent, env.spec)))


def test_the_command_serves_the_table_to_nobody_else_or_refuses(run_folder, tmp_path, monkeypatch, capsys):
    command = ["export", str(run_folder), "--out", str(tmp_path / "data")]
    monkeypatch.setattr("sys.argv", command)
    monkeypatch.setenv(network.GOT, f"{network.REFUSED}no namespace, and no library")
    with pytest.raises(SystemExit, match="2"):
        export.main()
    message = capsys.readouterr().err
    assert "can't be kept from the network: no namespace, and no library" in message and "--network open" in message
    assert not (tmp_path / "data").exists()
    monkeypatch.setattr("sys.argv", [*command, "--network", "open"])
    export.main()
    assert (tmp_path / "data" / "index.json").exists()


def test_only_where_a_server_is_needed_the_network_matters(run_folder, tmp_path, monkeypatch, capsys):
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_bytes((run_folder / "config.json").read_bytes())
    monkeypatch.setenv(network.GOT, f"{network.REFUSED}no namespace, and no library")
    monkeypatch.setattr("sys.argv", ["export", str(bare), "--out", str(tmp_path / "data")])
    with pytest.raises(SystemExit, match="2"):
        export.main()
    assert "has no replay checkpoint" in capsys.readouterr().err


ISOLATED = """
import os, sys
from boonta.programs.tools import export
write_archive = export.write_archive
def told(*arguments):
    print("within", os.environ["BOONTA_NETWORK"])
    return write_archive(*arguments)
export.write_archive = told
sys.argv = ["export", *sys.argv[1:]]
export.main()
"""


@pytest.mark.skipif(not can_unshare() and shutil.which("cc") is None, reason="needs namespaces or a C compiler")
def test_the_process_of_the_command_gets_a_network_of_its_own(run_folder, tmp_path):
    command = [sys.executable, "-c", ISOLATED, str(run_folder), "--out", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first in (f"within {network.PRIVATE}", f"within {network.LOOPBACK}")
    assert last.endswith(str(tmp_path / "data")) and (tmp_path / "data" / "index.json").exists()


def test_runs_that_can_not_be_exported(run_folder, tmp_path, monkeypatch):
    out = tmp_path / "data"
    with pytest.raises(run.BadInput, match="holds no run"):
        export.export(tmp_path / "nowhere", out)
    with folder.lock(run_folder), pytest.raises(run.BadInput, match="is in use by another process"):
        export.export(run_folder, out)
    out.mkdir()
    (out / "other").touch()
    with pytest.raises(ValueError, match="data is not an empty folder; an archive needs one of its own"):
        export.export(run_folder, out)
    assert not (tmp_path / "nowhere").exists()
    monkeypatch.setattr(export, "stitch", fail_late)
    with pytest.raises(ValueError, match="checkpoint ends too soon"):
        export.export(run_folder, tmp_path / "half")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def fail_late(sequences, overlap):
    """Yields a trajectory, then fails, as where a checkpoint is damaged."""
    yield next(iter(sequences))
    raise ValueError("the checkpoint ends too soon")


def test_a_run_with_a_queue_and_one_without_a_checkpoint(run_folder, tmp_path):
    queue = make_run(tmp_path / "queue", program=tiny_program.tiny_program)
    with pytest.raises(run.BadInput, match="is a run with a queue, which keeps nothing"):
        export.export(queue, tmp_path / "data")
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_bytes((run_folder / "config.json").read_bytes())
    with pytest.raises(run.BadInput, match="has no replay checkpoint"):
        export.export(bare, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_steps_of_other_shapes_than_the_program_makes_now(run_folder):
    agent, env = play.agent_and_env(run_folder)
    now = jax.ShapeDtypeStruct((9, 5), np.float32)
    signature = step_shapes(agent, env.spec)._replace(observation=now)
    with pytest.raises(ValueError, match=r"23 x observation:float32\[10, 5\].*now makes.*float32\[9, 5\]"):
        next(recorded(newest_checkpoints(run_folder / "replay")[0], agent.tables[0], signature))


def test_sequences_of_another_period_than_the_program_makes_now_are_not_stitched(run_folder):
    agent, env = play.agent_and_env(run_folder)
    (held, *_) = agent.tables
    table = dataclasses.replace(held, period=held.period + 1)
    with pytest.raises(ValueError, match=rf" every {held.period}'.*now makes.* every {table.period}'"):
        next(recorded(newest_checkpoints(run_folder / "replay")[0], table, step_shapes(agent, env.spec)))


def test_the_command_line(run_folder, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit, match="2"):
        monkeypatch.setattr("sys.argv", ["export", str(tmp_path), "--out", str(tmp_path / "data")])
        export.main()
    assert f"error: {tmp_path} holds no run" in capsys.readouterr().err
