"""The resource table of a deployment: what each group of a program gets. Everything but the image has a default."""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
from collections.abc import Collection
from typing import Any, TypeVar

import yaml

from boonta.programs.wiring.run import BadInput

T = TypeVar("T")

QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
TOPOLOGY = re.compile(r"[1-9][0-9]*(x[1-9][0-9]*){1,2}")
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
CHIPS_PER_HOST = 4  # The chips of each host in a slice of several hosts.
ONE_HOST_OF_8 = "2x4"  # v5e and v6e have hosts of 8 chips, too, which are slices of their own.


@dataclasses.dataclass(frozen=True)
class Resources:
    """The resources of each node of a group.

    Attributes:
      cpu, memory: Kubernetes quantities, such as "2", "500m", "4Gi".
      accelerator: the cluster's name for the TPU type, such as tpu-v6e-slice or tpu-v5-lite-podslice; none if empty.
      topology: chips of the slice along each axis, such as 2x4 or 4x4.
      chips_per_host: TPU chips of each host; 0 takes the usual number: 8 for 2x4, at most 4 for other topologies.
      gpus: NVIDIA GPUs of each host; 0 leaves them to the program's `--gpus`.
      machines: the hosts that one node spans if it has no TPU; with a TPU the topology decides.
      volume: size of the retained volume for what the group saves, such as "50Gi"; none if empty.
      node_selector: labels that its machines must have, such as {"cloud.google.com/gke-spot": "true"}.
    """

    cpu: str = "2"
    memory: str = "4Gi"
    accelerator: str = ""
    topology: str = ""
    chips_per_host: int = 0
    gpus: int = 0
    machines: int = 1
    volume: str = ""
    node_selector: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for field in ("cpu", "memory", "volume"):
            value = getattr(self, field)
            if not QUANTITY.fullmatch(value) and (value or field != "volume"):
                raise BadInput(f'{field} is {value!r}; it must be a quantity such as "2", "500m" or "4Gi"')
        if bool(self.accelerator) != bool(self.topology):
            raise BadInput(f"accelerator is {self.accelerator!r} and topology {self.topology!r}; a TPU needs both")
        if self.topology and not TOPOLOGY.fullmatch(self.topology):
            raise BadInput(f"topology is {self.topology!r}; it must be chips along each axis, such as 2x4 or 2x2x2")
        if self.topology and self.chips % self.chips_on_a_host:
            raise BadInput(f"chips_per_host is {self.chips_per_host}; {self.topology} has {self.chips} to divide")
        if self.gpus < 0:
            raise BadInput(f"gpus is {self.gpus}; it must be 0 or more")
        if self.gpus and self.accelerator:
            raise BadInput(
                f"gpus is {self.gpus} with accelerator {self.accelerator!r}; one kind. Learner, unit and inference "
                'have a TPU by default: give them accelerator: "" and topology: "" to have GPUs, or neither'
            )
        if self.machines < 1 or (self.machines > 1 and self.accelerator):
            raise BadInput(f"machines is {self.machines}; it must be at least 1, and 1 with a TPU: topology decides")

    @property
    def chips(self) -> int:
        """The chips of the whole slice; 0 without a TPU."""
        return math.prod(int(side) for side in self.topology.split("x")) if self.topology else 0

    @property
    def chips_on_a_host(self) -> int:
        """The chips that each pod asks for; 0 without a TPU."""
        usual = self.chips if self.topology == ONE_HOST_OF_8 else min(self.chips, CHIPS_PER_HOST)
        return self.chips_per_host or usual

    @property
    def hosts(self) -> int:
        """The hosts that one node spans: chips / chips per host, or machines."""
        return self.chips // self.chips_on_a_host if self.chips else self.machines

    def describe_hosts(self) -> str:
        """A description of how many hosts a node gets."""
        if self.chips:
            return f"a {self.topology} slice has {self.hosts} hosts of {self.chips_on_a_host} chips"
        return f"machines is {self.machines}"


