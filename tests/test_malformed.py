"""Whatever is in a file or message, what reads it reads it or refuses it with a ValueError, an OSError or BadInput."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings

from boonta.tests.helpers.formats import FORMATS
from boonta.tests.helpers.fuzzing import QUICK, outcome

CASES = 100_000
LARGEST = 1e9  # Bytes of memory, with the 0.3 GB of the libraries.


@pytest.mark.once
@pytest.mark.unoptimised
@pytest.mark.parametrize("name", FORMATS)
def test_malformed_input_is_refused(name, tmp_path):
    form = FORMATS[name](tmp_path)
    form.read(form.valid)

    @settings(QUICK, max_examples=200, derandomize=True)
    @given(form.broken)
    def case(content: bytes) -> None:
        outcome(form, content)

    case()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FORMATS)
def test_a_hundred_thousand_malformed_inputs_are_refused_in_bounded_memory(name, tmp_path):
    cases = FORMATS[name](tmp_path).share * CASES // 100
    command = [sys.executable, "-m", "boonta.tests.helpers.fuzzing", name, str(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    print(name, result)
    assert sum(result["outcomes"].values()) >= 0.9 * cases  # Hypothesis makes fewer where it finds no more.
    assert result["memory_bytes"] <= LARGEST


def test_the_shares_of_the_formats_are_a_hundred(tmp_path):
    made = []
    for name, make in FORMATS.items():
        (tmp_path / name).mkdir()
        made.append(make(tmp_path / name))
    assert sum(form.share for form in made) == 100
