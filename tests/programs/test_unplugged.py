"""The unplugged program: from a run's replay to an agent that no actor has fed."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest

from boonta.agents.base import Steps
from boonta.envs.base import FIRST, LAST, MID
from boonta.envs.catch import Catch
from boonta.nodes import metrics
from boonta.nodes.archive import files as archive
from boonta.nodes.watch.stopping import StopRule
from boonta.programs import unplugged
from boonta.programs.wiring import launch, run
from boonta.programs.wiring.archived import env_of_archive
from boonta.programs.wiring.command_line import arguments
from boonta.programs.wiring.evaluation import Evaluation, evaluation_of
from boonta.programs.wiring.trained import agent_and_env, params_of
from boonta.tests.helpers import launched, nim
from boonta.tests.helpers.archives import by_chance, write_by_chance

pytestmark = pytest.mark.unoptimised

SMALL = [
    "--config.num-simulations=2",
    "--config.torso.widths=8",
    "--config.head-width=8",
    "--config.replay.batch-size=8",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """An archive of Catch, of five chunks."""
    folder = tmp_path_factory.mktemp("archive") / "data"
    assert len(write_by_chance(folder).chunks) == 5
    return folder


def start(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        launch.main(unplugged.unplugged, list(arguments))
    return ended.value.code


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param("local_mt", marks=[pytest.mark.cluster, pytest.mark.slow]),
        pytest.param("serial", marks=pytest.mark.cluster),
        pytest.param("sebulba", marks=[launched.SMALL_SEARCH, pytest.mark.slow]),
    ],
)
def test_learns_without_an_actor_and_resumes(data, tmp_path, schedule):
    workdir = tmp_path / "run"
    common = ["--data", str(data), "--workdir", str(workdir), "--launch", schedule]
    flags = [*common, "--stop.updates", "12", "config:catch", *SMALL]
    if schedule == "serial":
        assert start(*flags) == 0
    else:
        process = launched.start(*flags, program="programs/unplugged.py")
        output = launched.finish(process)
        assert process.returncode == 0, output
    last = metrics.read(workdir)[-1]
    assert last["updates"] >= 12 and "env_steps" not in last
    assert last["reanalyzed_sequences"] >= 8 and last["batch_share/reanalyzed"] == 1.0
    agent, env = agent_and_env(workdir)
    assert env == Catch() and [table.name for table in agent.tables] == ["reanalyzed"]
    params_of(agent, workdir)  # What it learned was saved, and is found by other tools.
    assert json.loads((workdir / "config.json").read_text())["settings"]["config"]["torso"]["widths"] == [8]
    if schedule == "serial":
        assert start(*common, "--stop.updates", "15", "config:catch", *SMALL) == 0
        assert metrics.read(workdir)[-1]["updates"] >= 15


@pytest.mark.once
def test_r2d2_learns_without_an_actor_from_what_its_core_remembers_of_the_record(data, tmp_path):
    workdir = tmp_path / "run"
    small = [f"--config.{name}=8" for name in ("torso.widths", "lstm-size", "head-width", "replay.batch-size")]
    flags = ["--data", str(data), "--workdir", str(workdir), "--launch", "sebulba", "--stop.updates", "12"]
    assert start(*flags, "config:r2d2-catch", *small, "--config.replay.min-size=8") == 0
    last = metrics.read(workdir)[-1]
    assert last["updates"] >= 12 and last["reanalyzed_sequences"] >= 8 and "env_steps" not in last


@pytest.mark.once
@pytest.mark.parametrize("flags", [[], ["--evaluation.by", "updates", "--evaluation.every-updates", "7"]])
def test_it_evaluates_as_the_command_line_says(data, tmp_path, flags):
    workdir = ["--workdir", str(tmp_path / "run")]
    run, settings = arguments.parse(unplugged.unplugged, ["--data", str(data), *workdir, *flags, "config:catch"])
    evaluator = unplugged.unplugged(run=run, **settings).of_role("evaluator")
    wanted = Evaluation(by="updates", every_updates=7) if flags else Evaluation()
    assert evaluator is not None and evaluation_of(evaluator) == wanted


def refused(capsys, *arguments: str) -> str:
    assert start(*arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("way", ["local_mp", "local_mt", "serial", "sebulba"])
def test_a_limit_on_env_steps_which_nobody_makes_is_refused(data, tmp_path, way):
    asked = launch.Run(workdir=str(tmp_path / "run"), launch=way, stop=StopRule(env_steps=100))
    with pytest.raises(ValueError, match="stop.env_steps is 100; no actor is there to .*, and give stop.updates"):
        launch.require(unplugged.unplugged(asked, data))
    alike = dataclasses.replace(asked, stop=StopRule(updates=100))
    launch.require(unplugged.unplugged(alike, data))


@pytest.mark.cluster
def test_archives_that_can_not_be_learned_from_are_refused_before_anything_starts(data, tmp_path, capsys):
    workdir = ["--workdir", str(tmp_path / "run")]
    assert "nowhere is not a folder" in refused(capsys, "--data", str(tmp_path / "nowhere"), *workdir)
    broken = tmp_path / "broken"
    shutil.copytree(data, broken)
    (broken / "chunk-00003.parquet").write_bytes(b"PAR1")
    message = refused(capsys, "--data", str(broken), *workdir)
    assert "broken/chunk-00003.parquet is broken" in message
    assert not (tmp_path / "run").exists()
    with pytest.warns(UserWarning, match="1 of 5 chunks, with 80 of 400 steps, are left out"):
        unplugged.unplugged(launch.Run(workdir=str(tmp_path / "run")), str(broken), skip_broken=True)


@pytest.mark.cluster
def test_an_archive_of_a_game_wants_a_config_for_games(tmp_path, capsys):
    from boonta.envs.open_spiel import OpenSpiel

    game = OpenSpiel("tic_tac_toe")
    folder = tmp_path / "games"
    writer = archive.ArchiveWriter(folder, game)
    step_type = np.array([FIRST, MID, LAST], np.int32)
    views = game(1, 0).reset().observation
    board = type(views)(*[np.repeat(leaf, 3, axis=0) for leaf in views])
    zeros, ones = np.zeros(3, np.float32), np.ones(3, np.float32)
    writer.add(Steps(board, step_type, zeros, ones, np.zeros(3, np.int32), (), np.zeros(3, np.int32)))
    writer.close()
    message = refused(capsys, "--data", str(folder), "--workdir", str(tmp_path / "run"))
    assert "for a game of 2 player(s) it must be below 0" in message
    made = unplugged.unplugged(
        launch.Run(workdir=str(tmp_path / "run")), str(folder), config=unplugged.PRESETS["board"]
    )
    assert "evaluator" in [group.label for group in made.groups]


@pytest.mark.cluster
def test_the_environment_is_the_recorded_one_or_is_named_by_the_user(data, tmp_path):
    assert env_of_archive(data) == Catch()
    writer = archive.ArchiveWriter(tmp_path / "small", Catch(rows=6, columns=4))
    writer.add(by_chance(1, Catch(rows=6, columns=4))[0])
    writer.close()
    assert env_of_archive(tmp_path / "small") == Catch(rows=6, columns=4)
    writer = archive.ArchiveWriter(tmp_path / "nim", nim.Nim())
    steps = by_chance(1)[0]
    view = nim.Nim().spec.observations
    writer.add(steps._replace(observation=type(view)(*[np.zeros((10, *leaf.shape), leaf.dtype) for leaf in view])))
    writer.close()
    with pytest.raises(run.BadInput, match="is of 'Nim'; known are Atari, jax.Brax, Catch, .*program's `env =` line"):
        env_of_archive(tmp_path / "nim")
