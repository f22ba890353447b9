"""Matches from the command line, on runs of Nim."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.programs.wiring.run import BadInput  # noqa: E402

players = pytest.importorskip("boonta.envs.players")
from boonta.agents import muzero  # noqa: E402
from boonta.programs.tools import match  # noqa: E402
from boonta.programs.wiring import evaluation, trained  # noqa: E402
from boonta.tests.helpers import nim, nim_program  # noqa: E402


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs whose agents take one, and two; of a heap of five."""
    folder = tmp_path_factory.mktemp("runs")
    return [nim_program.make_run(folder / str(number), number) for number in (1, 2)]


def test_two_runs_play_each_other(runs, capsys):
    match.match(runs[1], str(runs[0]), games=10, opening=0)
    assert capsys.readouterr().out.splitlines() == [
        "as first      5 won     0 drawn     0 lost  of    5",
        "as second     5 won     0 drawn     0 lost  of    5",
        "as either    10 won     0 drawn     0 lost  of   10",
        "Elo +inf over the opponent, 95% interval +166 to +inf",
    ]


def test_two_runs_begin_at_random_unless_asked_otherwise(runs):
    outcome = match.match(runs[1], str(runs[0]), games=32)
    assert outcome.sum() > 0 and outcome.min() < 0


def test_a_run_plays_as_it_is_evaluated(runs):
    agent, batch = nim.agent()._replace(policy=None), nim.Nim(5)(2, 0)
    side = match.run_side(agent, runs[1], "newest", None)(batch, 0)
    assert side(batch.reset(), np.ones(2, bool), None).tolist() == [1, 1]  # It takes two.


def test_games_that_tell_nothing_are_counted(runs, capsys):
    match.match(runs[1], str(runs[0]), games=32, opening=2, max_steps=3)
    *_, cut, random = capsys.readouterr().out.splitlines()
    assert cut.endswith(" of 32 games were cut after 3 steps (--max-steps), and count as drawn")
    assert random.endswith(" of 32 games were over within the 2 random moves of the opening (--opening)")
    assert (runs[1] / "matches.txt").read_text().endswith(f"{cut}\n{random}\n\n")


@pytest.mark.parametrize("opponent", ["uct:10", "perfect"])
def test_a_player_of_other_games_is_refused_by_its_flag(runs, opponent):
    with pytest.raises(BadInput, match=f"--opponent {opponent} plays games of OpenSpiel and Pgx, and .* holds another"):
        match.match(runs[1], opponent, games=10)
    assert list(evaluation.opponents_in(nim.Nim(5), rollouts=1)) == ["random"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"opening": 5}, "measures nothing: 10 of 10 games were over within the 5 random moves of the opening"),
        ({"max_steps": 1}, "measures nothing: 10 of 10 games were cut after 1 steps"),
        ({"max_steps": 0}, "--max-steps is 0, --opening None; they must be at least 1 and 0"),
        ({"opening": -1}, "--opening -1; they"),
    ],
)
def test_a_match_that_measures_nothing_is_refused(runs, settings, message):
    kept = runs[1] / "matches.txt"
    before = kept.read_text() if kept.exists() else ""
    with pytest.raises(BadInput, match=message):
        match.match(runs[1], "random", games=10, **settings)
    assert (kept.read_text() if kept.exists() else "") == before


def test_a_player_is_an_opponent_as_well(runs, capsys):
    match.match(runs[1], "random", games=20)
    *_, total, _ = capsys.readouterr().out.splitlines()
    assert total.endswith("of   20") and int(total.split()[2]) >= 10


def test_the_table_counts_by_side():
    assert match.table(np.array([1, -1, 1, -1, 0, -1, 1, 0.0])).splitlines() == [
        "as first      3 won     1 drawn     0 lost  of    4",
        "as second     0 won     1 drawn     3 lost  of    4",
        "as either     3 won     2 drawn     3 lost  of    8",
        "Elo +0 over the opponent, 95% interval -225 to +225",
    ]


def test_opponents_are_named():
    assert match.parse_player("uct:1000") == players.UctPlayer(1000)
    assert match.parse_player("perfect") == players.PerfectPlayer()
    assert match.parse_player("random") == players.RandomPlayer()


@pytest.mark.parametrize(
    "opponent, message",
    [
        ("uct:many", "'uct:many': rollouts must be a number, as in uct:1000"),
        ("stockfish", "'stockfish' is no run's folder; also allowed: random, uct:ROLLOUTS, perfect"),
    ],
)
def test_an_unknown_opponent_is_refused(runs, opponent, message):
    with pytest.raises(BadInput, match=message):
        match.match(runs[0], opponent)


def test_a_search_may_be_given_other_simulations(tmp_path, monkeypatch):
    asked = []

    def program(run, config: muzero.Config):
        asked.append(config)
        raise BadInput("that is all")

    recorded = program, None, {"config": muzero.Config(num_simulations=3)}
    monkeypatch.setattr(trained, "call_of", lambda workdir: recorded)
    with pytest.raises(BadInput, match="that is all"):
        match.match(tmp_path, "random", simulations=200)
    assert asked == [muzero.Config(num_simulations=3, eval_simulations=200)]


def test_what_cannot_be_a_match_is_refused(runs, tmp_path):
    with pytest.raises(BadInput, match="--games is 7; it must be even"):
        match.match(runs[0], "random", games=7)
    with pytest.raises(BadInput, match="--simulations is 200, but the agent of .* does not search"):
        match.match(runs[0], "random", simulations=200)
    other = nim_program.make_run(tmp_path / "run", 1, "--heap", "6")
    with pytest.raises(BadInput, match="holds a run of another game"):
        match.match(runs[0], str(other))
