"""A MkDocs hook that makes pages from the code: programs, configs, what runs where, and the pictures of programs."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from boonta.agents.config import declared_of, leaves
from boonta.programs.reports import picture
from boonta.programs.tools.list import choices, described
from boonta.programs.wiring import launch
from boonta.programs.wiring.command_line import help
from boonta.programs.wiring.command_line.arguments import function_of, parse
from boonta.programs.wiring.environments import EXAMPLES
from boonta.programs.wiring.interpreters import sebulba
from boonta.programs.wiring.pace import Pace
from boonta.programs.wiring.picture import picture_of
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.shipped import programs

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What refuses a program, by way to run, as far as nothing need be compiled; local_mt and serial run what local_mp does.
# Sebulba refuses tables where it makes them.
CHECKS: Mapping[str, Callable[[Program], Any]] = {
    "local_mp": launch.require,
    "sebulba": sebulba.build,
    "anakin": launch.require,
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists the pages of all agents."""
    assert config.nav is not None
    pages = [f"agents/{name}/README.md" for name, _ in choices()["agents"]]
    (place,) = (item for item in config.nav if "Agents" in item)
    place["Agents"] = [page for page in pages if (ROOT / page).is_file()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    jax.config.update("jax_platforms", "cpu")
    made = {f"reference/{page.__name__}.md": "\n\n".join(page()) + "\n" for page in (all_programs, configs, matrix)}
    for name in ("impala", "central_inference", "reanalyze"):
        made[f"concepts/{name}.svg"] = drawn(name)
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def all_programs() -> Iterator[str]:
    """All programs with their own flags, and those of every run."""
    yield "# Programs"
    yield "`./run python programs/NAME.py ENVIRONMENT FLAGS`, or `./run boonta train NAME ENVIRONMENT FLAGS`."
    for name, path in programs().items():
        function = function_of(path)
        flags: dict[str, Any] = {}
        for each in inspect.signature(function).parameters.values():
            if each.name != "run":
                flags |= vars(each.default) if isinstance(each.default, Pace) else {each.name: each.default}
        yield f"## {name}"
        yield described(path)
        yield _flags(flags, help.described(Pace) | help.described(function))
    yield "## Every run"
    yield _flags({field.name: field.default for field in dataclasses.fields(Run)}, help.described(Run))


def configs() -> Iterator[str]:
    """The config of each agent: all fields with default, unit, bounds and source."""
    yield "# Configs"
    yield "A field's flag is `--config.` and its name, with dashes. The environment's kind chooses the preset."
    for name, text in choices()["agents"]:
        config = importlib.import_module(f"boonta.agents.{name}").Config()
        rows = []
        for field, value in leaves(config).items():
            found = declared_of(config, field)
            declared = (found.help, found.unit, found.range, found.source) if found else ("", "", "", "")
            rows.append((f"`{field}`", _shown(value), *declared))
        yield f"## {name}"
        yield text
        yield _table(("field", "default", "meaning", "unit", "allowed", "source"), rows)


def matrix() -> Iterator[str]:
    """Which programs can run in which environments, and how: each is built and checked as a launch does it."""
    yield "# What runs where"
    yield (
        "This table is made by building each program in each environment, and by letting each way to run refuse it. "
        "`local_mt` and `serial` run what `local_mp` does. An empty cell is refused; the reasons are below."
    )
    reasons: dict[str, list[str]] = {}
    names = [name for name, path in programs().items() if "env" in inspect.signature(function_of(path)).parameters]
    rows = []
    for example in EXAMPLES:
        cells = []
        for name in names:
            ways = []
            for way, refusal in tried(name, example).items():
                if refusal:
                    reasons.setdefault(refusal, []).append(f"{name} in {example}, {way}")
                else:
                    ways.append(way)
            cells.append(", ".join(ways))
        rows.append((f"`{example}`", *cells))
    yield _table(("environment", *names), rows)
    yield "## Why not"
    yield _table(("reason", "where"), [(reason, "; ".join(where)) for reason, where in reasons.items()])


def tried(name: str, example: str) -> dict[str, str]:
    """By way to run, why a program can't run so in an environment; empty where it can."""
    function = function_of(programs()[name])
    try:  # Parsing takes most of the time, and does not depend on the way to run.
        run, settings = parse(function, [example])
    except (BadInput, ValueError, ImportError) as error:
        return dict.fromkeys(CHECKS, str(error))
    found = {}
    for way, check in CHECKS.items():
        try:
            check(function(run=dataclasses.replace(run, launch=way), **settings))
            found[way] = ""
        except (BadInput, ValueError, ImportError) as error:
            found[way] = str(error)
    return found


def drawn(name: str) -> str:
    """The picture of a program, as an SVG."""
    function = function_of(programs()[name])
    run, settings = parse(function, ["catch", "--actors", "2"])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "picture.svg"
        picture.draw(picture_of(function(run=run, **settings)), path)
        return path.read_text()


def _flags(defaults: Mapping[str, Any], words: Mapping[str, str]) -> str:
    rows = [(_flag(name, default), _shown(default), words.get(name, "")) for name, default in defaults.items()]
    return _table(("flag", "default", "meaning"), rows)


def _flag(name: str, default: Any) -> str:
    if name == "env":
        return "the first argument, `--env.…`"
    group = dataclasses.is_dataclass(default) or name in ("config", "evaluation")
    return f"`--{name.replace('_', '-')}{'.…' if group else ''}`"


def _shown(value: Any) -> str:
    if value is inspect.Parameter.empty or dataclasses.is_dataclass(value):
        return ""
    return f"`{value}`" if value not in (None, "", ()) else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in line) + " |" for line in lines
    )
