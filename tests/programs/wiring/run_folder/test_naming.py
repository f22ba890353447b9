"""Default folders of runs, from command lines."""

from __future__ import annotations

import importlib
import pathlib

import pytest

from boonta.envs.catch import Catch
from boonta.envs.gymnasium import Gymnasium
from boonta.programs.wiring import environments
from boonta.programs.wiring.command_line import arguments
from boonta.programs.wiring.run_folder import config_file, naming, provenance

ROOT = pathlib.Path(arguments.__file__).resolve().parents[3]


@pytest.fixture
def impala():
    return arguments.function_of(ROOT / "programs" / "impala.py")


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ([], "impala-catch"),
        (["catch", "--launch", "anakin", "--stop.updates", "5", "--save-every-s", "9"], "impala-catch"),
        (["catch", "--evaluation.every-s", "60", "--evaluation.episodes", "3"], "impala-catch"),
        (["catch", "--evaluation.max-steps", "60"], "impala-catch-max-steps60"),  # Which changes what is the best.
        (["gymnasium/CartPole-v1", "--env.workers", "2", "--env.metrics", "x"], "impala-gymnasium-CartPole-v1"),
        (["minatar/breakout"], "impala-minatar-breakout"),
        (["catch", "--seed", "3"], "impala-catch-seed3"),
        (["catch", "--config.optimiser.learning-rate", "3e-4"], "impala-catch-learning-rate0.0003"),
        (["catch", "--config.optimiser.learning-rate", "3e-3"], "impala-catch"),  # The preset's.
        (["catch", "--actors", "3", "--config.torso.widths", "8", "16"], "impala-catch-widths8-16-actors3"),
        (["catch", "--env.columns", "4", "--seed", "1"], "impala-catch-columns4-seed1"),
        (["gymnax/CartPole-v1"], "impala-gymnax-CartPole-v1"),
        (["minatar/breakout", "--env.sticky-actions", "0.2"], "impala-minatar-breakout-sticky-actions0.2"),
        (["open_spiel/2048", "--env.view", "flat"], "impala-open_spiel-2048-view-flat"),  # It refuses its default.
    ],
)
def test_what_differs_from_the_usual_is_in_the_name(impala, flags, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run, _ = arguments.parse(impala, flags)
    folder = pathlib.Path(run.workdir)
    assert folder.parent == tmp_path / "runs"
    assert sorted(folder.name.split("-")) == sorted(name.split("-"))


OWN_ENV = """
from boonta.envs.gymnasium import Gymnasium

class Mine: ...

def slow():
    return Gymnasium("CartPole-v1", {"max_episode_steps": 50})

def one_of_mine():
    return Gymnasium(Mine)
"""


def test_each_environment_of_the_users_own_has_the_name_by_which_it_was_called(impala, monkeypatch, tmp_path):
    (tmp_path / "named_env.py").write_text(OWN_ENV)
    monkeypatch.syspath_prepend(tmp_path)
    run, settings = arguments.parse(impala, ["named_env:slow"])
    assert pathlib.Path(run.workdir).name == "impala-named_env-slow"
    program = impala(run=run, **settings)
    origin = arguments.origin_of(impala, ["named_env:slow"], program)
    assert origin.provenance.env.digest == provenance.source_of(tmp_path / "named_env.py").digest
    made = importlib.import_module("named_env").one_of_mine()
    assert environments.name_of(made) == "named_env-Mine" and environments.module_of(made) == "named_env"
    assert environments.module_of(Catch()) == environments.module_of(Gymnasium("CartPole-v1")) == ""


@pytest.mark.parametrize("agent", ["impala", "ppo"])
def test_a_file_of_the_users_own_has_folders_by_its_agents(tmp_path, agent):
    program = (ROOT / "programs" / "impala.py").read_text().replace("def impala(", "def mine(")
    file = tmp_path / "mine.py"
    file.write_text(
        program.replace("boonta.agents.impala", f"boonta.agents.{agent}").replace("main(impala)", "main(mine)")
    )
    run, _ = arguments.parse(arguments.function_of(file), ["catch", "--seed", "1"])
    assert pathlib.Path(run.workdir).name == f"mine-{agent}-catch-seed1"


OWN_CONFIG = """
import dataclasses

from boonta.agents import impala as ours
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.launch import Program, RunFlags

@dataclasses.dataclass(frozen=True)
class Config:
    rate: float = 0.1

def mine(run: RunFlags, evaluation: Evaluation, config: Config, width: int) -> Program: ...
"""


def test_a_config_without_presets_and_a_flag_without_a_default_are_in_the_name(tmp_path):
    (tmp_path / "mine.py").write_text(OWN_CONFIG)
    mine = arguments.function_of(tmp_path / "mine.py")
    run, settings = arguments.parse(mine, ["--width", "8"])
    assert pathlib.Path(run.workdir).name == "mine-width8"
    run, settings = arguments.parse(mine, ["--width", "8", "--config.rate", "0.5"])
    assert pathlib.Path(run.workdir).name == "mine-rate0.5-width8"
    assert config_file.agent_of(settings) == "program_mine"
    assert config_file.agent_of({"evaluation": settings["evaluation"], "env": Catch()}) == ""


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ([], "unplugged-catch7"),
        (["config:dqn-catch"], "unplugged-catch7-dqn-catch"),
        (["--seed", "2", "config:board", "--config.discount", "0.5"], "unplugged-catch7-board-discount0.5-seed2"),
    ],
)
def test_an_archive_and_a_preset_that_are_named_are_in_the_name(flags, name):
    unplugged = arguments.function_of(ROOT / "programs" / "unplugged.py")
    run, _ = arguments.parse(unplugged, ["--data", "archives/catch7", *flags])
    assert pathlib.Path(run.workdir).name == name


def test_a_folder_that_is_named_is_taken(impala, tmp_path):
    run, _ = arguments.parse(impala, ["catch", "--seed", "3", "--workdir", str(tmp_path)])
    assert run.workdir == str(tmp_path)


def test_long_names_are_cut_and_stay_different():
    usual = {f"setting_{i}": 0 for i in range(40)}
    names = [naming.folder_name(["impala"], seed, dict.fromkeys(usual, 1), usual) for seed in (1, 2, 3)]
    assert len(set(names)) == 3 and all(len(name) <= naming.LONGEST for name in names)
