"""The rules of the house: which modules may import which, and how long files get."""

from __future__ import annotations

import ast
import functools
import importlib
import pathlib
import re
from collections.abc import Iterator

import pytest
import yaml

from boonta.nodes.base import Node

pytestmark = pytest.mark.once
ROOT = pathlib.Path(__file__).resolve().parents[1]
ROOMS = ("agents", "deploy", "envs", "nodes", "programs")


def sources(*folders: str) -> list[pathlib.Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@functools.cache
def parsed(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: pathlib.Path) -> Iterator[str]:
    """Every dotted name a file imports, at the top or inside a function."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("boonta.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}".removeprefix("boonta.") for alias in node.names)


def name_of(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def top_imports(path: pathlib.Path) -> set[str]:
    """The modules of ours that a file imports when it is itself imported."""
    found = set()
    for node in parsed(path).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("boonta."):
            module = node.module.removeprefix("boonta.")
            inner = {f"{module}.{alias.name}" for alias in node.names}
            files = {name for name in inner if (ROOT / (name.replace(".", "/") + ".py")).exists()}
            found |= files or {module}
    return found


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
    shared = {"actions", "base", "names", "one_slot", "purity", "step_check", "wrapped"}
    return package == "envs" and rest != "" and not shared & set(rest.split("."))


def test_agents_and_envs_know_nothing_of_processes():
    processes = {"launchpad", "reverb", "tensorflow", "threading"}
    assert not offences(("agents", "envs"), processes)


def test_imports_flow_one_way():
    assert not offences(("envs",), {"agents", "nodes", "programs"})
    assert not offences(("agents",), {"nodes", "programs"})
    assert not offences(("nodes",), {"programs"})
    lower = sources("programs/wiring", "programs/experiments", "programs/reports", "deploy")
    assert not [path.name for path in lower if any(name.startswith("programs.tools") for name in imports(path))]


def test_nodes_name_no_agent_and_no_environment():
    assert not [
        f"{path.name} imports {name}" for path in sources("nodes") for name in imports(path) if is_concrete(name)
    ]


def test_files_fit_in_one_sitting_and_programs_on_one_page():
    for path in sources(*ROOMS, "benchmarks", "tests"):
        limit = 65 if path.parent == ROOT / "programs" else 300
        lines = len(path.read_text().splitlines())
        assert lines <= limit, f"{path.relative_to(ROOT)} has {lines} lines, more than {limit}"


def lines_of(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_functions_fit_on_one_screen():
    """Without their docstrings, and without the functions inside of them."""
    for path in sources(*ROOMS, "benchmarks", "tests"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                apart = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                apart += node.body[:1] if ast.get_docstring(node) is not None else []
                lines = lines_of(node) - sum(map(lines_of, apart))
                assert lines <= 50, f"{path.relative_to(ROOT)}: {node.name} has {lines} lines of its own, more than 50"


def test_docstrings_describe_arguments_and_never_finish_their_names():
    """`client: a client of the server`, and not `client: of the server`."""
    finishes = re.compile(r"^ {6,}[a-z_]+: (of|that|to|whose) .*", re.MULTILINE)
    assert not [
        f"{path.relative_to(ROOT)}: {found[0].strip()}"
        for path in sources(*ROOMS, "benchmarks")
        for found in finishes.finditer(path.read_text())
    ]


def test_launchpad_is_touched_where_a_program_becomes_one_of_its_own():
    """The first code in that program's processes may import it, too."""
    known = {f"programs/wiring/interpreters/{name}.py" for name in ("alone", "launchpad", "worker")}
    assert {words.partition(" ")[0] for words in offences((*ROOMS, "benchmarks"), {"launchpad"})} == known


def test_only_a_benchmark_calls_by_courier_which_runs_what_it_is_sent():
    assert set(offences((*ROOMS, "benchmarks", "tests"), {"courier"})) == {"benchmarks/calls.py imports courier"}


def test_reverb_is_touched_in_two_rooms():
    """One loads it without TensorFlow; what an archive reads of checkpoints, and Acme's datasets, need TensorFlow."""
    found = offences((*ROOMS, "benchmarks"), {"reverb", "tensorflow"})
    known = {"nodes/tables/reverb/recorded.py", "nodes/acme/datasets.py", "programs/tools/datasets/rlds.py"}
    assert {words.partition(" ")[0] for words in found} == known
    assert written(r"\bfind_spec\(") & written(r"libpybind") == {"nodes.tables.reverb.library"}


def test_acme_is_touched_in_its_room_alone():
    """It needs CPython 3.10, and brings TensorFlow."""
    found = {words.partition(" ")[0] for words in offences(ROOMS, {"acme"})}
    assert found and all(file.startswith("nodes/acme/") for file in found)


def written(pattern: str) -> set[str]:
    """The modules whose text has a match of a pattern."""
    return {name_of(path) for path in sources(*ROOMS, "benchmarks") if re.search(pattern, path.read_text())}


def test_what_libraries_keep_private_and_abrupt_ends_are_in_known_places():
    """Each place has the reason, and the version that makes it needless."""
    private = {words.partition(" ")[0] for words in offences((*ROOMS, "benchmarks"), {"jax"}) if "jax._src" in words}
    assert private == {"nodes/hosts/coordination.py", "programs/wiring/machine/accelerators.py"}
    assert written(r"\bos\._exit\(") == {"nodes.watch.ending"}
    assert written(r"\bjax\.tree_map = ") == {"agents.muzero.search"}
    hidden = {"agents.light_rlax", "nodes.tables.reverb.library"}  # Distrax and TensorFlow.
    assert written(r"\bsys\.modules\[.*\] = ") == hidden | {
        "envs.processes",  # The main module, from workers.
        "programs.wiring.command_line.loading",  # The program's own file.
    }


def test_on_top_of_nodes_are_only_nodes():
    """The exceptions are base, checkpoint and metrics; the rest has rooms."""
    for path in (ROOT / "nodes").glob("*.py"):
        if path.stem in ("__init__", "base", "checkpoint", "metrics"):
            continue
        module = importlib.import_module(f"boonta.nodes.{path.stem}")
        own = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
        assert any(issubclass(each, Node) for each in own), f"{path.name} has no node; it belongs into a room"


def test_every_package_is_in_the_wheel():
    """Setuptools is given a list, since the root of the package is the repository."""
    text = (ROOT / "pyproject.toml").read_text()
    folders = {path.parent for folder in ROOMS for path in (ROOT / folder).rglob("__init__.py")}
    wanted = {"boonta", *(f"boonta.{folder.relative_to(ROOT)}".replace("/", ".") for folder in folders)}
    assert wanted == set(re.findall(r'"(boonta[\w.]*)",', text.partition("packages = [")[2].partition("]")[0]))


def test_no_test_module_imports_another():
    """What tests share is in tests/helpers, so that a test file can be read, moved and run alone."""
    assert not [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources("tests")
        for name in imports(path)
        if any(part.startswith("test_") for part in name.split("."))
    ]


def test_imports_have_no_circles():
    """No module imports, at its top, one that imports it at its own top."""
    edges = {name_of(path): top_imports(path) for path in sources(*ROOMS)}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above, name])
        if name not in done:
            for other in edges.get(name, ()):
                visit(other, (*above, name))
            done.add(name)

    for name in edges:
        visit(name, ())


def test_the_citation_names_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert f'version = "{cited["version"]}"' in (ROOT / "pyproject.toml").read_text()
    assert f"\n## {cited['version']}" in (ROOT / "CHANGELOG.md").read_text()
