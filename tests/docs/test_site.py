"""The site is built without a warning, its code runs, and it quotes messages that exist."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import types

import pytest
from markdown_it import MarkdownIt

from boonta.envs import conformance
from boonta.programs.tools.list import choices
from boonta.programs.wiring.shipped import programs
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.examples import python_blocks

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "pages"
ROOMS = ("agents", "envs", "nodes", "programs")
LOADED = re.compile(r'<(?:script|img|iframe)[^>]+src="https?:[^"]+|<link[^>]+href="https?:[^"]+')
CODE = {path: blocks for path in sorted(PAGES.rglob("*.md")) if (blocks := python_blocks(path))}


@pytest.fixture
def site(tmp_path):
    """The site, built strictly: a broken link or anchor, or a name that has no docstring, fails."""
    folder = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(ROOT / "docs" / "mkdocs.yml"), "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_made_from_the_code_have_all_of_it_and_nothing_is_loaded_from_elsewhere(site):
    """They are one test, since two that run side by side would each build the site."""
    listed = (site / "reference/all_programs/index.html").read_text()
    assert all(f'id="{name}"' in listed for name in programs())
    configs = (site / "reference/configs/index.html").read_text()
    assert all(f'id="{name}"' in configs for name, _ in choices()["agents"])
    assert all((site / "agents" / name / "index.html").exists() for name, _ in choices()["agents"])
    matrix = (site / "reference/matrix/index.html").read_text()
    assert "--launch sebulba has no inference" in matrix and "--launch anakin has no inference" in matrix
    row = re.search(r"<tr>\s*<td[^>]*><code>catch</code></td>(.+?)</tr>", matrix, re.S)
    assert row is not None and "local_mp, sebulba, anakin" in row[1]
    for page in site.rglob("*.html"):
        assert not LOADED.findall(page.read_text()), page


def test_a_broken_link_fails(tmp_path):
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import hooks
    finally:
        sys.path.remove(str(ROOT / "docs"))

    class Page:
        class file:  # noqa: N801
            src_uri = "guides/program.md"

    class NoFiles:
        def get_file_from_path(self, name: str) -> None:
            return None

    def shown(text: str) -> str:
        return hooks.on_page_markdown(text, Page, None, NoFiles())

    assert shown("[x](../../../programs/impala.py)") == "x (`programs/impala.py`)"
    assert shown("[x](../../../programs/none.py)") == "[x](../../../programs/none.py)"


@pytest.mark.parametrize("page", CODE, ids=lambda page: page.stem)
def test_code_runs(page, monkeypatch):
    module = types.ModuleType("page")  # Its classes can be pickled, as those of a user's file.
    monkeypatch.setitem(sys.modules, "page", module)
    names = vars(module)
    for block in CODE[page]:
        exec(compile(block, str(page), "exec"), names)
    if page.stem == "environment":
        conformance.check(names["hunt"]())
    if page.stem == "program":
        assert names["mine"].__doc__


def test_messages_are_those_of_the_code():
    """The words of each entry of the page on trouble occur in the code, if they look like a message's."""
    source = "".join(path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # Long messages go over several lines.
    source = re.sub(r"\{[^}]+\}|\d", "", source)
    page = (PAGES / "troubleshooting.md").read_text()
    quoted = [words for line in re.findall(r"(?m)^(`.+)\n:   ", page) for words in re.findall(r"`([^`]+)`", line)]
    assert len(quoted) > 12
    assert not [words for words in quoted if re.sub(r"\d", "", words) not in source]


def test_own_pages_have_no_html():
    for path in PAGES.rglob("*.md"):
        assert not [token for token in MarkdownIt().parse(path.read_text()) if token.type == "html_block"], path
