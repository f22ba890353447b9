"""Pictures of MuZero's search and predictions."""

from __future__ import annotations

import json
import types
from xml.etree import ElementTree

import imageio.v3 as imageio
import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.unoptimised]
pytest.importorskip("launchpad")
from boonta.agents.base import Steps  # noqa: E402
from boonta.agents.muzero.search import Planned  # noqa: E402
from boonta.envs.base import FIRST, LAST, MID  # noqa: E402
from boonta.nodes.checkpoint import Checkpointer  # noqa: E402
from boonta.programs import impala, muzero, self_play  # noqa: E402
from boonta.programs.tools import explain  # noqa: E402
from boonta.programs.wiring.run import BadInput  # noqa: E402
from boonta.programs.wiring.trained import agent_and_env  # noqa: E402

SMALL = ["--config.torso.widths", "8", "--config.head-width", "8", "--config.unroll-length", "2"]


def make_run(workdir, program, *arguments):
    """What a run has left in its folder, with params that mean nothing, but differ from each other."""
    workdir.mkdir(parents=True, exist_ok=True)
    name = program.__name__.split(".")[-1]
    config = {"program": name, "file": program.__file__, "function": name, "arguments": arguments}
    config |= {"seed": 0, "settings": {}}  # The arguments alone determine them.
    (workdir / "config.json").write_text(json.dumps(config))
    agent, _ = agent_and_env(workdir)
    rng = np.random.default_rng(0)

    def draw(leaf):
        floating = jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(rng.normal(0, 0.3, leaf.shape) if floating else np.zeros(leaf.shape), leaf.dtype)

    state = jax.tree.map(draw, jax.eval_shape(agent.update.init, jax.random.PRNGKey(0)))
    Checkpointer(workdir / "checkpoints").save(1, state, {})
    return workdir


def texts(svg, kind):
    """The texts of the drawing's nodes or branches, by number."""
    groups = ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}g")
    named = {group.get("id"): group for group in groups if group.get("id", "").startswith(f"{kind}-")}
    return {int(name.split("-")[1]): " ".join("".join(named[name].itertext()).split()) for name in named}


@pytest.mark.parametrize("program, simulations", [(muzero, 2), (self_play, 3)])
def test_a_run_becomes_three_pictures(tmp_path, capsys, program, simulations):
    run = make_run(tmp_path, program, *SMALL, "--config.num-simulations", str(simulations))
    explain.explain(run, episodes=2, step=1)
    names = ["tree.svg", "episode.png", "hidden.png"]
    assert capsys.readouterr().out.splitlines() == [str(run / "explain" / name) for name in names]
    assert set(texts(run / "explain" / "tree.svg", "node")) == set(range(simulations + 1))
    for name in names[1:]:
        picture = imageio.imread(run / "explain" / name)
        assert len({tuple(pixel) for row in picture[::4, ::4] for pixel in row}) > 10


def test_the_map_has_other_games_than_the_first(tmp_path, monkeypatch):
    run = make_run(tmp_path, muzero, *SMALL, "--config.num-simulations", "2", "--config.eval-simulations", "3")
    seen = []
    monkeypatch.setattr(explain, "draw_hidden", lambda steps, *_: seen.append(steps))
    explain.explain(run, episodes=6)
    (steps,) = seen
    ends = np.flatnonzero(steps.step_type[:, 0] == LAST)
    games = {tuple(game) for game in np.split(steps.action[:, 0], ends + 1)[1:]}
    assert len(ends) == 6 and len(games - {()}) > 1


def make_tree():
    """Root 0 with children 1 by action 0 and 3 by action 1; 1 has child 2 by action 1, and 2 has 4, past the end."""
    shape = (5, 3)
    rewards = np.zeros(shape, np.float32)
    rewards[0, 0], rewards[0, 1], rewards[1, 1], rewards[2, 2] = 0.25, -1, 0.5, 0
    priors = np.zeros(shape, np.float32)
    priors[0] = np.log([0.6, 0.3, 0.1])
    priors[1] = np.log([0.2, 0.8, 1e-9])
    priors[2] = np.log([1e-9, 1e-9, 1])
    return types.SimpleNamespace(
        node_visits=np.array([6, 4, 2, 1, 1, 0]),
        node_values=np.array([0.75, 0.5, 0.125, -0.5, 0, 9], np.float32),
        raw_values=np.array([0.25, 0.375, 0.5, -0.5, 0, 9], np.float32),
        parents=np.array([-1, 0, 1, 0, 2, -1]),
        action_from_parent=np.array([-1, 0, 1, 1, 2, -1]),
        children_rewards=rewards,
        children_prior_logits=priors,
    )


