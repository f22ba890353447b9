"""The monitor as what Acme's parts count and log to. The other way round is `nodes.sinks.base.FromLogger`."""

from __future__ import annotations

import math
from collections.abc import Collection

from acme.utils import counting, loggers

from boonta.nodes.base import Node
from boonta.nodes.watch.reporter import is_number

PREFIX = "acme/"  # Begins the monitor's names of what only Acme's parts know.
# Acme's names of counters that programs have, too.
OURS = {
    "steps": "env_steps",
    "actor_steps": "env_steps",
    "actor_episodes": "episodes",
    "episodes": "episodes",
    "learner_steps": "updates",
}


class ProgramCounter(counting.Counter):
    """The program's counters, for Acme's loops and as the parent of `counting.Counter(parent, prefix="learner")`.

    Acme's names stand for the program's counters of the same: `learner_steps` is "updates". Other counters are the
    monitor's under `acme/` and their name.

    Args:
      node: counts, and knows the program's counters as of its last heartbeat.
      counted: counters of the program that the node counts itself, so that increments of them are left out.
    """

    def __init__(self, node: Node, counted: Collection[str] = ()):
        super().__init__()
        self._node = node
        self._counted = counted

    def increment(self, **counts: counting.Number) -> dict[str, counting.Number]:
        """Counts, and returns `get_counts()`."""
        ours = {OURS.get(name, PREFIX + name): count for name, count in counts.items()}
        self._node.count(**{name: count for name, count in ours.items() if name not in self._counted})
        return self.get_counts()

    def get_counts(self) -> dict[str, counting.Number]:
        """The program's counters as of the node's last heartbeat, by Acme's names and by their own."""
        counts = self._node.program_counts
        acmes = {theirs: counts[ours] for theirs, ours in OURS.items() if ours in counts}
        return {name.removeprefix(PREFIX): count for name, count in counts.items()} | acmes


class MonitorLogger(loggers.Logger):
    """Takes what an Acme part logs to the monitor, and so to all sinks of the run, under `acme/` and its name.

    Args:
      node: measures it.
    """

    def __init__(self, node: Node):
        self._node = node

    def write(self, data: loggers.LoggingData) -> None:
        """Measures the numbers among the data; the rest, such as arrays and texts, is left out."""
        numeric = {name: float(value) for name, value in data.items() if is_number(value)}
        self._node.measure({PREFIX + name: value for name, value in numeric.items() if math.isfinite(value)})

    def close(self) -> None:
        """Does nothing: the node closes itself."""
