"""Where the tests' servers listen."""

from __future__ import annotations

import tempfile

import pytest


@pytest.fixture
def address():
    """The address of a Unix socket in a folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="boonta-") as folder:
        yield f"unix:{folder}/server"
