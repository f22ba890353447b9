"""The command line of cluster programs, made from a program function's own signature; it launches, and resumes."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated, Literal

import tyro

from boonta.nodes.services import Program
from boonta.programs.wiring import run as shared
from boonta.programs.wiring.run import BadInput, ProgramFunction, claim_workdir, end_now, origin_of, parse

# What a group's processes run with. Actors, reanalyzers and evaluators act on the CPU and must not grab an accelerator;
# one thread each, since an actor overlaps stepping and acting with threads of its own.
ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "OMP_NUM_THREADS": "1"}
ON_CPU = {"JAX_PLATFORMS": "cpu", **ONE_THREAD}
GROUP_ENVIRONMENT: dict[str, dict[str, str]] = {
    "monitor": ON_CPU,
    "variables": ON_CPU,
    "replay": ON_CPU,
    "actor": ON_CPU,
    "reanalyzer": ON_CPU,
    "evaluator": ON_CPU,
    # It shares the learner's accelerator, whose memory the learner would otherwise find taken, or take whole.
    "inference": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}


@dataclasses.dataclass(frozen=True)
class Run(shared.Run):
    """How, where and how long a cluster runs.

    Attributes:
      launch: "local_mp": a process per node; "local_mt": a thread per node; "serial": one thread, for a debugger.
      environment: environment variables of a group's processes, as GROUP:NAME=VALUE.
    """

    launch: Literal["local_mp", "local_mt", "serial"] = "local_mp"
    environment: tuple[str, ...] = ()

    def leave(self, code: int) -> None:
        """Ends the process with this code; of threads at once: TensorFlow's may take 20 s more at Python's own exit."""
        if self.launch == "local_mt":
            end_now(code)
        super().leave(code)


RunFlags = Annotated[Run, tyro.conf.arg(name="")]  # --workdir rather than --run.workdir


def main(program_function: ProgramFunction, arguments: list[str] | None = None) -> None:
    """Parses the command line, builds the program, launches it and exits with how it ended."""
    try:
        run, settings = parse(program_function, arguments)
        program = program_function(run, **settings)
        check_nodes(program)
        environment = group_environment(program, run)
        claim = claim_workdir(program.name, run, settings, origin_of(program_function, arguments))
    except (BadInput, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    with claim:
        code = launch(program, run, environment)
    run.leave(code)


def launch(program: Program, run: Run, environment: dict[str, dict[str, str]]) -> int:
    """Runs a program to its end.

    Returns:
      The exit code: 0 it reached a stop rule, 1 a node failed, 130 Ctrl-C, 143 SIGTERM.
    """
    if run.launch == "serial":
        from boonta.programs.wiring import serial

        return serial.run(program)
    from boonta.programs.wiring import supervise

    return supervise.run(program, run.launch, run.workdir, environment)


def check_nodes(program: Program) -> None:
    """Constructs every node once, here, with its handles unresolved.

    A node's constructor stores and checks what it is given; `start` builds, in the node's own process. So what can't
    work is refused before anything is launched.
    """
    for node in program.get_all_nodes():
        node._constructor(*node._args, **node._kwargs)


def group_environment(program: Program, run: Run) -> dict[str, dict[str, str]]:
    """Environment variables by group: the defaults, and the run's over them."""
    if run.environment and run.launch != "local_mp":
        raise BadInput(
            f"--environment {run.environment[0]!r} is for processes of its own; with --launch {run.launch} all nodes "
            "share the launcher's: set the variable before the command"
        )
    environment = {group: dict(GROUP_ENVIRONMENT.get(group, {})) for group in program.groups}
    for override in run.environment:
        group, colon, assignment = override.partition(":")
        name, equals, value = assignment.partition("=")
        if not (colon and equals and name) or group not in environment:
            raise BadInput(f"--environment {override!r} is not GROUP:NAME=VALUE with a group of {sorted(environment)}")
        environment[group][name] = value
    return environment