# The learner has one v6e host of 8 chips; a unit has all cores of such a host for environments.
# The replay server holds its tables in memory; the monitor keeps metrics and config.
DEFAULTS: dict[str, Resources] = {
    "monitor": Resources(cpu="1", memory="2Gi", volume="10Gi"),
    "variables": Resources(cpu="1", memory="2Gi"),
    "replay": Resources(cpu="4", memory="32Gi", volume="100Gi"),
    "learner": Resources(cpu="24", memory="64Gi", accelerator="tpu-v6e-slice", topology="2x4", volume="50Gi"),
    "unit": Resources(cpu="96", memory="128Gi", accelerator="tpu-v6e-slice", topology="2x4", volume="50Gi"),
    "inference": Resources(cpu="24", memory="64Gi", accelerator="tpu-v6e-slice", topology="1x1"),
}


@dataclasses.dataclass(frozen=True)
class ResourceTable:
    """The image, names and resources of a deployment.

    Attributes:
      image: the container image, the same for all pods.
      name: the deployment's name; the program's if empty.
      namespace: the namespace in the cluster.
      storage_class: the volumes' storage class; the cluster's default if empty.
      queue: Kueue's local queue; without one the program starts at once.
      max_restarts: restarts of the whole program after failures. Preemptions don't count.
      groups: resources by the group's label; groups not named get `DEFAULTS`.
    """

    image: str
    name: str = ""
    namespace: str = "default"
    storage_class: str = ""
    queue: str = ""
    max_restarts: int = 10
    groups: dict[str, Resources] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for field in ("name", "namespace", "queue"):
            value = getattr(self, field)
            if value and not DNS_LABEL.fullmatch(value):
                raise BadInput(f"{field} is {value!r}; it must be lower-case letters, digits and dashes")
        if not self.image:
            raise BadInput("image is empty; it must name the container image, such as registry.example.com/boonta:1")
        if self.max_restarts < 0:
            raise BadInput(f"max_restarts is {self.max_restarts}; it must be 0 or more")

    def resources(self, label: str) -> Resources:
        """The resources of a group's nodes."""
        return self.groups.get(label) or DEFAULTS.get(label) or Resources()

    def require_known(self, labels: Collection[str]) -> None:
        """Raises BadInput if the table has a group that the program has not."""
        unknown = sorted(set(self.groups) - set(labels))
        if unknown:
            raise BadInput(f"groups {unknown} of the resource table are not the program's: it has {sorted(labels)}")


def read(path: pathlib.Path) -> ResourceTable:
    """Reads a table from YAML, whose keys are the attributes of `ResourceTable` and, below `groups`, of `Resources`.

    Raises:
      BadInput: it can't be read, or has an unknown key or a wrong value.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise BadInput(f"resource table {path} can't be read: {error}") from error
    if not isinstance(content, dict):
        raise BadInput(f"resource table {path} must hold keys and values, image: among them")
    given = content.get("groups") or {}
    if not isinstance(given, dict):
        raise BadInput(f"groups of {path} is {given!r}; it must have a key for each group")
    unset = ResourceTable("unset")
    groups = {label: _make(unset.resources(label), f"groups.{label}", fields) for label, fields in given.items()}
    return _make(unset, str(path), {**content, "groups": groups, "image": content.get("image") or ""})


def _make(default: T, where: str, given: Any) -> T:
    """A dataclass with some fields set, each of which must exist and have the default's type."""
    fields = {field.name: getattr(default, field.name) for field in dataclasses.fields(default)}  # type: ignore[arg-type]
    if not isinstance(given, dict):
        raise BadInput(f"{where} is {given!r}; it must have keys and values, of {sorted(fields)}")
    for name, value in given.items():
        if name not in fields:
            raise BadInput(f"{where} has {name!r}, which is none of {sorted(fields)}")
        if type(value) is int and isinstance(fields[name], str):
            given = {**given, name: str(value)}  # YAML reads `cpu: 2` as a number.
        elif type(value) is not type(fields[name]):
            raise BadInput(f"{where}.{name} is {value!r}; it must be a {type(fields[name]).__name__}")
    try:
        return dataclasses.replace(default, **given)  # type: ignore[type-var]
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error
