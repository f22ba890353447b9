"""Reads many malformed files of one format in a process of its own.

./run python -m boonta.tests.helpers.fuzzing archive_index 10000
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import pathlib
import resource
import sys
import tempfile

from hypothesis import HealthCheck, Phase, given, seed, settings

from boonta.tests.helpers.formats import ALLOWED, FORMATS, Format

BATCH = 500  # Cases after which Hypothesis begins anew: it remembers each case of a batch.
QUICK = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))


def outcome(form: Format, content: bytes) -> str:
    """Reads a malformed file: "read", or the name of the error. Errors that are not allowed pass through."""
    try:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # Tyro prints a usage.
            form.read(content)
    except ALLOWED as error:
        return type(error).__name__
    return "read"


def fuzz(name: str, cases: int) -> None:
    """Prints how often each outcome came, and the process's largest resident memory, as JSON.

    The seeds of the batches are 0, 1, …, so that a failure comes again.
    """
    outcomes: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="boonta-fuzzing-") as folder:
        form = FORMATS[name](pathlib.Path(folder))
        form.read(form.valid)
        for batch in range(-(-cases // BATCH)):

            @seed(batch)
            @settings(QUICK, max_examples=min(BATCH, cases - batch * BATCH), phases=[Phase.generate])
            @given(form.broken)
            def case(content: bytes) -> None:
                outcomes[outcome(form, content)] += 1

            case()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"outcomes": outcomes, "memory_bytes": memory}))


if __name__ == "__main__":
    fuzz(sys.argv[1], int(sys.argv[2]))
