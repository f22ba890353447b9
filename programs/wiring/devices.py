"""GPUs for the groups of a program: who can use one, and which of a machine's GPUs each of its nodes sees."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from boonta.programs.wiring.machine.accelerators import VISIBLE
from boonta.programs.wiring.machine.division import FRACTION, divide
from boonta.programs.wiring.program import Group, Program
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.several import meeting

PLATFORMS, PREALLOCATE = "JAX_PLATFORMS", "XLA_PYTHON_CLIENT_PREALLOCATE"
ON_DEVICE = ("actor", "evaluator", "inference", "learner", "reanalyzer")  # The roles whose nodes compute with JAX.
# JAX raises an error if it can't use the first; callbacks of compiled programs need the second.
ON_GPU = "cuda,cpu"

Variables = Mapping[str, str]  # Environment variables of a process.


def asked(program: Program) -> dict[str, float]:
    """The GPUs of each node of a group, by label, for those groups to which the program or the run gives a number.

    Raises:
      BadInput: the run gives one to a group that the program doesn't have.
    """
    own = program.run.gpus_of_groups
    numbers = {group.label: own.get(group.label, group.gpus) for group in program.all_groups}
    for label in own:
        if label not in numbers:
            raise BadInput(f"--gpus {label}={own[label]:g} names no group of the program, which has {sorted(numbers)}")
    return {label: number for label, number in numbers.items() if number is not None}


def given(program: Program, label: str) -> str:
    """A description of the GPUs that a group gets, and of where that is said."""
    number = asked(program)[label]
    return f"--gpus {label}={number:g}" if label in program.run.gpus_of_groups else f"{label}: gpus is {number:g}"


def check(program: Program) -> None:
    """Refuses GPUs that a group can't use, and two ways of dividing them.

    Raises:
      BadInput: names the group, and what can work.
    """
    numbers = asked(program)
    for group in program.all_groups:
        number = numbers.get(group.label)
        if number:
            require_use(given(program, group.label), program, group)
        if number and number < 1 and meeting(group):
            raise BadInput(
                f"{given(program, group.label)}, and two of several learners can't meet on one GPU: give each a whole "
                "number"
            )
        chosen = program.run.variables(group.label).get(PLATFORMS, "")
        if number == 0 and chosen and not on_cpu(chosen):
            raise BadInput(
                f"{given(program, group.label)}, which is the CPU, and --process-env has {group.label}:{PLATFORMS}="
                f"{chosen}: leave one of them out"
            )
    if first := next((label for label, number in numbers.items() if number), ""):
        _require_one_way(program, numbers, given(program, first))


def require_use(what: str, program: Program, group: Group) -> None:
    """Refuses an accelerator for a group whose nodes can't use it.

    Args:
      what: the accelerator, and where it is given, for the message.
      program: the program.
      group: the group.

    Raises:
      BadInput: says why.
    """
    asks = program.acts_for(group)
    if group.node.role not in ON_DEVICE or asks:
        why = "has an inference node act for it" if asks else "computes nothing on a device"
        raise BadInput(f"{what}, and {group.node.__name__} {why}: leave it out")
    chosen = program.run.variables(group.label).get(PLATFORMS, "")
    if on_cpu(chosen):
        raise BadInput(
            f"{what}, and --process-env {group.label}:{PLATFORMS}={chosen} leaves it idle: leave one of them out"
        )


def _require_one_way(program: Program, numbers: Mapping[str, float], first: str) -> None:
    """Refuses variables of the run that divide a machine's GPUs, or their memory, besides the numbers.

    Args:
      program: the program.
      numbers: the GPUs of each node, by label.
      first: a description of one of them.
    """
    for group in program.all_groups:
        has_whole = numbers.get(group.label, 0) >= 1
        for name in (VISIBLE,) if has_whole else (VISIBLE, FRACTION):
            value = program.run.variables(group.label).get(name)
            if value is not None:
                raise BadInput(
                    f"{first} and --process-env {group.label}:{name}={value} both divide the GPUs: leave one of them "
                    f"out; --gpus {group.label}=NUMBER says it, too"
                )


def on_cpu(platforms: str) -> bool:
    """Whether JAX computes on the CPU, given the value of JAX_PLATFORMS: it does on the first one of the list."""
    return platforms.partition(",")[0] == "cpu"


def with_gpus(usual: Variables, number: float) -> dict[str, str]:
    """The environment variables of a group whose nodes have a number of GPUs, made of those of its role.

    A share of a GPU's memory is reserved: JAX takes it when it starts.
    """
    if number == 0:
        return {**usual, PLATFORMS: "cpu"}
    others = {name: value for name, value in usual.items() if name != PREALLOCATE}
    return {**others, PLATFORMS: ON_GPU, **({FRACTION: f"{number:g}"} if number < 1 else {})}


def on_machine(
    program: Program,
    environment: Mapping[str, Variables],
    names: Collection[str],
    gpus: Sequence[str],
    where: str = "this machine",
    inherited: str = "",
) -> dict[str, dict[str, str]]:
    """The environment variables of each node on a machine: its group's, and those by which it sees its GPUs.

    Args:
      program: the program.
      environment: environment variables by group.
      names: the names of the nodes on the machine.
      gpus: the machine's GPUs, as `CUDA_VISIBLE_DEVICES` names them.
      where: a description of the machine.
      inherited: the value of JAX_PLATFORMS for groups that don't set it.

    Raises:
      BadInput: the GPUs don't suffice.
    """
    labels = {name: group.label for group in program.all_groups for name in group.names if name in names}
    found = {name: dict(environment[label]) for name, label in labels.items()}
    numbers = asked(program)
    if not any(numbers.get(label) for label in labels.values()):
        return found
    users = [name for name in found if not on_cpu(found[name].get(PLATFORMS, inherited))]
    divided = divide({name: numbers.get(labels[name]) for name in users}, gpus, where)
    return {name: {**divided.get(name, {}), **variables} for name, variables in found.items()}


def idle(nodes: Collection[Variables], gpus: Sequence[str]) -> list[str]:
    """Those of a machine's GPUs that none of its nodes uses, given the nodes' environment variables."""
    used: set[str] = set()
    for variables in nodes:
        if not on_cpu(variables.get(PLATFORMS, "")):
            used |= set(variables[VISIBLE].split(",")) if VISIBLE in variables else set(gpus)
    return [gpu for gpu in gpus if gpu not in used]
