"""Members of a population, as the tools find them in its folder."""

from __future__ import annotations

import types

import jax
import numpy as np
import pytest

from boonta.agents import muzero
from boonta.nodes.snapshots.best import read_record
from boonta.programs.tools import match, play
from boonta.programs.wiring import launch, members
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.trained import agent_and_env, params_of, program_of
from boonta.tests.helpers import nim_program
from boonta.tests.helpers.population_program import population_program

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A population of four, with seeds 3 and 4, after 20 updates."""
    folder = tmp_path_factory.mktemp("population")
    with pytest.raises(SystemExit) as ended:
        flags = ("--launch", "anakin", "--seed", "3", "--placement.learning", "1", "--stop.updates", "20")
        launch.main(population_program, [*flags, "--workdir", str(folder)])
    assert ended.value.code == 0
    return folder


def equal(one, other) -> bool:
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, one, other)))


def test_each_members_params_are_found_and_the_best_ones_without_a_number(folder):
    agent, _ = agent_and_env(folder)
    all_members = members.states_in(members.population_of(program_of(folder)), folder / "members").learner
    found = [params_of(agent, folder, member=i) for i in range(4)]
    for i, params in enumerate(found):
        assert equal(params, agent.update.params(jax.tree.map(lambda leaf, i=i: leaf[i], all_members)))
        assert equal(params, params_of(agent, folder, 20, i))
        assert not any(equal(params, other) for other in found[:i])
    best = read_record(folder / "checkpoints", print).member
    assert equal(params_of(agent, folder), found[best]) and members.recorded_member(folder, 20) == best
    assert members.recorded_member(folder, "best") == read_record(folder / "checkpoints" / "best", print).member


def test_a_member_is_played(folder, capsys):
    play.play(folder, member=2)
    assert f"env steps: {folder}/play.gif" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("which", "member", "message"),
    [
        ("newest", 4, "member is 4; .* has 0 to 3, whose seeds are 3, 4, 3, 4$"),
        ("newest", -1, "member is -1; .* has 0 to 3"),
        ("best", 1, "member is 1, and which is 'best', the checkpoint of the one member that was the best of all"),
        (7, 1, "members has no checkpoint 7: there are 20$"),
    ],
)
def test_what_is_no_member_or_has_no_checkpoint_is_refused(folder, which, member, message):
    with pytest.raises(BadInput, match=message):
        play.play(folder, which=which, member=member)


def test_a_run_that_is_no_population_has_no_members(tmp_path):
    run = nim_program.make_run(tmp_path / "run", 1)
    with pytest.raises(BadInput, match="member is 0, but .*/run holds one learner and no population; leave it out"):
        match.match(run, "random", member=0)
    with pytest.raises(BadInput, match="member is 1, but .*/run holds one learner"):
        match.match(run, str(run), opponent_member=1)


def test_a_member_plays_by_its_own_hyper_parameters():
    """A search has constants of its own, such as the discount."""
    each = [{"seed": 0, "discount": discount} for discount in (0.5, 0.9)]
    node = types.SimpleNamespace(members=each, make=lambda config: config, config=muzero.Config(discount=0.7))
    assert [members.agent_of(node, i).discount for i in (0, 1, None)] == [0.5, 0.9, 0.7]
    assert members.agent_of(node, 1, eval_simulations=9) == muzero.Config(discount=0.9, eval_simulations=9)
