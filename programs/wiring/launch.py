"""Launches a program: `main` parses the command line, runs the interpreter that `--launch` names, and exits."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn

from boonta.nodes.watch.ending import end_now
from boonta.nodes.watch.stopwatch import CONNECTING, before_nodes
from boonta.programs.wiring import capacity
from boonta.programs.wiring.command_line import faults, loading
from boonta.programs.wiring.command_line.arguments import (
    PaceFlags,
    RunFlags,
    name_of,
    network_of,
    origin_of,
    parse,
    presets_of,
    run_of,
)
from boonta.programs.wiring.machine import network
from boonta.programs.wiring.pace import Pace
from boonta.programs.wiring.program import Group, Program, ProgramFunction, group
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder import journal, session
from boonta.programs.wiring.run_folder.folder import counts_of
from boonta.programs.wiring.run_folder.provenance import built_from
from boonta.programs.wiring.supervision import interrupts
from boonta.programs.wiring.supervision.guard import guard
from boonta.programs.wiring.supervision.restarts import Restarts
from boonta.programs.wiring.supervision.trackers import Trackers

__all__ = [
    "Group",
    "Pace",
    "PaceFlags",
    "Program",
    "Restarts",
    "Run",
    "RunFlags",
    "group",
    "main",
    "prepare",
    "require",
]

# Each module has `prepare(program)`. It returns a function that runs the program and returns the exit code, or raises
# ValueError if the program can't run this way. Its `require(program)` only raises, for a program that runs elsewhere.
INTERPRETERS = {
    "local_mp": "boonta.programs.wiring.interpreters.local",
    "local_mt": "boonta.programs.wiring.interpreters.local",
    "serial": "boonta.programs.wiring.interpreters.serial",
    "sebulba": "boonta.programs.wiring.interpreters.sebulba",
    "anakin": "boonta.programs.wiring.interpreters.anakin",
}


def prepare(program: Program) -> Callable[[], int]:
    """Returns a function that runs the program to its end and returns the exit code.

    The exit code is 0 where a limit of the stop rule was reached, 3 where learning had collapsed and the rule says that
    this ends it, 1 where a node failed, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.

    Raises:
      ValueError: the program can't run this way; the message names the node or setting at fault.
    """
    return _interpreter(program).prepare(program)


def require(program: Program) -> None:
    """Refuses a program that can't run this way on any machine; this one's devices and packages aren't looked at.

    Raises:
      ValueError: the message names the node or setting at fault.
    """
    _interpreter(program).require(program)


def _interpreter(program: Program) -> ModuleType:
    """The module of the way to run that `--launch` names."""
    return importlib.import_module(INTERPRETERS[program.run.launch])


def main(function: ProgramFunction, arguments: Sequence[str] | None = None) -> None:
    """Parses the command line, builds the program, runs it, and exits with how it ended.

    Args:
      function: `(run, **settings) -> program`.
      arguments: the command line's arguments; None takes the process's own. Only then may the program have a network of
        its own, or start again by itself: both need a process in which nothing else runs.

    Raises:
      BadInput: the program's file is only imported, by a tool, a sweep or a deployment.
    """
    loading.require_run()
    own = run_of(function, sys.argv[1:]) if arguments is None else None
    if own is not None and own.restarts_itself:
        guard(name_of(function), own.restarts)  # This goes on in a child.
    codes: list[int] = []
    if arguments is None:
        interrupts.end_with_input()
        atexit.register(_end_with, codes)
    run, kept, trackers = Run(), contextlib.ExitStack(), Trackers()
    try:
        run, settings = parse(function, arguments)
        trackers.start(run)
        with trackers.kept():
            reachable = _settle_network(run, arguments)
        with before_nodes(CONNECTING):
            run.hosts.join(built_from(function, run, settings), run.workdir)
        program = function(run=run, **settings)
        start = prepare(program)
        tight = capacity.check(program)
        origin = origin_of(function, arguments, program)
        started = session.opened(program.name, run, settings, origin, f"--launch {run.launch}")
        begun = kept.enter_context(started)
    except (BadInput, ValueError, OSError, ImportError) as error:
        trackers.end()
        faults.tell(error)
        _leave(run, faults.code_of(error))
    except KeyboardInterrupt:
        trackers.end()
        interrupts.leave(functools.partial(_leave, run))
    with kept:
        _introduce(reachable, presets_of(settings, run.launch), network_of(program), f"run folder {run.workdir}")
        if tight:
            journal.LOG.warning("%s", tight)
        with trackers:
            begun.code = code = _run(start, program.run)  # A population's limit is that of all its members.
            run.hosts.leave(agreed=code == 0)  # JAX kills who is left of the hosts, and trackers take time to end.
    if run.launch == "serial":
        codes.append(code)
    if run.is_unit:
        from boonta.programs.wiring.interpreters import threads  # It imports JAX, which processes of actors go without.

        if threads.hang():
            end_now(code)
    _leave(run, code)


def _introduce(*shown: str) -> None:
    """Tells the user what is run, and where its results are."""
    print("\n".join(filter(None, shown)), flush=True)


def _run(start: Callable[[], int], run: Run) -> int:
    """Runs a program that is prepared, unless it has done its work before; returns the exit code."""
    try:
        if reached := run.stop.reached(counts_of(run)):
            journal.LOG.info("done: %s", reached)
            return 0
        return start()
    except KeyboardInterrupt:  # It came before the interpreter has caught signals.
        journal.LOG.info(interrupts.LINE)
        return interrupts.CODE
    except Exception:  # The threads of the nodes must not outlive it.
        journal.LOG.exception("the launcher failed")
        traceback.print_exc()
        return 1


def _end_with(codes: Sequence[int]) -> None:
    """Ends the process with the code of a serial run, once the exit handlers that were registered later have run.

    The process holds Reverb's threads: they have crashed it, now and then, while Python and C++ libraries ended.
    """
    if codes:
        end_now(codes[0])


def _leave(run: Run, code: int) -> NoReturn:
    """Ends the process with this code.

    It ends at once where threads may hold it up: Python's own exit waits for one that compiles, which takes up to 40 s,
    and one of several hosts may wait for ever for another that is gone.
    """
    if run.hosts.number > 1:
        run.hosts.leave(agreed=code == 0)
    if run.hosts.number > 1 or run.launch == "local_mt":
        end_now(code)
    sys.exit(code)


def _settle_network(run: Run, arguments: Sequence[str] | None) -> str:
    """A line on who can reach the program's servers, if it has any; may start this process anew, see `isolate`."""
    if run.is_unit:
        return ""
    own = run.network == "private" and arguments is None
    try:
        return f"network: {network.isolate() if own else network.OPEN}"
    except OSError as error:  # It would be the same at each start.
        raise BadInput(str(error)) from error
