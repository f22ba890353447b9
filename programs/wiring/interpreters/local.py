"""Runs a program with Launchpad, as processes or threads of this machine, and supervises them."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
from collections.abc import Callable, Mapping

from boonta.nodes.snapshots import files
from boonta.programs.wiring import devices
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.joining import Servers
from boonta.programs.wiring.machine import accelerators, network
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import BadInput, override_of
from boonta.programs.wiring.run_folder import naming, temporary
from boonta.programs.wiring.run_folder.journal import LOG
from boonta.programs.wiring.several import meeting
from boonta.programs.wiring.supervision import supervise
from boonta.programs.wiring.supervision.interrupts import Signals, held
from boonta.programs.wiring.supervision.workers import import_path

# An actor overlaps stepping and acting with threads of its own.
ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "OMP_NUM_THREADS": "1"}
# Nodes that act on the CPU must not take an accelerator.
ON_CPU = {devices.PLATFORMS: "cpu", **ONE_THREAD}
# Environment variables by role; nodes of other roles run on the CPU. Inference nodes and reanalyzers share the
# accelerator with the learner. By JAX's default each process takes three quarters of a GPU's memory when it starts;
# only the learner does, and the others take what they need of the rest.
SHARING = {devices.PREALLOCATE: "false"}
ROLE_ENVIRONMENT: dict[str, dict[str, str]] = {
    "learner": {},
    "inference": SHARING,
    "reanalyzer": {**SHARING, **ONE_THREAD},
}


def prepare(program: Program) -> Callable[[], int]:
    """See `launch.prepare`."""
    from boonta.programs.wiring.interpreters import launchpad  # noqa: F401  # Its ImportError names what is missing.

    require(program)
    if program.run.launch == "local_mt":  # Its nodes are in this process, with its environment.
        return functools.partial(_run, program, {})
    environment = group_environment(program, learner_alone=accelerators.tpu_chips() > 0)
    _require_apart(program, environment)
    names = [name for group in program.all_groups for name in group.names]
    inherited = os.environ.get(devices.PLATFORMS, "")
    nodes = devices.on_machine(program, environment, names, accelerators.visible_gpus(), inherited=inherited)
    return functools.partial(_run, program, with_common(nodes))


def require(program: Program) -> None:
    """See `launch.require`. Whether this machine's accelerators suffice is left to `prepare`."""
    check_nodes(program)


def _require_apart(program: Program, environment: Mapping[str, Mapping[str, str]]) -> None:
    """Refuses several learners on one machine's accelerators, of which each learner takes all.

    Raises:
      BadInput: names the setting, and what can work.
    """
    for label in filter(None, map(meeting, program.groups)):
        on_cpu = devices.on_cpu(environment[label].get(devices.PLATFORMS, ""))
        if on_cpu or devices.asked(program).get(label):
            continue
        if accelerators.gpus() or accelerators.tpu_chips():
            raise BadInput(
                "the program has several learners, and on one machine each would take all of its accelerators: give "
                f"one, which uses them all, --gpus {label}=1 with a GPU for each, or {label}=0 for the CPU"
            )


def group_environment(program: Program, learner_alone: bool = False) -> dict[str, dict[str, str]]:
    """Environment variables by group: the defaults, with what the group's number of GPUs changes, and the run's own.

    Args:
      program: the program.
      learner_alone: whether the nodes share an accelerator that only one process can use, as a TPU is.

    Raises:
      BadInput: the run sets one for a group that the program doesn't have, or a group can't use what it gets.
    """
    devices.check(program)
    roles = {group.label: group.node.role for group in program.all_groups}
    environment = {
        group.label: dict(ON_CPU if program.acts_for(group) else ROLE_ENVIRONMENT.get(group.node.role, ON_CPU))
        for group in program.all_groups
    }
    for label, role in roles.items():
        if learner_alone and role != "learner":
            environment[label][devices.PLATFORMS] = "cpu"
    for label, number in devices.asked(program).items():
        environment[label] = devices.with_gpus(environment[label], number)
    for override in program.run.process_env:
        group, name, value = override_of(override)
        if group not in environment:
            raise BadInput(f"--process-env {override!r} is not GROUP:NAME=VALUE with a group of {sorted(environment)}")
        environment[group][name] = value
    return environment


def with_common(environment: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Adds to the environment variables of each node what is the same for all."""
    usual = os.environ.get("PYTHONPATH", "")
    return {
        name: {**variables, **network.kept(variables), "PYTHONPATH": import_path(variables.get("PYTHONPATH", usual))}
        for name, variables in environment.items()
    }


def _run(program: Program, environment: dict[str, dict[str, str]]) -> int:
    """Launches a program and waits until it has ended; returns the exit code.

    Args:
      program: the program.
      environment: environment variables of each node's process, by the node's name; none for threads.
    """
    from boonta.programs.wiring.interpreters import launchpad

    signals = Signals()
    logs = pathlib.Path(program.run.workdir) / "logs" / naming.now()
    logs.mkdir(parents=True)
    print(f"logs {logs}", flush=True)
    with temporary.sockets() as sockets:
        with held():  # Ctrl-C reaches all processes of a terminal, but the launcher alone handles it.
            workers, monitor, addresses = launchpad.launch(program, environment, logs, sockets)
            signals.catch()  # Launchpad has set handlers of its own.

        def write_pids() -> None:
            pids = {worker.name: worker.pid for worker in workers}
            try:
                files.write_json(logs / "pids.json", pids, synced=False)
            except OSError as error:  # A full disk is no reason to end a run.
                LOG.warning("%s can't be written: %s", logs / "pids.json", error)

        write_pids()
        own = os.getpid() if os.environ.get(network.GOT) == network.PRIVATE else 0
        shown = Servers(addresses, process=own).shown(pathlib.Path(program.run.workdir))
        with shown if program.run.launch == "local_mp" else contextlib.nullcontext():
            return supervise.stay(workers, monitor, signals, program.restarts, write_pids)
