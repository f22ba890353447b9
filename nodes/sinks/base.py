"""Where the rows of a run's metrics go: the protocol of three methods, and the sinks that `--log` names."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from boonta.envs.base import suggest
from boonta.envs.names import named

TENSORBOARD = "tensorboard"  # The monitor writes it itself; each other tracker has a process that sends to it.
OWN = "package.module:name for one of your own"


@dataclasses.dataclass(frozen=True)
class TrackedRun:
    """A run, as a sink gets it.

    Attributes:
      folder: the run's folder.
      id: letters and digits, which stay the same however often the run or the sink starts again.
      group: the name of the run's sweep, or of its program if it belongs to none.
      config: the content of config.json: program, settings, seed, and the provenance with commit, versions and machine.
      rows: the number of rows that this sink has taken in earlier lives; it gets only those after them.
    """

    folder: pathlib.Path
    id: str = ""
    group: str = ""
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rows: int = 0


class Sink(Protocol):
    """Takes the rows of a run. Any method may raise: a new sink with the same id then gets the row again.

    `FromLogger` makes one of a class with only `write` and `close`, such as an `acme.utils.loggers.Logger`.
    """

    def begin(self, run: TrackedRun) -> None:
        """Opens the run, or goes on with it if it has begun before."""

    def write(self, row: Mapping[str, float]) -> None:
        """Takes a row: finite numbers by name, "env_steps" among them once there are some."""

    def close(self) -> None:
        """Sends the rest of the rows, and frees all resources."""


class Logger(Protocol):
    """The methods of an `acme.utils.loggers.Logger` that `FromLogger` calls."""

    def write(self, data: Mapping[str, Any]) -> None:
        """Takes a row."""

    def close(self) -> None:
        """Sends the rest of the rows, and frees all resources."""


class FromLogger:
    """Makes a sink of a logger in Acme's style."""

    def __init__(self, logger: Logger):
        self._logger = logger

    def begin(self, run: TrackedRun) -> None:
        """Does nothing: a logger takes rows alone."""

    def write(self, row: Mapping[str, float]) -> None:
        self._logger.write(dict(row))

    def close(self) -> None:
        self._logger.close()


class Numbered:
    """The half that the sinks have in common whose tracker's own step is the number of the row.

    A row that comes twice counts once, and a run that goes on from an older checkpoint, with fewer env steps than
    before, is not refused.
    """

    def go_on(self, tracker: Any, rows: int) -> None:
        """Goes on with a tracker's run, which has a method `log`, after this many rows."""
        self._run, self._number = tracker, rows

    def write(self, row: Mapping[str, float]) -> None:
        self._run.log(dict(row), step=self._number)
        self._number += 1

    def close(self) -> None:
        self._run.finish()


class Tracker(NamedTuple):
    """A tracker that Boonta has a sink for.

    Attributes:
      module, name: those of the sink's class.
      package: the package that it imports; the extra of Boonta that installs it has the tracker's name.
    """

    module: str
    name: str
    package: str


TRACKERS = {
    "wandb": Tracker("boonta.nodes.sinks.wandb", "WandB", "wandb"),
    "mlflow": Tracker("boonta.nodes.sinks.mlflow", "MLflow", "mlflow"),
    "trackio": Tracker("boonta.nodes.sinks.trackio", "Trackio", "trackio"),
}
KNOWN = (TENSORBOARD, *TRACKERS)


def check_names(names: Sequence[str]) -> None:
    """Refuses a name that no sink can have, or that is given twice.

    Raises:
      ValueError: the message has the name, and similar ones that exist.
    """
    for name in names:
        module, colon, attribute = name.partition(":")
        if name not in KNOWN and not (colon and module and attribute):
            raise ValueError(f"--log {name!r} is unknown: {suggest(name, KNOWN)} Or {OWN}")
    if len(set(names)) < len(names):
        raise ValueError(f"--log has a name twice: {' '.join(names)}")


def require(name: str) -> None:
    """Refuses a sink that `make` can't make, without importing a tracker's package.

    Raises:
      ImportError: the package is missing, or the user's own module has no such name; the message says what to do.
    """
    if name not in TRACKERS:
        _own(name)
    elif importlib.util.find_spec(TRACKERS[name].package) is None:
        package = TRACKERS[name].package
        raise ImportError(f"--log {name}: the package {package} is missing: pip install 'boonta-rl[{name}]'")


def make(name: str) -> Sink:
    """Makes the sink of this name, which `begin` has yet to open.

    Raises:
      ImportError: see `require`.
    """
    if name in TRACKERS:
        tracker = TRACKERS[name]
        return getattr(importlib.import_module(tracker.module), tracker.name)()
    made = _own(name)()
    return made if hasattr(made, "begin") else FromLogger(made)


def _own(name: str) -> Callable[[], Any]:
    """A user's own class or function that makes a sink, or a logger."""
    try:
        return named(name)
    except ImportError as error:
        raise ImportError(f"--log {name}: {error}") from error
