"""The outcome of a sweep's job, from its folder."""

from __future__ import annotations

import json

import pytest

from boonta.programs.experiments import outcome
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.spec import Entry
from boonta.programs.wiring.run_folder.config_file import without_secrets


@pytest.mark.parametrize("recorded", [without_secrets, list])
@pytest.mark.parametrize(("now", "done"), [("learner:XLA_FLAGS=--a", True), ("learner:XLA_FLAGS=--b", False)])
def test_a_run_that_is_done_stays_so_though_its_secrets_are_not_recorded(tmp_path, recorded, now, done):
    """An older Boonta has recorded them."""

    def job(variable: str) -> Job:
        flags = {"process-env": ["actor:API_TOKEN=hunter2", variable], "launch": "local_mp"}
        return Job("one", (Entry("one", "p.py", "catch", 0, flags, {}),))

    words = job("learner:XLA_FLAGS=--a").command(tmp_path)[1:]
    config = {"program": "p", "seed": 0, "settings": {}, "arguments": recorded(words)}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "run.log").write_text(
        "2026-01-01T00:00:00+0000 DEBUG started: --launch local_mp\n2026-01-01T00:00:00+0000 DEBUG ended with code 0\n"
    )
    assert outcome.is_done(tmp_path, job(now)) is done
