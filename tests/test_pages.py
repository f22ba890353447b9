"""The commands on all pages are ones that can be given."""

from __future__ import annotations

import os
import pathlib
import re

import pytest

from boonta.tests.helpers import pages

COMMANDS = pages.commands()
WHOLE = [command for command in COMMANDS if command.is_whole]
# Some commands need the cluster, and none differs on another Python. Modules of ours are run that are imported already.
pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")]


@pytest.fixture(autouse=True)
def _from_the_repository(monkeypatch):
    monkeypatch.chdir(pages.ROOT)


def test_all_pages_are_read():
    found = {command.page for command in COMMANDS}
    assert {"README.md", "CHANGELOG.md", "agents/muzero/README.md", "benchmarks/README.md", "deploy/README.md"} <= found
    assert len(WHOLE) > 60


def test_what_commands_run_is_there():
    assert not [command for command in COMMANDS if not command.is_there]


@pytest.mark.parametrize("command", WHOLE, ids=lambda command: f"{command.page}: {' '.join(command.words)}"[:90])
def test_a_command_takes_its_words(command):
    pages.taken(command.words)


@pytest.mark.parametrize(
    "wrong",
    [
        "programs/impala.py catch --config.lstm-sizes 3",
        "programs/muzero.py gymnasium/CartPole-v1 --launch anakin",
        "python -m boonta.deploy.slurm programs/impala.py --nodes 4 -- atari/Pong --actorz 3",
        "BOONTA_PYTHON=3.13 ./run boonta play --workdirs runs/x",
        "boonta doctor --jsn",
    ],
)
def test_a_wrong_command_is_found(wrong):
    (command,) = pages.commands_of(f"`{wrong}`", "a page")
    with pytest.raises((AssertionError, ValueError, OSError, SystemExit)):
        pages.taken(command.words)


def test_folders_that_commands_read_are_made_by_others():
    """A run's default folder is named by its settings, and a sweep's by its file."""
    made, read = set(), {}
    for command in WHOLE:
        value = pages.taken(command.words)
        folder = value if isinstance(value, pathlib.Path) else getattr(value, "workdir", None)
        if folder is not None:
            made.add(os.path.relpath(folder))
        named = [word for word in command.words if re.fullmatch(r"runs/[\w./-]+", word)]
        read |= {word: command for word in named if folder is None or os.path.relpath(folder) != word}
    assert not [(word, command) for word, command in read.items() if word not in made]
