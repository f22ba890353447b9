"""The examples of Markdown pages."""

from __future__ import annotations

import pathlib

from markdown_it import MarkdownIt


def python_blocks(page: pathlib.Path) -> list[str]:
    """The content of each block of Python in a page."""
    tokens = MarkdownIt().parse(page.read_text())
    return [token.content for token in tokens if token.type == "fence" and token.info == "python"]
