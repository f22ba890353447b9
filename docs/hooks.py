"""MkDocs's hooks that make pages of the site from those of the repository."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parents[1]
OWN = "docs/pages"
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
PACKAGE = ("__init__.py", "agents", "envs", "nodes", "programs")
SUFFIXES = (".md", ".png", ".svg", ".gif")


def on_startup(**_: Any) -> None:
    """Makes a folder with the package `boonta` alone, for mkdocstrings: the repository holds much else."""
    package = ROOT / "docs" / ".package" / "boonta"
    package.mkdir(parents=True, exist_ok=True)
    for name in PACKAGE:
        if not (package / name).is_symlink():
            (package / name).symlink_to(ROOT / name)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages and pictures that lie elsewhere in the repository, each at its own place."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith((".", "__")) and name not in ("docs", "runs")]
        for name in names:
            place = pathlib.Path(folder, name).relative_to(ROOT)
            if place.suffix in SUFFIXES:
                files.append(File(str(place), str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Makes links of the repository those of the site; where a file has no page, its name takes the link's place.

    A link to what isn't there stays as it is, so that a strict build fails.
    """
    own, place = (ROOT / OWN / page.file.src_uri).is_file(), pathlib.PurePosixPath(page.file.src_uri)
    at = ROOT / (OWN if own else "") / place.parent

    def mended(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        found = pathlib.Path(os.path.normpath(at / target))
        if not found.exists() or not found.is_relative_to(ROOT):
            return link.group(0)
        name = str(found.relative_to(ROOT)).removeprefix(f"{OWN}/")
        if files.get_file_from_path(name) is None:
            return f"{text} (`{name}`)" if name not in text else text
        return f"[{text}]({os.path.relpath(name, place.parent)}{anchor or ''})"

    return LINK.sub(mended, markdown)
