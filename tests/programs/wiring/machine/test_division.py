"""How the GPUs of a machine are divided: cases by hand."""

from __future__ import annotations

import pytest

from boonta.programs.wiring.machine.division import FRACTION, divide
from boonta.programs.wiring.run import BadInput


def seen(asks: dict[str, float | None], *gpus: str) -> dict[str, str]:
    """By node, the GPUs that it sees."""
    return {name: variables["CUDA_VISIBLE_DEVICES"] for name, variables in divide(asks, gpus, "this machine").items()}


def test_whole_gpus_are_a_nodes_own():
    asks = {"inference": 2.0, "learner/0": 1.0, "learner/1": 1.0}
    assert seen(asks, "3", "5", "6", "7") == {"inference": "3,5", "learner/0": "6", "learner/1": "7"}


def test_shares_are_packed_onto_a_gpu_while_they_fit():
    asks = {f"actor/{i}": 0.1 for i in range(10)} | {"learner": 0.75, "evaluator": 0.25, "reanalyzer/0": 1.0}
    found = seen(asks, "0", "1", "2")
    assert (found["reanalyzer/0"], found["learner"], found["evaluator"]) == ("0", "1", "1")
    assert {found[f"actor/{i}"] for i in range(10)} == {"2"}  # Ten tenths are one, whatever binary fractions say.


def test_the_largest_share_comes_first_so_that_more_fit():
    asks = {"a": 0.3, "b": 0.3, "c": 0.7, "d": 0.7}
    assert seen(asks, "0", "1") == {"a": "0", "b": "1", "c": "0", "d": "1"}


def test_nodes_that_ask_for_nothing_share_what_is_left():
    asks = {"inference": None, "learner": None, "evaluator": 0.2, "reanalyzer/0": 1.0, "actor/0": 1.0}
    found = divide(asks, ("0", "1", "2", "3"), "this machine")
    for name in ("inference", "learner"):
        assert found[name] == {"CUDA_VISIBLE_DEVICES": "2,3", FRACTION: "0.6"}  # Three quarters of the 0.8 of GPU 2.
    assert found["evaluator"] == {"CUDA_VISIBLE_DEVICES": "2"}  # What it may take is its group's.
    assert FRACTION not in divide({"learner": None, "evaluator": 1.0}, ("0", "1"), "this machine")["learner"]


def test_a_gpu_that_is_shared_out_is_none_of_the_rest():
    assert seen({"learner": None, "evaluator": 0.5, "actor/0": 0.5}, "0", "1")["learner"] == "1"


@pytest.mark.parametrize(
    ("asks", "gpus", "message"),
    [
        ({"learner": 1.0}, (), "^learner asks for 1 GPU, for which it has no room: .* 1 together, and it has 0 GPUs$"),
        ({"learner": 1.0, "evaluator": 0.25}, ("0",), "^evaluator asks for 0.25 of a GPU, .* 1.25 together, .* 1 GPU$"),
        ({"a": 0.6, "b": 0.6, "c": 0.6}, ("0", "1"), "^c asks for 0.6 of a GPU, for which .* 1.8 together, .* 2 GPUs$"),
        ({"a": 2.0, "b": 1.0}, ("0", "1"), "^b asks for 1 GPU, for which"),
        ({"learner": None, "evaluator": 1.0}, ("0",), "^it has 1 GPU, of which nothing is left for learner: give its"),
        ({"learner": None, "a": 0.5, "b": 0.5}, ("0",), "nothing is left for learner"),
    ],
)
def test_what_does_not_fit_is_refused(asks, gpus, message):
    with pytest.raises(BadInput, match=message):
        divide(asks, gpus, "it")
