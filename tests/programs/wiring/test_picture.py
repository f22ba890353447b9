"""The picture of a program."""

from __future__ import annotations

import pathlib

import pytest

from boonta.programs.wiring.command_line.arguments import function_of, parse
from boonta.programs.wiring.picture import picture_of
from boonta.programs.wiring.run_folder.recorded import Picture

pytestmark = pytest.mark.once
ROOT = pathlib.Path(__file__).resolve().parents[3]
SWAP = "tests/helpers/swap_program"


def drawn(name: str, *words: str) -> Picture:
    function = function_of(ROOT / f"{name}.py")
    run, settings = parse(function, words)
    return picture_of(function(run=run, **settings))


def arrows(picture: Picture) -> set[tuple[str, str, str]]:
    return {(arrow.source, arrow.target, arrow.what) for arrow in picture.arrows}


IMPALA = {
    ("actor", "replay", "steps"),
    ("replay", "learner", "batches"),
    ("learner", "variables", "params"),
    ("variables", "actor", "params"),
    ("variables", "evaluator", "params"),
}


def test_arrows_follow_the_data():
    picture = drawn("programs/impala", "catch", "--actors", "2")
    assert arrows(picture) == IMPALA
    assert {group.label: group.names for group in picture.groups}["actor"] == ("actor/0", "actor/1")


def test_a_reanalyzer_reads_and_writes_steps():
    again = {
        ("replay", "reanalyzer", "batches"),
        ("reanalyzer", "replay", "steps"),
        ("variables", "reanalyzer", "params"),
    }
    assert arrows(drawn("programs/reanalyze", "catch")) == IMPALA | again


def test_with_central_inference_actors_get_actions_and_no_params():
    found = arrows(drawn("programs/central_inference", "catch"))
    assert {("actor", "inference", "observations"), ("inference", "actor", "actions")} <= found
    assert ("variables", "inference", "params") in found and ("variables", "actor", "params") not in found


def test_an_inference_node_acts_for_reanalyzers_too():
    found = arrows(drawn(SWAP, *["--agent", "muzero", "--acting", "central", "--reanalyzers", "1"]))
    assert {("reanalyzer", "inference", "observations"), ("inference", "reanalyzer", "actions")} <= found
    assert ("variables", "reanalyzer", "params") not in found


def test_nodes_are_those_that_run():
    assert [group.names for group in drawn("programs/impala", "catch", "--launch", "anakin").groups] == [("anakin",)]
    split = drawn("programs/impala", "catch", "--launch", "sebulba")
    assert {group.label: group.names for group in split.groups}["actor"] == ("actor/0",)
