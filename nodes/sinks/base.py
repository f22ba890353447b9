"""Where the rows of a run's metrics go: the protocol of three methods, and the sinks that `--log` names.

A row has a histogram as one value for each of its bins, see `split`. Where a run records videos, they lie in its folder
as files, see `video_at`.
"""

from __future__ import annotations

import collections
import dataclasses
import importlib
import importlib.util
import math
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from boonta.agents.metrics import HISTOGRAM
from boonta.envs.base import suggest
from boonta.envs.names import named
from boonta.nodes.metrics import step_of

TENSORBOARD = "tensorboard"  # The monitor writes it itself; each other tracker has a process that sends to it.
OWN = "package.module:name for one of your own"
VIDEOS = "videos"  # A subfolder of the run's folder, and the name of videos in trackers.
BIN = re.compile(rf"({HISTOGRAM}.+)/([\d.e+-]+|inf)")  # A value of a histogram: its name, and the end of the bin.


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

    One that has a method `video(path, step)`, too, gets the run's videos, GIFs, with the env steps of the params that
    play, or their updates, see `nodes.metrics.step_of`. `FromLogger` makes one of a class with only `write` and
    `close`, such as an `acme.utils.loggers.Logger`.
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


def split(row: Mapping[str, float]) -> tuple[dict[str, float], dict[str, dict[float, float]]]:
    """Splits a row into its scalars and its histograms: by name, the share of values in each bin, by the bin's end.

    Ends rise from bin to bin. The last bin's, which is infinite in the row, is twice the one before, so that it can be
    drawn.
    """
    scalars: dict[str, float] = {}
    shares: dict[str, dict[float, float]] = collections.defaultdict(dict)
    for name, value in row.items():
        if found := BIN.fullmatch(name):
            shares[found[1]][float(found[2])] = value
        else:
            scalars[name] = value
    histograms = {}
    for name, bins in shares.items():
        ends = sorted(bins)
        finite = [2 * ends[i - 1] if math.isinf(end) else end for i, end in enumerate(ends)]
        histograms[name] = {drawn: bins[end] for drawn, end in zip(finite, ends)}
    return scalars, histograms


def video_at(folder: pathlib.Path, step: int) -> pathlib.Path:
    """The file of the video of a run's params after these env steps or updates, see `nodes.metrics.step_of`."""
    return folder / VIDEOS / f"{step:012d}.gif"


def videos_of(folder: pathlib.Path) -> dict[int, pathlib.Path]:
    """The videos of a run, by the numbers of `video_at`, in order."""
    found = (path for path in sorted((folder / VIDEOS).glob("*.gif")) if path.stem.isdigit())
    return {int(path.stem): path for path in found}


class Numbered:
    """The half that the sinks have in common whose tracker's own step is the number of the row.

    A row that comes twice counts once, and a run that goes on from an older checkpoint, with fewer env steps than
    before, is not refused.
    """

    def go_on(self, tracker: Any, rows: int) -> None:
        """Goes on with a tracker's run, which has a method `log`, after this many rows."""
        self._run, self._number = tracker, rows
        self._axis = "env_steps"  # The counter that charts are over.

    def write(self, row: Mapping[str, float]) -> None:
        self._axis, _ = step_of(row)
        scalars, histograms = split(row)
        shown = {name: self.histogram(bins) for name, bins in histograms.items()}
        known = {name: value for name, value in shown.items() if value is not None}
        self._run.log({**scalars, **known}, step=self._number)
        self._number += 1

    def video(self, path: pathlib.Path, step: int) -> None:
        self._run.log({VIDEOS: self.film(path), self._axis: step}, step=self._number)

    def histogram(self, bins: Mapping[float, float]) -> Any:
        """The tracker's own form of a histogram; None if it has none."""
        return None

    def film(self, path: pathlib.Path) -> Any:
        """The tracker's own form of a video."""
        raise NotImplementedError

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
        raise ImportError(
            f"--log {name}: the package {package} is missing: pip install 'boonta-rl[{name}]', or in a clone ./run pip "
            f"install {package}"
        )


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
