"""Renders a program as a Slurm batch script: a task per node of the program, dealt to the machines in turn.

With `--launch sebulba` or `anakin` it is a task per machine, with the cores of all its places.

    ./run python -m boonta.deploy.slurm programs/impala_atari.py --nodes 4 -- --workdir /shared/pong >pong.sbatch
    sbatch pong.sbatch

Options of the cluster's own go to sbatch: `sbatch --account lab --mem-per-cpu 4G pong.sbatch`.

A sweep's file in the place of the program's becomes an array, with a task for each run; `slots.number` run at once.

The script runs on the first machine of its job. When the program has done its work, all tasks end by themselves. Near
the time limit every task is asked to end, the learner saves, and the job goes back into the queue, to go on from the
newest checkpoint. So it does after a failure, a few times. Slurm itself requeues a preempted job; a cancelled one ends.
An actor, evaluator or reanalyzer that dies alone starts again in its task, as often as it does while the program runs.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

import tyro

from boonta.deploy import core, slurm_script
from boonta.deploy.program import Built, build, host_flags, made_by, require_shared_workdir
from boonta.deploy.sweeps import Planned, is_sweep, planned_here
from boonta.programs.wiring import devices
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.command_line import faults
from boonta.programs.wiring.command_line.arguments import split_flags
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.provenance import ROOT, from_root

COMMAND = "boonta.deploy.slurm"
TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|infinite", re.IGNORECASE)  # As sbatch takes limits.
WORDS = re.compile(r"[\w@%+=:,./ -]*", re.ASCII)  # What no shell changes; the script has it within quotes.


@dataclasses.dataclass(frozen=True)
class Job:
    """Renders a program as a Slurm batch script, on the standard output. The program's flags follow `--`.

    Attributes:
      program: the program's file, such as programs/impala_atari.py, or a sweep's, such as sweep.yaml.
      nodes: machines, which Slurm calls nodes.
      tasks_per_node: places for the program's nodes on each machine; the program has to fit.
      cpus_per_task: cores of each place.
      gpus_per_node: GPUs of every machine. Those nodes use them that deploy/ACCELERATORS.md lists, or --gpus after --.
      time: the job's time limit, in Slurm's format; a program that isn't done by then is requeued.
      partition: Slurm's partition; empty for the cluster's default.
      max_restarts: restarts after failures; those after a time limit or a preemption don't count.
      root: the repository's path, on all machines; with a container any folder that all have.
      run: the words before `python` on each machine, such as 'apptainer exec --nv --pwd /app/boonta boonta.sif'.
      tunnel: the tables are reached through a tunnel that asks for the run's key. With --no-tunnel, whoever reaches the
        replay server's machine can use them; it spares the first machine a C compiler, and each call 0.2 ms.
    """

    program: tyro.conf.Positional[pathlib.Path]
    nodes: int = 1
    tasks_per_node: int = 16
    cpus_per_task: int = 1
    gpus_per_node: int = 0
    time: str = "24:00:00"
    partition: str = ""
    max_restarts: int = 3
    root: pathlib.Path = ROOT
    run: str = "./run"
    tunnel: bool = True

    def __post_init__(self) -> None:
        for field, least in {"nodes": 1, "tasks_per_node": 1, "cpus_per_task": 1, "gpus_per_node": 0}.items():
            if getattr(self, field) < least:
                raise BadInput(f"--{field.replace('_', '-')} is {getattr(self, field)}; it must be {least} or more")
        if not self.run.split() or not WORDS.fullmatch(self.run):
            raise BadInput(f"--run is {self.run!r}; it must be words of letters, digits and @%+=:,./_- alone")
        if not TIME.fullmatch(self.time):
            raise BadInput(f"--time is {self.time!r}; it must be in Slurm's format, such as 90, 24:00:00 or 2-12:00")


def render(job: Job, flags: Sequence[str]) -> str:
    """The batch script.

    Args:
      job: what to ask Slurm for.
      flags: the program's flags; `--workdir` is among them, on a file system that all machines share.

    Raises:
      BadInput, ValueError: the program could not run.
    """
    require_shared_workdir(flags)
    if job.run == "./run" and job.root == ROOT and not (ROOT / "run").exists():
        raise BadInput(
            f"{ROOT} has no ./run: give --run 'env PATH=/project/.venv/bin:/usr/bin:/bin', where the Boonta that is "
            "installed is, or --root, a clone"
        )
    if is_sweep(job.program):
        return _render_array(job, *planned_here(job.program, flags))
    turn = _turn(job, job.program, flags)
    _warn(turn.idle)
    return _script(job, turn, turn.name, turn.setting)


class _Turn(NamedTuple):
    """What the script does for one run.

    Attributes:
      name: the program's name.
      is_unit: whether each machine has one process.
      command: what each place runs.
      setting: what the script sets for it.
      idle: the GPUs that nothing uses, in words; empty if there are none.
    """

    name: str
    is_unit: bool
    command: str
    setting: str
    idle: str = ""


def _turn(job: Job, program: pathlib.Path, flags: Sequence[str]) -> _Turn:
    """Builds a run's program.

    Raises:
      BadInput, ValueError: it could not run.
    """
    built, idle = build(program, flags), ""
    if built.run.is_unit:
        places, command = [f"unit {index}" for index in range(job.nodes)], _unit_command(job)
    else:
        tasks = _tasks(job, built)
        places, command = [_place(task) for task in tasks], slurm_script.node_command(job.run, job.tunnel)
        idle = _idle_gpus(job, built, tasks)
    words = shlex.join([str(from_root(program)), *flags])
    setting = f"nodes=({shlex.join(places)}) words=({words}) workdir={shlex.quote(built.run.workdir)}"
    return _Turn(built.program.name, built.run.is_unit, command, setting, idle)


def _idle_gpus(job: Job, built: Built, tasks: Sequence[core.Task]) -> str:
    """Deals each machine's GPUs to the tasks there, as they do when they start; says which nothing uses.

    Raises:
      BadInput: they don't suffice, or nothing uses any.
    """
    gpus, idle = tuple(map(str, range(job.gpus_per_node))), {}
    for i in range(job.nodes):
        where, names = f"machine {i + 1} of {job.nodes}", [task.name for task in tasks[i :: job.nodes]]
        nodes = devices.on_machine(built.program, built.environment, names, gpus, where)
        if left := devices.idle(nodes.values(), gpus):
            idle[where] = len(left)
    if gpus and sum(idle.values()) == job.nodes * len(gpus):
        raise BadInput(
            f"--gpus-per-node is {len(gpus)}, and all nodes of the program are on the CPU: leave it out, or give some "
            "to a group by --gpus after --"
        )
    return ", ".join(f"{number} of {where}" for where, number in idle.items())


def _warn(idle: str) -> None:
    if idle:
        print(f"warning: no node uses these GPUs, see deploy/ACCELERATORS.md: {idle}", file=sys.stderr)


def _place(task: core.Task) -> str:
    """A line of the script's list of places: label, index, and whether the node starts again when it dies alone."""
    return f"{task.label} {task.index}{' again' if task.is_dispensable else ''}"