PLANNED = Planned(np.int32(0), np.array([0.7, 0.3]), np.float32(0.75), make_tree())


def test_the_tree_shows_its_numbers(tmp_path):
    places = explain.layout(PLANNED.tree, 10, 10)
    explain.draw_tree(PLANNED, places, "step 3", np.zeros((20, 10, 3), np.uint8), tmp_path / "tree.svg")
    assert texts(tmp_path / "tree.svg", "node") == {
        0: "visits 6 value +0.75 (+0.25)",
        1: "visits 4 value +0.50 (+0.38)",
        2: "visits 2 value +0.12 (+0.50)",
        3: "visits 1 value -0.50 (-0.50)",
        4: "visits 1 value +0.00 (+0.00)",
    }
    assert texts(tmp_path / "tree.svg", "branch") == {
        1: "action 0 p 0.60 r +0.25",
        2: "action 1 p 0.80 r +0.50",
        3: "action 1 p 0.30 r -1.00",
        4: "over p 1.00 r +0.00",
    }
    assert "step 3: action 0 is taken (blue); 5 of 5 nodes" in (tmp_path / "tree.svg").read_text()


def test_the_most_visited_nodes_are_placed_each_on_its_own():
    assert explain.layout(PLANNED.tree, 10, 10) == {0: (0, 0), 1: (1, 0), 2: (2, 0), 4: (3, 0), 3: (1, 1)}
    assert explain.layout(PLANNED.tree, 3, 10) == {0: (0, 0), 1: (1, 0), 2: (2, 0)}
    assert explain.layout(PLANNED.tree, 10, 1) == {0: (0, 0), 1: (1, 0), 3: (1, 1)}


def test_branches_of_chance_are_told_from_actions(tmp_path):
    """A search with chance hands out the branches of actions only."""
    tree = make_tree()
    tree.action_from_parent[2] = 5
    places = explain.layout(tree, 10, 10)
    explain.draw_tree(PLANNED._replace(tree=tree), places, "", np.zeros((9, 9, 3), np.uint8), tmp_path / "tree.svg")
    assert texts(tmp_path / "tree.svg", "branch")[2] == "chance 2"


def test_a_map_keeps_distances_along_the_two_widest_directions():
    points = np.array([[3.0, 0, 7], [-3, 0, 7], [0, 1, 7], [0, -1, 7]])
    (here, there), shares = explain.project(points, points[:1] + 1)
    np.testing.assert_allclose(np.abs(here), [[3, 0], [3, 0], [0, 1], [0, 1]], atol=1e-9)
    np.testing.assert_allclose(np.abs(there - here[:1]), [[1, 1]], atol=1e-9)
    np.testing.assert_allclose(shares, [0.9, 0.1])


def test_other_agents_runs_are_refused(tmp_path):
    run = make_run(tmp_path, impala)
    with pytest.raises(BadInput, match="a run of another agent; only MuZero's runs can be explained"):
        explain.explain(run)


def test_a_step_or_number_that_cannot_be_is_refused(tmp_path, monkeypatch):
    run = make_run(tmp_path, muzero, *SMALL)
    monkeypatch.setattr(explain, "params_of", lambda *_: None)
    step_type = np.array([FIRST, MID, LAST], np.int32)[:, None]
    nothing = np.zeros((3, 1))
    steps = Steps(nothing, step_type, nothing, nothing, nothing, nothing, nothing)
    monkeypatch.setattr(explain, "record", lambda *_: (steps, []))
    with pytest.raises(BadInput, match="--step is 2; the first episode has steps 0 to 1"):
        explain.explain(run, step=2)
    with pytest.raises(BadInput, match="--max-nodes is 0; it must be at least 1"):
        explain.explain(run, max_nodes=0)
