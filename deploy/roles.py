"""The pods of a program: a role for each of its groups; with `--launch sebulba` or `anakin`, a unit per host."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import shlex
import sys

from boonta.deploy import core
from boonta.deploy.program import Built, build, host_flags, workdir_of
from boonta.deploy.resources import DNS_LABEL, Resources, ResourceTable
from boonta.deploy.sweeps import Planned, planned
from boonta.nodes.rpc import keys
from boonta.programs.experiments import values
from boonta.programs.wiring import devices
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.program import Group
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import compiled
from boonta.programs.wiring.run_folder.provenance import ROOT, from_root
from boonta.programs.wiring.several import meeting

INDEX = "BOONTA_INDEX"  # The environment variable with the pod's number in its role.
WORKDIR = "/runs"
IN_IMAGE = ("agents", "envs", "nodes", "programs", "deploy")  # The folders that deploy/Dockerfile copies.
KEY = f"/key/{keys.FILE}"  # The file of the run's key in each pod, from a Secret that exists before the pods.
LEARNER, UNIT = "learner", "unit"
# What a role saves: the volume's name, and where in the run's folder it is mounted.
SAVED = {
    "monitor": ("run", ""),
    LEARNER: ("checkpoints", "checkpoints"),
    "replay": ("replay", "replay"),
    UNIT: ("run", ""),
}
LONGEST_NAME = 63
LONGEST_SCRIPT = 120_000  # Bytes; Linux takes 131,072 for one word of a command.
MANY = 1_000_000


@dataclasses.dataclass(frozen=True)
class Role:
    """Pods that run the same command, except for their number.

    Attributes:
      label: the role's name.
      resources: what each pod gets.
      pods: the number of pods: one for each node, or host of a unit.
      command: each pod's command; `$(BOONTA_INDEX)` in it stands for the pod's number.
      environment: each pod's environment variables.
      ports: the ports that each pod listens on.
      volume: the volume's name, and the path at which it is mounted; none if both are empty.
      decides: whether the end of these pods ends the program, or restarts it as a whole.
      secret: the name of the Secret with the run's key; none if it is empty.
    """

    label: str
    resources: Resources
    pods: int
    command: tuple[str, ...]
    environment: dict[str, str]
    ports: tuple[int, ...]
    volume: tuple[str, str]
    decides: bool
    secret: str = ""

    @property
    def retries(self) -> int:
        """How often a failed pod restarts alone: as often as it fails, or never if all restart with it."""
        return 0 if self.decides else MANY


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A program, ready to be rendered.

    Attributes:
      name: the name of the JobSet and of all that belongs to it.
      table: the resource table.
      roles: the roles, in the order in which they are to be created.
    """

    name: str
    table: ResourceTable
    roles: tuple[Role, ...]


def prepare(file: pathlib.Path, flags: list[str], table: ResourceTable) -> Deployment:
    """Builds the program and checks all that can be checked here.

    Raises:
      BadInput, ValueError: it could not run, or not with these resources.
    """
    name = _name(file, flags, table)
    flags = [*flags, "--workdir", f"{WORKDIR}/{name}"]
    built = build(file, flags)
    make = _unit if built.run.is_unit else _services
    roles = make(name, _in_image(file), tuple(flags), built, table)
    for role in roles:
        _require_fit(name, role)
    return Deployment(name, table, roles)


