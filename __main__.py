"""The console script `boonta`: runs a tool, and passes the rest of the command line on."""

from __future__ import annotations

import importlib
import os
import pathlib
import select
import signal
import sys

GROUPS = {
    "Start": ("train", "sweep", "join"),
    "Look": ("list", "runs", "status", "report", "metrics", "plot", "compare"),
    "See what an agent does": ("play", "evaluate", "match", "explain"),
    "Archives": ("export", "convert"),
    "Set up": ("doctor", "completion"),
}
TOOLS = tuple(name for names in GROUPS.values() for name in names)
FOLDER = pathlib.Path(__file__).parent / "programs" / "tools"
STDOUT = 1
CUT_OFF = 128 + signal.SIGPIPE  # What a shell says of a program that a broken pipe ends.


def usage() -> str:
    """The page that `boonta --help` shows: all tools, by what they are for."""
    from boonta.programs.tools.list import described  # It needs rich, which may be missing where `doctor` is asked.

    lines = ["Usage: boonta TOOL [ARGUMENT...]"]
    for title, names in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:10}  {described(FOLDER / f'{name}.py')}" for name in names)]
    lines += ["", "`boonta TOOL --help` shows a tool's arguments, `boonta train PROGRAM --help` a program's."]
    return "\n".join(lines)


def main() -> int:
    """Runs the tool that the first argument names; it ends quietly where nobody reads its output, as in `| head`."""
    try:
        try:
            return _run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_has_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)  # Python flushes once more at its end.
        return CUT_OFF


def _run() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print(usage())
        return 0
    if name not in TOOLS:
        from boonta.envs.base import suggest

        print(
            f"error: tool {name!r} is unknown: {suggest(name, TOOLS)} `boonta --help` says what each does.",
            file=sys.stderr,
        )
        return 2
    sys.argv = [f"boonta {name}", *sys.argv[2:]]
    importlib.import_module(f"boonta.programs.tools.{name}").main()
    return 0


def _reader_has_gone() -> bool:
    """Whether standard output is a pipe without a reader; a tool's other pipes break for other reasons."""
    watched = select.poll()
    watched.register(STDOUT, 0)
    return any(event & select.POLLERR for _, event in watched.poll(0))


if __name__ == "__main__":
    sys.exit(main())
