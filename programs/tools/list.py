"""Lists all programs, agents, environments and tools.

./run boonta list
"""

from __future__ import annotations

import ast
import pathlib

from rich.markup import escape
from rich.table import Table

from boonta.programs.reports import tables
from boonta.programs.wiring.environments import FAMILIES
from boonta.programs.wiring.run_folder.provenance import ROOT
from boonta.programs.wiring.shipped import FOLDER, programs


def choices() -> dict[str, list[tuple[str, str]]]:
    """The names and descriptions of all programs, agents, environments and tools, by kind."""
    agents = {path.parent.name: path for path in sorted((ROOT / "agents").glob("*/__init__.py"))}
    tools = {path.stem: path for path in sorted((FOLDER / "tools").glob("*.py")) if path.stem != "__init__"}
    return {
        "programs": [(name, described(path)) for name, path in programs().items()],
        "agents": [(name, described(path)) for name, path in agents.items()],
        "environments": [(family.example, described(source(family.module))) for family in FAMILIES.values()],
        "tools": [(name, described(path)) for name, path in tools.items()],
    }


def source(module: str) -> pathlib.Path:
    """The file of one of our modules."""
    return ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")


def described(path: pathlib.Path) -> str:
    """The first sentence of a module's docstring, without importing it: its packages may be missing."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
    return text.partition(": `")[0].removesuffix(".") + "."


def main() -> None:
    """The command line of `list`."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for kind, listed in choices().items():
        table.add_row(f"[bold]{kind}[/bold]")
        for name, text in listed:
            table.add_row(f"  {escape(name)}", escape(text))
    tables.show(table)
