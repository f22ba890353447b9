"""The map of `nodes/README.md` names files and definitions that exist, and its example of a node works."""

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
from boonta.tests.helpers.examples import python_blocks
from boonta.tests.helpers.params import drawn

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).parents[2]
README = ROOT / "nodes" / "README.md"


def rows() -> list[tuple[str, str, str]]:
    """The map's rows: question, files, names."""
    cells = [line.strip("| ").split(" | ") for line in README.read_text().splitlines() if line.count("|") == 4]
    return [(row[0], row[1], row[2]) for row in cells if len(row) == 3 and ".py`" in row[1]]


@pytest.mark.parametrize(("question", "files", "names"), rows())
def test_the_map_leads_to_definitions(question, files, names):
    folder, text = ROOT, ""
    for file in re.findall(r"`([\w/]+\.py)`", files):
        path = ROOT / file if (ROOT / file).exists() else folder / file  # A later file may be named without its folder.
        folder, text = path.parent, text + path.read_text()
    for name in re.findall(r"`([\w.]+)`", names):
        assert re.search(rf"(def|class) {name.split('.')[-1]}\b|^{name}\b", text, re.MULTILINE), name


def test_the_map_is_read_as_a_whole():
    assert len(rows()) > 40


def test_the_example_measures_the_norm_of_the_newest_params():
    (code,) = python_blocks(README)
    names: dict[str, Any] = {}
    exec(code, names)
    agent = impala.make(impala.CATCH, Catch().spec)
    params = agent.update.params(drawn(agent.update.init))
    server = VariableServer("variables")
    server.put(3, pack(params))
    node = names["NormLogger"]("norm_logger", agent, server, every_s=0.01)
    node.start()
    node.step()
    norm = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(params)))
    assert node.report()["metrics"] == {"params_norm": pytest.approx(norm, rel=1e-5), "params_version": 3.0}