def _placed(job: Job, turn: _Turn) -> Job:
    """The job as Slurm gets it: one process on a machine gets the cores of all of its places."""
    cores = job.tasks_per_node * job.cpus_per_task
    return dataclasses.replace(job, tasks_per_node=1, cpus_per_task=cores) if turn.is_unit else job


def _render_array(job: Job, sweep: Planned, left: Sequence[int]) -> str:
    """The script of an array, whose task i makes the sweep's i-th run; runs that are done are left out."""
    turns = {}
    for i in left:
        each = sweep.jobs[i]
        turns[i] = _turn(job, pathlib.Path(each.file), each.command(sweep.folder / each.name)[1:])
    for idle in dict.fromkeys(turn.idle for turn in turns.values()):
        _warn(idle)
    first = next(iter(turns.values()))
    if any(turn.command != first.command for turn in turns.values()):
        raise BadInput(f"some runs of {job.program} are one process for each machine, by --launch, and others are not")
    cases = [f"{i}) {turn.setting} ;;" for i, turn in turns.items()]
    setting = "\n".join(["case $SLURM_ARRAY_TASK_ID in", *cases, "*) exit 2 ;;", "esac"])
    array = f"{','.join(map(str, left))}%{sweep.spec.slots.at_once}"
    return _script(job, first, job.program.stem, setting, array)


def _tasks(job: Job, built: Built) -> Sequence[core.Task]:
    """A task for each node of the program.

    Raises:
      BadInput: the machines have too few places for them, or too many.
    """
    check_nodes(built.program)
    tasks = core.plan(built.program)
    learners = [task.label for task in tasks if task.decides]
    if job.gpus_per_node and len(learners) > job.nodes and not devices.asked(built.program).keys() & set(learners):
        raise BadInput(
            f"--nodes is {job.nodes}; {len(learners)} learners with GPUs need a machine each, or "
            f"--gpus {learners[0]}=1 after --"
        )
    places = job.nodes * job.tasks_per_node
    if len(tasks) > places:
        raise BadInput(
            f"the program has {len(tasks)} nodes, and {job.nodes} machines with {job.tasks_per_node} tasks each have "
            f"room for {places}: give more --nodes or --tasks-per-node, or fewer actors"
        )
    if len(tasks) < job.nodes:
        raise BadInput(f"--nodes is {job.nodes}; the program has {len(tasks)} nodes, and a machine each is the most")
    return tasks


def _unit_command(job: Job) -> str:
    """The command that each machine runs: the program itself, which connects to the other machines'."""
    places = host_flags("${BOONTA_HOSTS%%,*}", "$BOONTA_PORT", job.nodes, "$index")
    return " ".join([f'{job.run} python "$0" "$@"', *(f'"{word}"' for word in places)])


def _script(job: Job, turn: _Turn, name: str, setting: str, array: str = "") -> str:
    """The script of one run, or of an array of those like `turn`."""
    header = _header(_placed(job, turn), name, array)
    return "\n".join([*header, slurm_script.body(job.root, job.max_restarts, turn.command, setting)])


def _header(job: Job, name: str, array: str = "") -> list[str]:
    options = {
        "job-name": name,
        "nodes": job.nodes,
        "ntasks-per-node": job.tasks_per_node,
        "cpus-per-task": job.cpus_per_task,
        "time": job.time,
        "output": f"{name}-{'%A_%a' if array else '%j'}.log",
        "open-mode": "append",
        "signal": f"B:USR1@{slurm_script.WARN_S}",
        **({"gpus-per-node": job.gpus_per_node} if job.gpus_per_node else {}),
        **({"partition": job.partition} if job.partition else {}),
        **({"array": array} if array else {}),
    }
    return ["#!/bin/bash", "#SBATCH --requeue", *(f"#SBATCH --{option}={value}" for option, value in options.items())]


def main(arguments: list[str]) -> int:
    """Runs the command line; the exit code is 0, or 2 for bad input."""
    own, flags = split_flags(arguments)
    try:
        job = tyro.cli(Job, prog=f"python -m {COMMAND}", args=own)
        script = render(job, flags)
    except (BadInput, ValueError) as error:
        faults.tell(error)
        return 2
    shebang, rest = script.split("\n", 1)
    print(shebang, made_by(COMMAND, arguments, job.program), rest, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
