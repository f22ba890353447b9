"""The provenance of a run: source, versions, machine and seeds; and a description of a program, which hosts compare.

JAX is imported where it is needed: `boonta doctor` asks for the source where it may be missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import hashlib
import importlib.metadata
import inspect
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from boonta.programs.wiring.machine import accelerators, cores, memory
from boonta.programs.wiring.run_folder.recorded import plain

if TYPE_CHECKING:
    from boonta.programs.wiring.program import ProgramFunction
    from boonta.programs.wiring.run import Run

SOURCES = ("agents", "deploy", "envs", "nodes", "programs")
ROOT = pathlib.Path(__file__).resolve().parents[3]
GIT_S = 20.0  # Deadline of git's answer; a run whose repository takes longer is recorded without a commit.
# The packages that decide what a run computes, the simulators' included; those that are installed are recorded.
PACKAGES = ["jax", "jaxlib", "dm-haiku", "optax", "rlax", "mctx", "flashbax", "chex", "numpy"]
PACKAGES += ["dm-reverb", "dm-launchpad", "tensorflow-cpu"]
PACKAGES += ["ale-py", "brax", "dm-control", "envpool", "gymnasium", "gymnax", "minatar", "mujoco", "open-spiel", "pgx"]
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_ENABLE_X64",
    "JAX_NUM_CPU_DEVICES",
    "JAX_PLATFORMS",
    "XLA_FLAGS",
)


@dataclasses.dataclass(frozen=True)
class Source:
    """A state of source code.

    Attributes:
      commit: git's hash; None outside of a repository, or where there is no git.
      dirty: whether tracked files differ from the commit, or the program's own file isn't tracked; None without one.
      digest: the beginning of the SHA-256 of the source files, which distinguishes dirty states.
    """

    commit: str | None
    dirty: bool | None
    digest: str


@dataclasses.dataclass(frozen=True)
class Inner:
    """The program whose runs are the members of a population.

    Attributes:
      file: the program's file, see `from_root`.
      settings: its function's arguments except the run, which all members share, in JSON's types.
      members: for each member its seed, and its values of the config's fields that differ.
      source: the source of the program's repository; its digest is of the program's file alone.
    """

    file: str
    settings: dict[str, Any]
    members: tuple[dict[str, float], ...]
    source: Source


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machine of a run's launcher; those of nodes on other hosts aren't recorded.

    Attributes:
      processor: the processors' model.
      cores: how many this process may use, by its affinity and its control groups.
      memory_bytes: all of the machine's memory; 0 where Linux doesn't tell.
      devices: the kind of each of its accelerators.
      variables: environment variables that choose devices or change how they compute, by name.
    """

    processor: str
    cores: int
    memory_bytes: int
    devices: tuple[str, ...]
    variables: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The provenance of one start of a run.

    Attributes:
      started: the time, in ISO 8601 and UTC.
      environment: the environment's name, such as "minatar-breakout".
      boonta: the framework's source.
      program: the source of the program's repository; its digest is of the program's file alone.
      versions: versions by package, with "python" and "boonta".
      machine: the launcher's machine.
      seeds: the seed of each node that gets one, by the node's name; see `seeds_of`.
      network: the source of the user's own network; its digest is of the network's file alone. None without one.
      env: the same of the environment's class; None if the environment is one of Boonta's.
    """

    started: str
    environment: str
    boonta: Source
    program: Source
    versions: dict[str, str]
    machine: Machine
    seeds: dict[str, int]
    network: Source | None = None
    env: Source | None = None

    @property
    def is_dirty(self) -> bool:
        """Whether files differed from the commit."""
        return bool(self.boonta.dirty or self.program.dirty)


def provenance_of(
    file: pathlib.Path, environment: str, seeds: Mapping[str, int], network: str = "", env: str = ""
) -> Provenance:
    """The provenance of a run that starts now.

    Args:
      file: the program's file.
      environment: the environment's name.
      seeds: the nodes' seeds, by name.
      network: the name of the user's own network, see `agents.base.Agent`.
      env: the module of the user's own environment.
    """
    return Provenance(
        started=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=environment,
        boonta=Source(*revision(ROOT / "__init__.py"), source_digest()),
        program=source_of(file),
        versions=_versions(),
        machine=_machine(),
        seeds=dict(seeds),
        network=_source_of_module(network.partition(":")[0]),
        env=_source_of_module(env),
    )


def _source_of_module(name: str) -> Source | None:
    """The source of an imported module; None if it isn't one, or has no file."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return source_of(pathlib.Path(file)) if file else None


