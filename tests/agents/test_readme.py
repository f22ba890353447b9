"""The agent of `agents/README.md` is whole: it learns Catch."""

from __future__ import annotations

import pathlib
import re
import sys
import types

import pytest

from boonta.envs.catch import Catch
from boonta.nodes import metrics
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.watch.stopping import StopRule
from boonta.programs.wiring import anakin, threads
from boonta.programs.wiring.launch import Program, Run, group

PAGE = pathlib.Path(__file__).parents[2] / "agents" / "README.md"


@pytest.fixture
def my_agent(monkeypatch):
    """The page's code, as a module."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 110
    module = types.ModuleType("my_agent")
    monkeypatch.setitem(sys.modules, "my_agent", module)
    exec(compile(code, "my_agent.py", "exec"), vars(module))
    return module


@pytest.mark.once
def test_it_learns_catch(my_agent, tmp_path):
    env = Catch()
    agent = my_agent.make(my_agent.Config.preset("catch"), env.spec)
    run = Run("anakin", str(tmp_path), stop=StopRule(updates=1_500))
    groups = [group(Learner), group(Actor), group(Evaluator, episodes=100, every_updates=1_500)]
    program = Program("my_agent", run, agent, env, groups)
    assert threads.run(*anakin.build(program)) == 0
    assert metrics.read(tmp_path)[-1]["eval_return"] >= 0.8
