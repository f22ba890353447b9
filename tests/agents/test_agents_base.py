"""What a row is made of, and what a table refuses, before anything is launched."""

from __future__ import annotations

import math

import pytest

from boonta.agents.base import Steps, Table
from boonta.envs.base import TimeStep


def test_a_row_is_made_of_a_time_step_and_gives_it_back():
    timestep = TimeStep("step type", "reward", "discount", "observation")
    row = Steps.of(timestep, "action", "extras", "version", "core")
    assert row._asdict() == {name: name.replace("_", " ") for name in Steps._fields}
    assert row.timestep == timestep


def replay(**fields) -> Table:
    return Table(**{**dict(name="t", kind="replay", sequence_length=6, period=5, batch_size=4, size=10), **fields})


@pytest.mark.parametrize("sampler", ["uniform", "proportional", "rank"])
@pytest.mark.parametrize("ratio", [None, 0.25, 4.0])
def test_replay_tables_take_any_sampler_and_ratio(sampler, ratio):
    table = replay(sampler=sampler, samples_per_insert=ratio, min_size=10, priority_exponent=0.0)
    assert table.samples_per_insert == ratio


@pytest.mark.parametrize(("ratio", "definite", "env_steps"), [(None, 1.0, 20.0), (0.25, 0.25, 80.0), (4.0, 4.0, 5.0)])
def test_a_free_ratio_counts_as_one_sample_an_insert(ratio, definite, env_steps):
    """A batch of 4 sequences, with 5 new steps each."""
    table = replay(sampler="uniform", samples_per_insert=ratio)
    assert (table.definite_samples_per_insert, table.env_steps_per_update) == (definite, env_steps)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "stack"}, "kind is 'stack'; allowed"),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"sampler": None}, "sampler is None; a replay table draws 'uniform', 'proportional' or 'rank'"),
        ({"sampler": "fifo"}, "sampler is 'fifo'; a replay table draws 'uniform', 'proportional' or 'rank'"),
        ({"samples_per_insert": 0.0}, "samples_per_insert is 0.0; it must be above 0, or None"),
        ({"samples_per_insert": math.nan}, "samples_per_insert is nan"),
        ({"priority_exponent": -0.5}, "priority_exponent is -0.5; it must be at least 0"),
        ({"priority_exponent": math.inf}, "priority_exponent is inf"),
        ({"min_size": 11}, r"min_size is 11, but the table keeps at most 10 \(size\)"),
        ({"writer": "evaluator"}, "writer is 'evaluator'; allowed: 'actor', 'reanalyzer'"),
        ({"share": 1.5}, r"share is 1.5; it must be in \[0, 1\]"),
        ({"share": math.nan}, "share is nan"),
        ({"kind": "queue"}, "sampler is 'uniform', samples_per_insert 1.0; a queue's must be None and 1, since"),
        ({"kind": "queue", "sampler": "fifo"}, "sampler is 'fifo', .*; a queue's must be None and 1, since"),
        ({"kind": "queue", "sampler": None, "samples_per_insert": 2.0}, "sampler is None, samples_per_insert 2.0; a q"),
        ({"kind": "queue", "sampler": None, "samples_per_insert": None}, "samples_per_insert None; a queue's must be"),
    ],
)
def test_tables_that_cannot_work_are_refused(fields, message):
    with pytest.raises(ValueError, match=f"table 't': .*{message}"):
        replay(**{"sampler": "uniform", **fields})
