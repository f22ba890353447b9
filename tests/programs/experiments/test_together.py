"""Several runs as one population: its members learn what the runs would by themselves."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import jax
import numpy as np
import pytest

from boonta.nodes.actor import Actor
from boonta.nodes.anakin import Anakin
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.watch.evaluation import NONE, Evaluation
from boonta.nodes.watch.stopping import StopRule
from boonta.programs.experiments.groups import suite_of, warnings_of
from boonta.programs.experiments.results import recorded, results_of
from boonta.programs.experiments.together.fused import fused, may_join, population
from boonta.programs.self_play import self_play
from boonta.programs.wiring.command_line.arguments import function_of, origin_of, parse
from boonta.programs.wiring.interpreters import anakin
from boonta.programs.wiring.launch import Program, Run, group
from boonta.programs.wiring.run_folder.folder import claim_workdir
from boonta.tests.helpers import run_folders
from boonta.tests.helpers.fused import ENV, agent
from boonta.tests.helpers.members import Config

IMPALA = pathlib.Path(__file__).resolve().parents[3] / "programs" / "impala.py"
UPDATES = 10
LIMITS = ("--stop.updates", str(UPDATES), "--evaluation.every-updates", "0")
FLAGS = ["--launch", "anakin", "--config.batch-size", "8", "--placement.learning", "1"]

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def parsed(folder: pathlib.Path, *flags: str):
    function = function_of(IMPALA)
    run, settings = parse(function, ["catch", *FLAGS, *flags, "--workdir", str(folder)])
    return function, run, settings


def weights(program) -> list[np.ndarray]:
    """The params after some updates."""
    _, (node,) = anakin.build(program)
    assert isinstance(node, Anakin)
    node.monitor = None
    node.start()
    while node._updates < UPDATES:
        node.step()
    node._collect_all()
    learner = node._state.learner
    learner = getattr(learner, "learner", learner)  # A population's has the members' hyper-parameters beside it.
    return [np.asarray(leaf) for leaf in jax.tree.leaves(program.agent.update.params(learner))]


def test_members_learn_what_runs_of_their_own_would(tmp_path):
    function, run, settings = parsed(tmp_path / "together", *LIMITS)
    members = [{"seed": 3, "optimiser.learning_rate": 0.01}, {"seed": 7, "optimiser.learning_rate": 0.001}]
    together = weights(population(function, run, settings, members))
    for i, member in enumerate(members):
        rate = str(member["optimiser.learning_rate"])
        flags = ("--seed", str(member["seed"]), "--config.optimiser.learning-rate", rate)
        function, run, settings = parsed(tmp_path / str(i), *flags, *LIMITS)
        alone = weights(function(run=run, **settings))
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_allclose(other[i], one, rtol=1e-3, atol=1e-5)


def test_each_member_makes_as_many_env_steps_as_its_run_would(tmp_path):
    function, run, settings = parsed(tmp_path, "--stop.env-steps", "1000")
    members = [{"seed": seed} for seed in range(5)]
    assert population(function, run, settings, members).run.stop == StopRule(env_steps=5_000)


@pytest.mark.parametrize(
    ("flags", "joins"),
    [
        (("--stop.updates", "9"), True),
        (("--stop.seconds", "9"), False),
        (("--stop.eval-return", "1"), False),
        (("--stop.patience", "3"), False),
        (("--stop.updates", "9", "--stop.on-collapse"), False),
        (("--stop.updates", "9", "--start-from", "x"), False),
        (("--stop.updates", "9", "--evaluation.every-updates", "0"), False),
    ],
)
def test_which_runs_can_join(tmp_path, flags, joins):
    function, run, settings = parsed(tmp_path, *flags)
    assert may_join(function(run=run, **settings), settings) == joins


@pytest.mark.parametrize(("evaluator", "joins"), [([group(Evaluator, episodes=4, every_s=300.0)], True), ([], False)])
def test_a_program_of_ones_own_joins_if_it_has_an_evaluator(tmp_path, evaluator, joins):
    """Whichever of its settings are given."""
    run = Run("anakin", str(tmp_path), stop=StopRule(updates=9))
    own = Program("own", run, agent(), ENV, [group(Learner), group(Actor), *evaluator])
    assert may_join(own, {"config": Config()}) == joins
    expected = Evaluation(4, every_s=300.0) if joins else NONE
    assert anakin.fused(own).settings["evaluation"] == expected


def test_games_of_two_join(tmp_path):
    """They are evaluated, too: each member against a random player."""
    arguments = ["pgx/tic_tac_toe", "--launch", "anakin", "--workdir", str(tmp_path), "--stop.updates", "9"]
    run, settings = parse(self_play, arguments)
    assert may_join(self_play(run=run, **settings), settings)


def test_a_process_of_its_own_can_not_join(tmp_path):
    function, run, settings = parsed(tmp_path, "--stop.updates", "9")
    other = dataclasses.replace(run, launch="sebulba")
    assert not may_join(function(run=other, **settings), settings)


def write_results(folder: pathlib.Path, function, words, every: float = 100.0) -> pathlib.Path:
    """The folder of a run with its real config, and metrics and a log that never were."""
    run_folders.write_run(folder, metrics=run_folders.rows([0.0, 1.0], every, every))
    (folder / "config.json").unlink()
    run, settings = parse(function, [*words, "--launch", "anakin", "--stop.updates", "9", "--workdir", str(folder)])
    program = function(run=run, **settings)
    claim_workdir(program.name, run, settings, origin_of(function, words, program)).close()
    return folder


def test_members_and_a_run_of_its_own_are_one_group(tmp_path):
    rate = 0.00123456789  # A row has it as a float32.
    shared = ["catch", "--config.batch-size", "8", "--evaluation.episodes", "7"]
    members = [{"seed": seed, "optimiser.learning_rate": rate} for seed in range(2)]
    given = {"program": str(IMPALA), "arguments": json.dumps(shared), "members": json.dumps(members)}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    together = write_results(tmp_path / "together", fused, words, every=200.0)
    rows = [{"member": i, "seed": i, "optimiser.learning_rate": 0.0012345679} for i in range(2)]
    values = [{"updates": 2 * n, "eval_return": n} for n in (1, 2)]
    run_folders.write_lines(together / "members.jsonl", [{**row, **value} for value in values for row in rows])
    flags = ["--seed", "2", "--config.optimiser.learning-rate", str(rate)]
    alone = write_results(tmp_path / "alone", function_of(IMPALA), [*shared, *flags])
    found = [results_of(recorded(folder), "eval_return", "newest")[0] for folder in (together, alone)]
    suite = suite_of([result for each in found for result in each])
    ((group,),) = suite.values()
    assert group.name == "impala" and [result.seed for result in group.results] == [0, 1, 2]
    settings = group.results[0].settings
    assert settings["config.optimiser.learning_rate"] == rate and settings["config.batch_size"] == 8
    assert [result.score.episodes for result in group.results] == [7, 7, 7]
    ignored = ("intervals and probabilities of fewer", "files differed from the commit")
    assert not [warning for warning in warnings_of(suite) if not warning.startswith(ignored)]
