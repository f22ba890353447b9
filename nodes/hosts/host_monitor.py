"""The monitor of one of several hosts, which end, and save, after the same update."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.monitor import Monitor, StopRule

SUMMED = ("env_steps", "frames", "episodes", "sequences")


class Said(NamedTuple):
    """What a host tells the others with each update.

    Attributes:
      env_steps, frames, episodes, sequences: its own counters.
      seconds: the run's age there.
      eval_return: of its last evaluation; nan without one.
      ending: 1 if it wants all to end.
      saving: 1 if it finds that a checkpoint is due; the first host's word counts.
    """

    env_steps: float
    frames: float
    episodes: float
    sequences: float
    seconds: float
    eval_return: float
    ending: float
    saving: float


class HostMonitor(Monitor):
    """Ends its host's nodes when all hosts have agreed to, or when one of its own has failed.

    An update is one computation of all hosts: a host that made one less would leave the others waiting in it. So what
    each has to say travels with the update, and all draw the same conclusions from the same numbers.

    Args:
      name: of this node.
      folder: this host's, for metrics.
      stop: when the program has done its work, by the counters of all hosts.
      hosts: whose monitors confer.
      settings: as `Monitor` has them.

    Attributes:
      agreed: all hosts end, after the update that has been made last.
    """

    def __init__(self, name: str, folder: str, stop: StopRule, hosts: Hosts, **settings: Any):
        super().__init__(name, folder, StopRule(), **settings)
        self.hosts = hosts
        self.agreed = False
        self._joint_rule = stop
        self._wish = ""
        self._elsewhere: dict[str, float] = {}

    def totals(self) -> dict[str, float]:
        """As a `Monitor` has them, of all hosts."""
        totals = super().totals()
        for name, value in self._elsewhere.items():
            totals[name] = totals.get(name, 0.0) + value
        return totals

    def stop_program(self, reason: str) -> None:
        """Asks every node to end: at once after a failure, else when the other hosts do."""
        with self._state:
            if self._failure or self.agreed:
                super().stop_program(reason)
            else:
                self._wish = self._wish or reason

    def tell(self, saving: bool) -> np.ndarray:
        """What to tell the others, int32 [2 x fields of `Said`]: JAX would round the doubles that it is the bits of."""
        with self._state:
            own = super().totals()
            said = Said(
                **{name: own.get(name, 0.0) for name in SUMMED},
                seconds=own["seconds"],
                eval_return=own.get("eval_return", float("nan")),
                ending=bool(self._wish),
                saving=saving,
            )
        return np.array(said, np.float64).view(np.int32)

    def conclude(self, told: np.ndarray, updates: int) -> bool:
        """Draws the conclusions that all hosts draw; whether to save now.

        Args:
          told: int32 [hosts, 2 x fields of `Said`], with one update.
          updates: made so far, and that one among them.
        """
        rows = [Said(*row) for row in np.ascontiguousarray(told).view(np.float64)]
        with self._state:
            others = [row for i, row in enumerate(rows) if i != self.hosts.index]
            self._elsewhere = {name: sum(getattr(row, name) for row in others) for name in SUMMED}
            totals = {name: sum(getattr(row, name) for row in rows) for name in SUMMED}
            totals |= {"updates": updates, "seconds": max(row.seconds for row in rows)}
            if rows[0].eval_return == rows[0].eval_return:  # the first host evaluates
                totals["eval_return"] = rows[0].eval_return
            self._end_if(self._joint_rule.reached(totals), [i for i, row in enumerate(rows) if row.ending])
        return bool(rows[0].saving)

    def _end_if(self, reached: str, ending: list[int]) -> None:
        """Ends this host's nodes if the rule is fulfilled, or some hosts want to."""
        if not (reached or ending):
            return
        self.agreed = True
        if reached or self._wish:
            self.stop_program(reached or self._wish)
        else:  # the work isn't done, and this host's exit code must say so
            self._fail(f"host {ending[0]} was told to end; a checkpoint is saved")
