"""The rules of the house: who may import whom, and how long files get."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]


def sources(*folders: str) -> list[pathlib.Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imports(path: pathlib.Path) -> Iterator[str]:
    """Every dotted name a file imports, at the top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("boonta.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}".removeprefix("boonta.") for alias in node.names)


def offences(folders: tuple[str, ...], forbidden: set[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(*folders)
        for name in imports(path)
        if name.partition(".")[0] in forbidden
    ]


def is_concrete(name: str) -> bool:
    """Whether a dotted name is one agent or one environment, rather than the vocabulary they share."""
    package, _, rest = name.partition(".")
    if package == "agents":
        return (ROOT / "agents" / rest.partition(".")[0]).is_dir() and rest != ""
    # The replayed world has no rules of its own: it is whatever environment was recorded.
    return package == "envs" and rest != "" and not {"base", "replayed"} & set(rest.split("."))


def test_agents_and_envs_know_nothing_of_processes():
    processes = {"courier", "launchpad", "reverb", "tensorflow", "threading"}
    assert not offences(("agents", "envs"), processes)


def test_imports_flow_one_way():
    assert not offences(("envs",), {"nodes", "programs"})
    assert not offences(("agents",), {"nodes", "programs"})
    assert not offences(("nodes",), {"programs"})


def test_nodes_name_no_agent_and_no_environment():
    assert not [
        f"{path.name} imports {name}" for path in sources("nodes") for name in imports(path) if is_concrete(name)
    ]


def test_files_fit_in_one_sitting_and_programs_on_one_page():
    for path in sources("agents", "benchmarks", "deploy", "envs", "nodes", "programs", "tests"):
        limit = 60 if "programs.wiring.cluster.Cluster" in imports(path) else 300
        lines = len(path.read_text().splitlines())
        assert lines <= limit, f"{path.relative_to(ROOT)} has {lines} lines, more than {limit}"
