"""The agent and the networks of `agents/README.md` are whole: they learn Catch."""

from __future__ import annotations

import pathlib
import re
import sys
import types

import pytest

from boonta.agents import impala, muzero
from boonta.agents.base import Agent
from boonta.agents.config import replaced
from boonta.envs.catch import Catch
from boonta.nodes import metrics
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.watch.stopping import StopRule
from boonta.programs.wiring import anakin, threads
from boonta.programs.wiring.launch import Program, Run, group

pytestmark = pytest.mark.once
PAGE = pathlib.Path(__file__).parents[2] / "agents" / "README.md"
CODE, *NETWORKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
ENV = Catch()
# Fewer simulations take less time; the page's model has no functions for the consistency loss.
MUZERO = replaced(muzero.CATCH, {"num_simulations": 4, "consistency_cost": 0.0, "replay.min_size": 64})


@pytest.fixture
def my_agent(monkeypatch):
    """The page's first code, as a module."""
    assert len(CODE.splitlines()) <= 110
    module = types.ModuleType("my_agent")
    monkeypatch.setitem(sys.modules, "my_agent", module)
    exec(compile(CODE, "my_agent.py", "exec"), vars(module))
    return module


@pytest.fixture(scope="module")
def networks():
    """What the rest of the page's code defines."""
    assert [len(code.splitlines()) <= 35 for code in NETWORKS] == [True] * 3
    defined = {}
    for code in NETWORKS:
        exec(compile(code, "networks.py", "exec"), defined)
    return defined


def learn(agent: Agent, folder: pathlib.Path, eval_return: float, updates: int) -> float:
    """Learns Catch until an evaluation is good enough, or the updates are made; the last evaluation."""
    run = Run("anakin", str(folder), stop=StopRule(updates=updates, eval_return=eval_return))
    groups = [group(Learner), group(Actor), group(Evaluator, episodes=100, every_updates=250)]
    assert threads.run(*anakin.build(Program("my_agent", run, agent, ENV, groups))) == 0
    return metrics.read(folder)[-1]["eval_return"]


@pytest.mark.once
def test_it_learns_catch(my_agent, tmp_path):
    assert learn(my_agent.make(my_agent.Config.preset("catch"), ENV.spec), tmp_path, 0.8, 1_500) >= 0.8


@pytest.mark.parametrize("whole", [False, True])
def test_impala_learns_catch_with_the_pages_networks(networks, whole, tmp_path):
    network = networks["gru_network"](impala.CATCH, ENV.spec) if whole else networks["Torso"]
    assert learn(impala.make(impala.CATCH, ENV.spec, network=network), tmp_path, 0.8, 1_500) >= 0.8


@pytest.mark.parametrize("whole", [pytest.param(False, marks=pytest.mark.slow), True])
def test_muzero_learns_catch_with_the_pages_networks(networks, whole, tmp_path):
    """At random an agent returns -0.6 on average."""
    network = networks["small_model"](MUZERO, ENV.spec) if whole else networks["Torso"]
    assert learn(muzero.make(MUZERO, ENV.spec, network=network), tmp_path, 0.3, 2_000) >= 0.3
