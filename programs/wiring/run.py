"""A run: where, how and how long a program runs."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any, Literal

from boonta.envs.base import mixed_seed
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.placement import Placement
from boonta.nodes.sinks.base import TENSORBOARD, check_names
from boonta.nodes.snapshots.store import BEST, CHECKPOINTS, numbers
from boonta.nodes.watch.stopping import StopRule
from boonta.programs.wiring.supervision.restarts import Restarts

UNITS = ("sebulba", "anakin")  # Ways to run a program as one process per host.
# The ways to run with more than one of each, by the field of `Run`; every learner has a process of its own.
SEVERAL = {
    "replay_servers": ("local_mp", "local_mt"),
    "variable_servers": ("local_mp", "local_mt"),
    "learners": ("local_mp",),
}
Which = Literal["newest", "best"] | int  # A choice among a run's checkpoints; a number is that of its updates.
NAMED = ("newest", "best")  # The words of these.

ALLOWED = "it must be newest, best, or a checkpoint's number of updates"


class BadInput(Exception):
    """The user asked for something that can't work; the message names it, and what would work."""


@dataclasses.dataclass(frozen=True)
class Run:
    """Where, how and how long a program runs.

    Attributes:
      launch: "local_mp": a process per node; "local_mt": a thread per node; "serial": all in turn in one thread, for
        debuggers; "sebulba": threads of one process, its devices split; "anakin": one compiled program, for
        environments in JAX.
      workdir: the run's folder; a run in it is resumed. By default it is in runs/, named by changed flags.
      seed: seed of params, environments and exploration; a resumed run draws the latter two anew, except "anakin".
      stop: limits at which the program ends; without any, Ctrl-C ends it.
      save_every_s: seconds between snapshots of learner and replay tables; one is always made at the end.
      keep_newest: how many of the newest snapshots stay, tables included; a run goes on whole from each. With large
        tables and a small disk choose less; while one is written there is one more.
      keep_every_h: hours between older checkpoints that stay for good; they have no tables, which may take gigabytes.
      allow_changes: resume with other settings than the run was started with.
      start_from: folder of another run, of any program with the same agent. A run without checkpoints of its own goes
        on from one there, counters included.
      start_which: which checkpoint of `start_from`; newest, best (by evaluations), or one by its number of updates.
      log: where metrics go besides `metrics.jsonl`, one or more: "tensorboard", "wandb", "mlflow", "trackio", or
        package.module:name for a sink or an Acme logger of your own.
      dashboard: serve a live page of the run until it ends. It is for this machine, and its address is printed.
      videos: record an episode of each new checkpoint. It is a GIF in videos/ of the run's folder, and trackers that
        `log` names get it, too.
      profile: how many updates JAX's profiler traces. They come after the first ten of each of the learner's lives, and
        take five seconds at most; the trace is in profile/ of the run's folder, for TensorBoard and Perfetto.
      network: who can reach the program's replay server. "private": nobody elsewhere, or the program refuses to start;
        "open": whoever reaches this machine can use it. "sebulba" and "anakin" have none on one host.
      replay_servers: how many servers share the tables; for "local_mp" and "local_mt". Each has an equal part, which
        its share of the actors fills; one that dies takes its part alone.
      variable_servers: how many servers hand out params; for "local_mp" and "local_mt". Actors are dealt to them in
        turn; the learner publishes to the first, from which the others fetch.
      learners: how many learners, usually one a host, learn together; for "local_mp". Each draws an equal part of every
        batch, and they end, and start again, together.
      restarts: how often dead or hanging nodes are restarted. This is for "local_mp", where a group may have its own
        policy; "sebulba" and "anakin", on one host, start again as a whole, from their newest snapshot. With number 0
        the first death of any node ends the run.
      process_env: environment variables of processes, as GROUP:NAME=VALUE; for "local_mp". Secrets
        belong in the launcher's own environment.
      gpus: GPUs of each node of a group, as GROUP=NUMBER; for "local_mp". 0 is the CPU, 0.25 a quarter of one GPU's
        memory.
      placement: the division of a process's devices; for "sebulba" and "anakin".
      hosts: the hosts that run the program together; for "sebulba" and "anakin".
    """

    launch: Literal["local_mp", "local_mt", "serial", "sebulba", "anakin"] = "local_mp"
    workdir: str = ""
    seed: int = 0
    stop: StopRule = StopRule()
    save_every_s: float = 300.0
    keep_newest: int = 3
    keep_every_h: float = 6.0
    allow_changes: bool = False
    start_from: str = ""
    start_which: Which = "newest"
    log: tuple[str, ...] = (TENSORBOARD,)
    dashboard: bool = False
    videos: bool = False
    profile: int | None = None
    network: Literal["private", "open"] = "private"
    replay_servers: int = 1
    variable_servers: int = 1
    learners: int = 1
    restarts: Restarts = Restarts()
    process_env: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    placement: Placement = Placement()
    hosts: Hosts = Hosts()

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be at least 0")
        if self.keep_newest < 1:
            raise ValueError(f"keep_newest is {self.keep_newest}; it must be at least 1")
        for field in ("save_every_s", "keep_every_h"):
            if not getattr(self, field) > 0:  # NaN is refused, too.
                raise ValueError(f"{field} is {getattr(self, field)}; it must be above 0")
        if not is_which(self.start_which):
            raise ValueError(f"start_which is {self.start_which!r}; {ALLOWED}")
        if self.profile is not None and self.profile < 1:
            raise ValueError(f"profile is {self.profile}; it must be at least 1")
        self._require_numbers()
        check_names(self.log)
        if self.process_env and self.launch != "local_mp":
            raise ValueError(
                f"--process-env {self.process_env[0]!r} is for processes of its own; with --launch {self.launch} all "
                "nodes share the launcher's: set the variable before the command"
            )
        if self.gpus_of_groups and self.launch != "local_mp":
            raise ValueError(
                f"--gpus {self.gpus[0]!r} is for processes of its own; with --launch {self.launch} all nodes share the "
                "launcher's GPUs: leave it out"
            )
        again = dataclasses.replace(self.restarts, limit_s=None)  # A node that hangs ends any program.
        if self.launch in ("serial", "local_mt") and again not in (Restarts(), Restarts(number=0)):
            raise ValueError(
                f"restarts is {self.restarts}; with --launch {self.launch} nothing is started again: leave it out"
            )
        if self.hosts.number > 1 and not self.is_unit:
            raise ValueError(f"hosts.number is {self.hosts.number}; with --launch {self.launch} it must be 1")

    def _require_numbers(self) -> None:
        """Raises ValueError for a number of servers or learners that this way to run can't have."""
        for field, ways in SEVERAL.items():
            number = getattr(self, field)
            if number < 1:
                raise ValueError(f"{field} is {number}; it must be at least 1")
            if number > 1 and self.launch not in ways:
                has_hosts = field == "learners" and self.is_unit
                raise ValueError(
                    f"{field} is {number}; with --launch {self.launch} it must be 1: leave it out"
                    + (", or give --hosts.number" if has_hosts else "")
                )

    @property
    def gpus_of_groups(self) -> dict[str, float]:
        """The numbers that `gpus` has, by group.

        Raises:
          ValueError: it has something else.
        """
        found: dict[str, float] = {}
        for word in self.gpus:
            group, _, number = word.partition("=")
            if group in found:
                raise ValueError(f"--gpus {word!r} is the second for {group}, which has {found[group]:g}: give one")
            try:
                found[group] = float(number)
            except ValueError:
                raise ValueError(f"--gpus {word!r} is not GROUP=NUMBER") from None
            require_gpus(group, found[group])
        return found

    def variables(self, group: str) -> dict[str, str]:
        """The environment variables that `process_env` gives to a group."""
        return {name: value for label, name, value in map(override_of, self.process_env) if label == group}

    def path(self, name: str) -> str:
        """A path inside the run's folder."""
        return os.path.join(self.workdir, name)

    @property
    def is_unit(self) -> bool:
        """Whether all nodes are in one process per host."""
        return self.launch in UNITS

    @property
    def restarts_nodes(self) -> bool:
        """Whether nodes that died are started again."""
        return self.launch == "local_mp" and self.restarts.number > 0

    @property
    def restarts_itself(self) -> bool:
        """Whether the program is one process, which is started again when it died."""
        return self.is_unit and self.hosts.number == 1 and self.restarts.number > 0

    @property
    def start_folder(self) -> str | None:
        """The folder of the checkpoints that `start_from` names, or that of the one whose number `start_which` is."""
        return str(checkpoints_of(pathlib.Path(self.start_from), self.start_which)) if self.start_from else None

    @property
    def acting_seed(self) -> int:
        """The seed of acting nodes; it changes with each checkpoint, so that a resumed run doesn't repeat steps."""
        updates = newest_checkpoint(checkpoints_of(pathlib.Path(self.workdir), "newest"))
        return mixed_seed(self.seed, updates) if updates else self.seed

    @property
    def own(self) -> Run:
        """The run with this host's own folder; the first host's is the common one, with the checkpoints."""
        return self if self.hosts.first else dataclasses.replace(self, workdir=self.path(f"hosts/{self.hosts.index}"))

    @property
    def common_workdir(self) -> pathlib.Path:
        """The folder with the checkpoints, which all hosts share; this run is one that `own` has made."""
        workdir = pathlib.Path(self.workdir)
        return workdir if self.hosts.first else workdir.parents[1]


