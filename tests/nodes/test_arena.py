"""The arena on Nim: its reports, its opponents, and its refusals."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.envs.catch import Catch
from boonta.nodes.arena import Arena, thin
from boonta.nodes.base import Stopped
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.variables import Colocated, DeviceVariables, VariableServer, pack
from boonta.tests.helpers import tiny
from boonta.tests.helpers.clock import Clock
from boonta.tests.helpers.nim import Nim, Take, agent, params


@pytest.fixture
def variables():
    return VariableServer("variables")


def test_the_arena_of_a_program_that_is_started_again_draws_other_seeds(variables):
    def seeds(past_starts: int) -> list[int]:
        node = Arena("arena", agent(), Nim(5), variables, opponents={"taker": Take(1)}, episodes=4, seed=7)
        node.past_starts = past_starts
        node.start()
        return node._rng.integers(2**31, size=3).tolist()

    assert seeds(0) == np.random.default_rng(7).integers(2**31, size=3).tolist()
    assert len({*seeds(0), *seeds(1), *seeds(2)}) == 9


def arena(variables, opponents, **settings) -> Arena:
    node = Arena(
        "arena", agent(), Nim(5), variables, opponents=opponents, **{"episodes": 4, "every_s": 0.0, **settings}
    )
    node.start()
    return node


def test_each_opponent_is_played_from_either_side(variables):
    variables.put(7, pack(params(2)))
    node = arena(variables, {"one": Take(1), "two": Take(2)})
    node.step()
    report = node.report()
    assert report["counts"] == {"eval_episodes": 8}
    metrics = report["metrics"]
    assert metrics["eval_return"] == 1.0 and metrics["eval_version"] == 7  # Only the first opponent counts.
    one = {"win": 1.0, "draw": 0.0, "loss": 0.0, "loss_first": 0.0, "loss_second": 0.0}
    assert {name: metrics[f"arena/one/{name}"] for name in one} == one
    # Who begins takes 2, leaves 3, then 1, and takes it.
    two = {"win": 0.5, "draw": 0.0, "loss": 0.5, "loss_first": 0.0, "loss_second": 1.0}
    assert {name: metrics[f"arena/two/{name}"] for name in two} == two


def test_it_may_share_a_process_with_the_learner():
    device = jax.devices()[0]
    variables = DeviceVariables([device])
    variables.put(3, jax.tree.map(jnp.asarray, params(2)))
    node = arena(Colocated(variables, device), {"one": Take(1)})
    node.step()
    assert node.report()["metrics"]["eval_version"] == 3


def test_the_arena_rests_by_what_it_plays_and_not_by_what_it_compiles(variables, monkeypatch):
    variables.put(7, pack(params(2)))
    node, clock = arena(variables, {"one": Take(1)}, max_share=0.25), Clock(monkeypatch)
    node._policy = node._policy._replace(step=clock.timed(node._policy.step))
    node.step()
    assert 3.0 <= clock.until(node.ready) <= 3 * 5  # Nim has five moves at most.
    assert "compiling" in node.stopwatch.finished


def test_the_first_opponent_is_rated_0_and_the_rest_by_their_results(variables):
    variables.put(7, pack(params(2)))
    node = arena(variables, {"one": Take(1), "two": Take(2)})
    node.step()
    metrics = node.report()["metrics"]
    assert metrics["arena/one/elo"] == 0
    assert metrics["arena/elo"] == pytest.approx(381.7, abs=0.1)  # 4.5 of 5 with the prior's draw: 400 log10(9).
    assert metrics["arena/two/elo"] == pytest.approx(metrics["arena/elo"], abs=0.1)  # The two are equally strong.


def test_later_versions_play_earlier_ones_and_results_add_up(variables):
    node = arena(variables, {"one": Take(1)}, earlier=2)
    for version, number in ((1, 1), (2, 1), (3, 2)):
        variables.put(version, pack(params(number)))
        node.round()
        assert ("arena/earlier/win" in node.report()["metrics"]) == (version > 1)
    assert set(node._results) == {(1, "one"), (2, "one"), (2, 1), (3, "one"), (3, 1), (3, 2)}
    assert node.report()["counts"] == {"eval_episodes": 6 * 4}
    node.round()  # Nothing new was put: it plays the same version once more, and not against itself.
    assert node._results[3, "one"] == (8, 8) and node._results[3, 1].games == 8


def test_earlier_versions_play_with_their_own_params_after_an_opening(variables):
    node = arena(variables, {"one": Take(1)}, episodes=32)
    for version in (1, 2):
        variables.put(version, pack(params(version)))
        node.round()
    score, games = node._results[2, 1]
    # Version 2 would win all from the start, and half against itself. Two random moves leave 0 to 3, and only with 2 it
    # wins as either player.
    assert games == 32 and 16 < score < 32


def test_only_so_many_versions_are_kept(variables):
    node = arena(variables, {"one": Take(1)}, keep=2)
    for version in range(1, 5):
        variables.put(version, pack(params(1)))
        node.round()
    assert list(node._versions) == [1, 4]


def test_an_unfinished_game_is_cut_as_the_settings_say(variables):
    variables.put(7, pack(params(2)))
    node = arena(variables, {"one": Take(1)}, max_steps=3)
    node.step()
    assert node.report()["metrics"]["eval_return"] == 0.5  # 5-3-[2]-0 is won, and 5-[4]-2-[1] not over.


def test_versions_that_are_kept_spread_over_the_run():
    versions = {}
    for version in range(0, 1000, 10):
        versions[version] = None
        thin(versions, 5)
    kept = sorted(versions)
    assert len(kept) == 5 and kept[0] == 0 and kept[-1] == 990
    gaps = [b - a for a, b in zip(kept[:-2], kept[1:-1])]
    assert max(gaps) <= 4 * min(gaps)  # The newest is left out.


def test_it_stops_while_a_match_is_on(variables):
    variables.put(1, pack(params(1)))
    player = Take(1)

    def slow(env, timestep, rng):
        if player.asked == 2:
            node.stop()
        return player(env, timestep, rng)

    node = arena(variables, {"slow": slow}, episodes=50)
    with pytest.raises(Stopped):
        node.round()
    assert player.asked == 3 and node.report()["metrics"] == {"eval_started": 1.0}


def test_what_cannot_be_played_is_refused(variables):
    one = {"one": Take(1)}
    with pytest.raises(ValueError, match="evaluator: env is a game of 2 players; their matches need an Arena"):
        Evaluator("evaluator", agent(), Nim(), variables)
    with pytest.raises(ValueError, match="arena: env has 1 player; without a second it needs an Evaluator"):
        Arena("arena", tiny.make(Catch().spec), Catch(), variables, opponents=one)
    with pytest.raises(ValueError, match="arena: episodes is 5; it must be even"):
        Arena("arena", agent(), Nim(), variables, opponents=one, episodes=5)
    with pytest.raises(ValueError, match=r"arena: opponents is \[\]; it must name at least one"):
        Arena("arena", agent(), Nim(), variables, opponents={})
    with pytest.raises(ValueError, match="arena: earlier is 1, keep is 1; they must be at least 0 and 2"):
        Arena("arena", agent(), Nim(), variables, opponents=one, earlier=1, keep=1)
