"""Numbers for a config's fields, as command lines give them."""

from __future__ import annotations

import pytest

from boonta.agents import impala
from boonta.programs.wiring.command_line.fields import numbers_by_field
from boonta.programs.wiring.run import BadInput


def test_numbers_and_fields_that_may_be_none():
    given = ["optimiser.learning_rate=1e-3,2", "optimiser.epsilon=1e-5"]
    assert numbers_by_field(impala.CATCH, given, "vary") == {
        "optimiser.learning_rate": [0.001, 2.0],
        "optimiser.epsilon": [1e-5],
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["speed=1"],
            "--vary 'speed=1' is not FIELD=NUMBER,NUMBER,… with another field of .*'optimiser.learning_rate'",
        ),
        (["learning_rate=1"], "--vary 'learning_rate=1' is not FIELD=NUMBER,NUMBER,… with another field of"),
        (["discount=1", "discount=0"], "--vary 'discount=0' is not .* with another field of"),
        (["discount"], "--vary 'discount' is not FIELD=NUMBER,NUMBER,…: '' are no numbers"),
        (["discount=far"], "'far' are no numbers"),
        (["frame_stack=1,2"], "frame_stack is 1, which the program needs before it is compiled; allowed: .*'discount'"),
        (
            ["optimiser.anneal_updates=9"],
            "optimiser.anneal_updates is None, which the program needs before it is compiled",
        ),
    ],
)
def test_what_is_no_number_of_the_config_is_refused(given, message):
    with pytest.raises(BadInput, match=message):
        numbers_by_field(impala.CATCH, given, "vary")
