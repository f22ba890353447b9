"""What a shell completes of `boonta`'s command line."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from boonta.__main__ import TOOLS
from boonta.programs.tools import completion
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = [pytest.mark.once, pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")]


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "boonta"
    with pytest.MonkeyPatch.context() as patch, open(path, "w") as file:
        patch.setattr("sys.stdout", file)
        completion.completion("bash")
    return path


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["train", "mu"], ["muzero"]),
        (["train", "impala", "mina"], ["minatar/breakout"]),
        (["play", "--which", ""], ["newest", "best"]),
        (["report", "--li"], ["--live"]),
        (["doctor", "--js"], ["--json"]),
    ],
)
def test_names_and_flags_are_completed(script, words, wanted):
    assert completed(script, *words) == wanted


def test_all_tools_are_completed(script):
    assert set(completed(script, "")) >= set(TOOLS) & set(completion.tools())
    assert set(TOOLS) - set(completion.tools()) <= {"explain", "export", "match"}


def completed(script, *words: str) -> list[str]:
    """What bash offers for the last word."""
    code = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tyro_boonta; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", code, str(script), "boonta", *words], capture_output=True, text=True, timeout=DEADLINE_S
    )
    return done.stdout.split()
