"""The commands of Markdown pages, and what each makes of its own words up to where its work would begin."""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import os
import pathlib
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

import tyro
from markdown_it import MarkdownIt

from boonta.__main__ import TOOLS
from boonta.__main__ import main as boonta_main
from boonta.deploy import program as deployed
from boonta.nodes.watch import ending
from boonta.programs.experiments import spec
from boonta.programs.tools import sweep
from boonta.programs.wiring import launch
from boonta.programs.wiring.command_line.arguments import function_of, parse, split_flags
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import Run

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHELLS = ("", "sh", "bash", "console")  # What the fence of a shell's commands says.
BAD_INPUT = 2  # The exit code of a command line that can't work; 1 is for a folder that isn't there, say.
FILES = re.compile(r"(programs|benchmarks)/[\w/]+\.py")


class Command(NamedTuple):
    """A command of a page that runs something of ours.

    Attributes:
      page: the page's path in the repository.
      words: its words, without `./run` and variables before it.
    """

    page: str
    words: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is more than a tool's name, and nothing of it is left out by an ellipsis."""
        return len(self.words) > 2 and not any("…" in word for word in self.words)

    @property
    def is_there(self) -> bool:
        """Whether the file, module or tool that it runs exists."""
        first, second, *rest = self.words
        if first == "boonta":
            return second in TOOLS
        file = rest[0].removeprefix("boonta.").replace(".", "/") + ".py" if second == "-m" else second
        return (ROOT / file).is_file()


def commands() -> list[Command]:
    """Our commands on all pages, each once."""
    pages = [path.relative_to(ROOT) for path in sorted(ROOT.rglob("*.md"))]
    pages = [page for page in pages if not any(part.startswith(".") for part in page.parts)]
    found: dict[tuple[str, ...], Command] = {}
    for page in pages:
        for command in commands_of((ROOT / page).read_text(), str(page)):
            found.setdefault(command.words, command)
    return list(found.values())


def commands_of(text: str, page: str) -> Iterator[Command]:
    """Our commands in a page's blocks of code, and in the code within its sentences and tables."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        lines = [child.content for child in token.children or () if child.type == "code_inline"]
        if token.type == "code_block" or (token.type == "fence" and token.info.strip() in SHELLS):
            lines = token.content.replace("\\\n", " ").splitlines()
        for line in lines:
            for part in re.split(r" && | \| ", line):
                if words := _words(part):
                    yield Command(page, words)


def _words(line: str) -> tuple[str, ...]:
    """The words of a command, without comments and where its output goes; none if it runs nothing of ours."""
    try:
        words = shlex.split(re.sub(r"\s(#|>).*", "", line))
    except ValueError:  # An apostrophe, in code that isn't for a shell.
        return ()
    while words and (re.fullmatch(r"\w+=\S*", words[0]) or words[0].endswith("./run")):
        del words[0]
    match words:
        case [file, _, *_] if FILES.fullmatch(file):
            return ("python", *words)
        case ["boonta", _, *_]:
            return tuple(words)
        case ["python", "-m", module, *_] if module.startswith("boonta."):
            return tuple(words)
        case ["python", file, *_] if FILES.fullmatch(file):
            return tuple(words)
    return ()


class _Taken(Exception):
    """The words are parsed, and the work would begin."""


@functools.cache
def taken(words: tuple[str, ...]) -> Any:
    """What a command makes of its words: a program its `Run`, a sweep its folder, others their options.

    It raises, whatever that is, where the command would refuse them.
    """
    own_cli, own_parse = tyro.cli, argparse.ArgumentParser.parse_args
    reached: list[Any] = []

    def take(value: Any) -> None:
        reached.append(value)
        raise _Taken

    def cli(function: Callable[..., Any], **options: Any) -> None:
        work = function if inspect.isclass(function) else functools.wraps(function)(lambda *given, **named: None)
        take(own_cli(work, **options))

    def main(function: Callable[..., Program]) -> None:
        with mock.patch.object(tyro, "cli", own_cli):
            take(_run_of(function))

    stand_ins: dict[tuple[Any, str], Callable[..., Any]] = {
        (tyro, "cli"): cli,
        (launch, "main"): main,
        (argparse.ArgumentParser, "parse_args"): lambda parser: take(own_parse(parser)),
        (os, "execv"): lambda file, command: take(("python", *command[1:])),
        (ending, "end_now"): sys.exit,
    }
    with contextlib.ExitStack() as kept:
        kept.enter_context(mock.patch.dict(os.environ))
        for (place, name), stand_in in stand_ins.items():
            kept.enter_context(mock.patch.object(place, name, stand_in))
        try:
            _begin(words)
        except _Taken:
            pass
        except SystemExit as end:
            assert end.code != BAD_INPUT, "the command refuses its words, see above"
    return _further(reached[0], words) if reached else None


def _begin(words: Sequence[str]) -> None:
    """Runs a command in this process."""
    own = words[2:] if words[1] == "-m" else words[1:]
    with mock.patch.object(sys, "argv", list(words if words[0] == "boonta" else own)):
        if words[0] == "boonta":
            sys.exit(boonta_main())
        if words[1] == "-m":
            runpy.run_module(own[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(ROOT / own[0]), run_name="__main__")


def _run_of(function: Callable[..., Program]) -> Run:
    """The run of a program's command line, whose program can be built."""
    run, settings = parse(function)
    if "data" not in settings:  # An archive, which would have to be there.
        program = function(run=run, **settings)
        if run.is_unit:
            launch.require(program)
    return run


def _further(value: Any, words: tuple[str, ...]) -> Any:
    """Goes on with options that contain commands of programs."""
    own, flags = split_flags(words)
    if isinstance(value, tuple) and value[0] == "python":  # Of `boonta train`.
        return taken(value)
    if isinstance(value, sweep.Asked):
        if not value.what.exists():
            return value
        given = sweep.spec_of(value, flags)
        for entry in spec.entries(given)[::1000]:
            parse(function_of(pathlib.Path(entry.program)), entry.arguments)
        return sweep.folder_of(value, given)
    if len(own) < len(words) and value.program.suffix == ".py":  # Of `boonta.deploy`.
        deployed.build(value.program, flags)
    return value