def prepare_sweep(file: pathlib.Path, flags: list[str], table: ResourceTable) -> tuple[Deployment, Planned]:
    """Plans a sweep whose jobs are pods of one role.

    Raises:
      BadInput, ValueError: a run could not work, or not as one pod, or not with these resources.
    """
    name = _name(file, flags, table)
    sweep = planned(file, values.flags_of(flags), pathlib.Path(WORKDIR) / name)
    table.require_known([UNIT])
    resources = table.resources(UNIT)
    if resources.hosts > 1:
        raise BadInput(f"groups.{UNIT}: {resources.describe_hosts()}; a run of a sweep has one")
    cases = []
    for i, job in enumerate(sweep.jobs):
        words = job.command(sweep.folder / job.name)
        if not build(pathlib.Path(job.file), words[1:]).run.is_unit:
            raise BadInput(
                f"{job.name} is a pod for each of its nodes; a sweep has a pod for each run: give --launch sebulba or "
                "anakin, or render it alone"
            )
        cases.append(f"{i}) exec python {shlex.join([_in_image(pathlib.Path(job.file)), *words[1:]])} ;;")
    script = "\n".join([f'case "${INDEX}" in', *cases, "*) exit 2 ;;", "esac"])
    if len(script.encode()) > LONGEST_SCRIPT:
        raise BadInput(f"{file} has {len(sweep.jobs)} jobs, whose commands don't fit into one manifest: divide it")
    volume = (SAVED[UNIT][0], str(sweep.folder))
    role = Role(UNIT, resources, len(sweep.jobs), ("sh", "-c", _literal(script)), {}, (), volume, True)
    _require_fit(name, role)
    return Deployment(name, table, (role,)), sweep


def _name(file: pathlib.Path, flags: list[str], table: ResourceTable) -> str:
    """The deployment's name, and that of its folder: the table's, or else the file's, with dashes.

    Raises:
      BadInput: flags give another folder.
    """
    if workdir_of(flags) is not None:
        raise BadInput("--workdir is the pods' own folder, on their volumes: leave it out")
    return (table.name or file.stem).replace("_", "-")


def _in_image(file: pathlib.Path) -> str:
    """The path of a program's file in the image, from the repository's folder there.

    Raises:
      BadInput: the image doesn't have the file.
    """
    inside = from_root(file)
    if inside.is_absolute():
        raise BadInput(
            f"program file {file} is not below {ROOT}, whose files the image has: copy it, and what it imports, below "
            "programs/ there, and build the image"
        )
    if inside.parts[0] not in IN_IMAGE:
        print(
            f"warning: deploy/Dockerfile doesn't copy {inside.parts[0]}/: your image must have {inside}",
            file=sys.stderr,
        )
    return str(inside)


def _services(name: str, file: str, flags: tuple[str, ...], built: Built, table: ResourceTable) -> tuple[Role, ...]:
    """A role for each group."""
    check_nodes(built.program)
    groups = built.program.all_groups
    table.require_known([group.label for group in groups])
    hosts = f"{name}-{{label}}-0-{{index}}.{name}"  # Deployment, role, job, pod; headless service.
    tasks = core.plan(built.program)
    core.hosts_of(hosts, tasks)  # It refuses what names no hosts.
    roles = []
    for group in groups:
        label, resources = group.label, _resources(built, group, table)
        _require_a_host_each(group, resources)
        decides, secret = group.node.role == LEARNER, f"{name}-key"
        if decides != (label == LEARNER):  # Resources and volumes are known by the label.
            raise BadInput(
                f"group {label!r} has the role {group.node.role!r}: {LEARNER!r} is the label of learners, alone"
            )
        places = ("--label", label, "--index", f"$({INDEX})", "--hosts", hosts, "--key", KEY, "--starts-again")
        command = ("python", "-m", "boonta.deploy.node", file, *places, "--", *map(_literal, flags))
        own = {**_environment(built, group, resources), core.ENTERED: core.entered(built.environment[label])}
        environment = {name: _literal(value) for name, value in own.items()}
        volume = _volume(label, built)
        if decides:  # Its volume has the checkpoints alone, and all else of the run's folder can't be written.
            environment.setdefault(compiled.VARIABLE, f"{volume[1]}/{compiled.FOLDER}")
        ports = tuple(port for task in tasks if task.label == label for port in task.ports)
        roles.append(Role(label, resources, group.number, command, environment, ports, volume, decides, secret))
    return tuple(roles)


def _require_a_host_each(group: Group, resources: Resources) -> None:
    """Refuses hosts that aren't one for each node. Several learners share a slice, if they have TPUs.

    Raises:
      BadInput: names the resources, and what can work.
    """
    number, given = group.number, f"groups.{group.label}: {resources.describe_hosts()}"
    if group.node.role != LEARNER and resources.hosts > 1:
        raise BadInput(f"{given}, and {group.node.__name__} works on one: ask for one")
    if resources.hosts > 1 and resources.hosts != number:
        raise BadInput(
            f"{given}, and the number of learners is {number}: give --learners {resources.hosts}, or ask for one"
        )
    if meeting(group) and resources.chips and resources.hosts == 1:
        raise BadInput(
            f"{given}, and {number} learners share one slice: ask for one of {number} hosts (2x4 has 2 with "
            "chips_per_host 4), or leave --learners out"
        )


