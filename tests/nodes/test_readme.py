"""The node of `nodes/README.md`, "Add a node", works as it stands there."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import jax
import numpy as np
import pytest

from boonta.agents import impala
from boonta.envs.catch import Catch
from boonta.nodes.variables import VariableServer, pack

README = pathlib.Path(__file__).parents[2] / "nodes" / "README.md"


def test_the_example_measures_the_norm_of_the_newest_params():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    agent = impala.make(impala.CATCH, Catch().spec)
    params = jax.device_get(agent.update.params(agent.update.init(jax.random.PRNGKey(0))))
    server = VariableServer("variables")
    server.put(3, pack(params))
    node = names["NormLogger"]("norm_logger", agent, server, every_s=0.01)
    node.start()
    node.step()
    norm = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(params)))
    assert node.report()["metrics"] == {"params_norm": pytest.approx(norm, rel=1e-5), "params_version": 3.0}
