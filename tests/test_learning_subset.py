"""The agents learn as they did when their intervals were recorded: short sweeps over several seeds, in a marked set."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUBSET = ROOT / "benchmarks" / "learning"
RECORDED = json.loads((SUBSET / "recorded.json").read_text())


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, SUBSET / "subset.py", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=900
    )


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize("name", RECORDED)
def test_its_interquartile_mean_is_not_below_its_interval(name):
    ended = run(name)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_what_is_not_recorded_is_refused():
    ended = run("impala-go")
    assert ended.returncode == 2 and "'impala-go' isn't recorded; there are impala-catch" in ended.stderr


def test_what_is_recorded_has_an_interval():
    for each in RECORDED.values():
        low, high = each["interval"]
        assert low <= each["interquartile_mean"] <= high and low < high