def _environment(built: Built, group: Group, resources: Resources) -> dict[str, str]:
    """The environment variables of a group, by which its JAX looks for an accelerator if and only if it has one.

    Raises:
      BadInput: it has one, but can't use it.
    """
    environment = dict(built.environment[group.label])
    if not (resources.chips or resources.gpus):
        environment.setdefault(devices.PLATFORMS, "cpu")  # The image's JAX may be for an accelerator, and look for one.
        return environment
    devices.require_use(_described(group.label, resources), built.program, group)
    if devices.on_cpu(environment.get(devices.PLATFORMS, "")):
        del environment[devices.PLATFORMS]  # The default of nodes that share a machine with the learner.
    return environment


def _resources(built: Built, group: Group, table: ResourceTable) -> Resources:
    """The resources of a group's pods: the table's, with the GPUs that the program gives them where it has no others.

    Several pods may share a GPU, if the cluster lets them: a share of its memory counts as one.

    Raises:
      BadInput: the table and the program contradict each other.
    """
    label, resources = group.label, table.resources(group.label)
    number = devices.asked(built.program).get(label)
    if number is None:
        return resources
    gpus = math.ceil(number)
    if label in table.groups and (resources.chips or resources.gpus not in (0, gpus)):
        what = f"{devices.given(built.program, label)}, and {_described(label, resources)} in the resource table"
        raise BadInput(f'{what}: leave one of them out (accelerator: "" and topology: "" for no TPU)')
    return dataclasses.replace(resources, gpus=gpus, accelerator="", topology="", chips_per_host=0)


def _described(label: str, resources: Resources) -> str:
    """A description of the accelerator that the table gives to a group."""
    given = f"gpus is {resources.gpus}" if resources.gpus else f"topology is {resources.topology!r}"
    return f"groups.{label}: {given}"


def _unit(name: str, file: str, flags: tuple[str, ...], built: Built, table: ResourceTable) -> tuple[Role, ...]:
    """One role: all of the program's nodes are threads of one process per host."""
    table.require_known([UNIT])
    resources = table.resources(UNIT)
    places = host_flags(f"{name}-{UNIT}-0-0.{name}", core.BASE_PORT, resources.hosts, f"$({INDEX})")
    command = ("python", file, *map(_literal, flags), *places)
    ports = (core.BASE_PORT,) if places else ()
    return (Role(UNIT, resources, resources.hosts, command, {}, ports, _volume(UNIT, built), True),)


def _volume(label: str, built: Built) -> tuple[str, str]:
    if label not in SAVED:
        return "", ""
    name, folder = SAVED[label]
    return name, str(pathlib.PurePosixPath(built.run.workdir) / folder)


def _literal(text: str) -> str:
    """A word or a variable's value, escaped: Kubernetes expands `$(NAME)` in it, and makes `$$` one `$`."""
    return text.replace("$", "$$")


def _require_fit(name: str, role: Role) -> None:
    """Raises BadInput if a role can't be pods under this name."""
    if not DNS_LABEL.fullmatch(name):
        raise BadInput(f"{name!r} can't name pods; set name in the resource table: lower-case letters, digits, dashes")
    if not DNS_LABEL.fullmatch(role.label):
        raise BadInput(
            f"group {role.label!r} can't name pods: give it a label of lower-case letters, digits and dashes alone"
        )
    longest = f"{name}-{role.label}-0-{role.pods - 1}-xxxxx"  # Kubernetes names pods so.
    if len(longest) > LONGEST_NAME:
        raise BadInput(f"pods would be called {longest}, over {LONGEST_NAME} letters: set a shorter name")
    if role.label in SAVED and not role.resources.volume:
        raise BadInput(f"groups.{role.label}: volume is empty; the group needs one, to go on from what it has saved")