def differs_from(before: Provenance, file: pathlib.Path) -> str:
    """How the source here, with the program's file, differs from that of a run; empty if it doesn't."""
    here = source_here(file)
    there = _described(before.versions.get("boonta", "unknown"), before.boonta, before.program)
    return "" if here == there else f"the run was started from {there}; here is {here}"


def source_here(file: pathlib.Path) -> str:
    """A description of the source here: this package's, and that of a program's or a sweep's file."""
    return _described(version_of_boonta(), Source(*revision(ROOT / "__init__.py"), source_digest()), source_of(file))


def _described(version: str, boonta: Source, program: Source) -> str:
    dirty = " with changes" if boonta.dirty or program.dirty else ""
    commits = " and ".join(dict.fromkeys(str(source.commit)[:8] for source in (boonta, program)))
    return f"boonta {version}, commit {commits}{dirty}, source {boonta.digest}, program {program.digest}"


def built_from(function: ProgramFunction, run: Run, settings: dict[str, Any]) -> str:
    """A description that is equal on two hosts if and only if their program, settings, source and versions are.

    Args:
      function: the program function.
      run: the run; only its seed and stop rule count, since folders may have other names on other hosts.
      settings: the function's other arguments.
    """
    given = json.dumps(plain([run.seed, run.stop, settings]))
    program = pathlib.Path(inspect.getfile(function)).read_bytes()
    return (
        f"program {function.__name__} {_digest(program)}, settings {_digest(given.encode())}, "
        f"source {source_digest()}, jax {importlib.metadata.version('jax')}, Python {platform.python_version()}"
    )


def source_of(file: pathlib.Path) -> Source:
    """The source of a file's repository, with the digest of the file alone."""
    return Source(*revision(file), _digest(file.read_bytes()))


def revision(file: pathlib.Path) -> tuple[str | None, bool | None]:
    """The commit of the repository with this file, and whether it is dirty; None twice if git knows none."""
    status = _git(file.parent, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    head = re.search("^# branch.oid ([0-9a-f]+)$", status or "", re.MULTILINE)
    if status is None or head is None:
        return None, None
    tracked = bool(_git(file.parent, "ls-files", "--", file.name))
    if not tracked and _git(file.parent, "check-ignore", "--", file.name):
        return None, None  # Git ignores it: a virtual environment within a repository, say.
    return head.group(1), not tracked or any(not line.startswith("#") for line in status.splitlines())


def _git(folder: pathlib.Path, *arguments: str) -> str | None:
    """What git prints; None if it fails, is missing, or takes too long."""
    # Variables that git sets for its hooks would name another repository. A lock would block the user's `git commit`.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=GIT_S
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "boonta": version_of_boonta()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def version_of_boonta() -> str:
    """The version of the package; that of the clone where it isn't installed, as in `./run`'s environment."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("boonta-rl")
    with contextlib.suppress(OSError):
        found = re.search('^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
        if found:
            return found.group(1)
    return "unknown"


def _machine() -> Machine:
    room = memory.room()
    return Machine(
        processor=_processor(),
        cores=cores.usable(),
        memory_bytes=room.total if room else 0,
        devices=tuple(_devices()),
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
    )


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def _devices() -> list[str]:
    """The kinds of the accelerators, from JAX if it has started them in this process, and from Linux otherwise.

    A launcher of processes must not start JAX's devices, which its nodes could then not have.
    """
    if accelerators.taken():
        import jax

        return [device.device_kind for device in jax.local_devices() if device.platform != "cpu"]
    return accelerators.gpus() + ["TPU"] * accelerators.tpu_chips()


@functools.cache
def source_digest() -> str:
    """The digest of Boonta's own source."""
    files = sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py"))
    return _digest(*(path.read_bytes() for path in files))


def from_root(file: pathlib.Path) -> pathlib.Path:
    """The file's path relative to the repository, which may be elsewhere on another host; absolute if it is outside."""
    found = file.resolve()
    return found.relative_to(ROOT) if found.is_relative_to(ROOT) else file.absolute()


def _digest(*contents: bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:8]