def override_of(word: str) -> tuple[str, str, str]:
    """The group, name and value of an environment variable of `--process-env`; the group is empty if it is none."""
    group, colon, assignment = word.partition(":")
    name, equals, value = assignment.partition("=")
    return (group, name, value) if colon and equals and name else ("", "", "")


def require_gpus(group: str, number: float) -> None:
    """Raises ValueError for a number of GPUs that no node can have."""
    if not (0 <= number < 1 or (number >= 1 and float(number).is_integer())):  # NaN is refused, too.
        raise ValueError(
            f"{group}: gpus is {number:g}; it must be 0 for the CPU, a share of one GPU below 1, or a whole number"
        )


def is_which(value: Any) -> bool:
    """Whether a value from Python is a `Which`."""
    return value in NAMED if isinstance(value, str) else type(value) is int


def named(which: Which) -> str:
    """A checkpoint in words."""
    return f"checkpoint {which}" if isinstance(which, int) else f"{which} checkpoint"


def checkpoints_of(workdir: pathlib.Path, which: Which) -> pathlib.Path:
    """The folder in a run's folder whose newest checkpoint is the run's newest, or the one with the best evaluation.

    Of a number of updates it is that checkpoint's own folder, which need not be there; the best one has a number, too.
    """
    folder = workdir / CHECKPOINTS
    if isinstance(which, int):
        is_best = which not in numbers(folder) and which in numbers(folder / BEST)
        return (folder / BEST if is_best else folder) / str(which)
    return folder if which == "newest" else folder / BEST


def require_there(path: pathlib.Path, which: Which) -> None:
    """Refuses what is no choice of a checkpoint, and a number that isn't there.

    Args:
      path: where that checkpoint should be, see `checkpoints_of`.
      which: the choice.

    Raises:
      BadInput: names what is allowed, or the numbers that are there.
    """
    if not is_which(which):
        raise BadInput(f"which is {which!r}; {ALLOWED}")
    if isinstance(which, int) and not path.exists():
        there = sorted({*numbers(path.parent), *numbers(path.parent / BEST)})
        listed = f"there are {', '.join(map(str, there))}" if there else "there is none yet"
        raise BadInput(f"{path.parent} has no checkpoint {which}: {listed}")


def newest_checkpoint(folder: pathlib.Path) -> int:
    """The number of the newest checkpoint in a folder; 0 if there is none."""
    return max(numbers(folder), default=0)
