"""A program with a network of its user's own, which is defined in the program's file, as processes and as threads."""

from __future__ import annotations

import pathlib

import pytest

from boonta.tests.helpers.examples import python_blocks
from boonta.tests.helpers.running import Running

PAGE = pathlib.Path(__file__).parents[2] / "agents" / "README.md"

PROGRAM = """
from boonta.agents.impala import Config, make
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.programs.wiring.launch import Program, RunFlags, group, main


def own_network(run: RunFlags, config: Config, own: bool = True) -> Program:
    env = Catch()
    agent = make(config, env.spec, network=Torso if own else None)
    groups = [group(Learner), group(Actor, num_envs=16), group(Evaluator, episodes=2)]
    return Program("own_network", run, agent, env, groups)


if __name__ == "__main__":
    main(own_network)
"""


@pytest.fixture
def program(tmp_path) -> str:
    (torso,) = (block for block in python_blocks(PAGE) if "class Torso(" in block)
    path = tmp_path / "own_network.py"
    path.write_text(f"{torso}\n\n{PROGRAM}")
    return str(path)


def run(tmp_path, program: str, launch: str) -> Running:
    with Running(tmp_path, program, "--launch", launch, "--stop.updates", "20") as running:
        assert "network Torso, in the place of the config's" in running.finish(0)
    assert running.rows[-1]["updates"] >= 20
    return running


@pytest.mark.cluster
@pytest.mark.slow
def test_it_runs_as_processes(program, tmp_path):
    run(tmp_path, program, "local_mp")


@pytest.mark.parametrize(
    ("launch", "other"),
    [
        pytest.param("local_mp", "local_mt", marks=[pytest.mark.cluster, pytest.mark.slow]),
        pytest.param("sebulba", "sebulba", marks=[pytest.mark.once, pytest.mark.unoptimised]),
    ],
)
def test_it_runs_and_no_other_network_resumes_it(launch, other, program, tmp_path):
    running = run(tmp_path, program, launch)
    flags = ("--launch", other, "--stop.updates", "1000000", "--no-own", "--allow-changes", "--restarts.number", "0")
    with Running(tmp_path, program, *flags, workdir=running.workdir) as again:
        assert "is another network's" in again.finish(1)
