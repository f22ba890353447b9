"""A program whose nodes need nothing but Launchpad, so that its processes start in a second."""

from __future__ import annotations

import os
import time
from typing import Any

from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.periodic import Periodic
from boonta.programs.wiring.launch import Program, RunFlags, group, main


class Board(Periodic):
    """Keeps what was put last."""

    role = "variables"
    end_order = 2
    methods = ("put",)

    def __init__(self, name, monitor):
        super().__init__(name, monitor, every_s=0.2)

    def put(self, value) -> None:
        self.value = value


class Counter(Node):
    """Counts slowly, and measures its environment's limit of threads; raises after `breaks_after` steps.

    In its first life it hangs after `hangs_after` steps. Each step takes `eats_mb` of memory, for good, and counts as a
    million once there is a file `leaps_at`.
    """

    def __init__(self, name, variables, monitor, breaks_after=0, hangs_after=0, eats_mb=0, leaps_at=""):
        super().__init__(name, monitor)
        self._variables = variables
        self._breaks_after = breaks_after
        self._hangs_after = hangs_after
        self._eaten = [b"1" * (eats_mb << 20)]
        self._steps = 0
        self._leaps_at = leaps_at

    def step(self) -> None:
        self._steps += 1
        if self._steps == self._breaks_after:
            raise RuntimeError("the counter is broken")
        if self._steps == self._hangs_after and not self.past_lives:
            time.sleep(100_000.0)  # Not the node's own `sleep`, which ends when the node is to.
        if self.role == "learner":
            self._variables.put(self._steps)
        self._eaten.append(self._eaten[0][1:])
        leaps = self._leaps_at and os.path.exists(self._leaps_at)
        self.count(**{"updates" if self.role == "learner" else "env_steps": 1e6 if leaps else 1.0})
        self.measure({"threads": float(os.environ.get("OMP_NUM_THREADS", "0"))})
        time.sleep(0.05)


class Learner(Counter):
    """Counts updates."""

    role = "learner"


class Actor(Counter):
    """Counts env steps; can be made in the process `only_in` alone, if that isn't 0."""

    role = "actor"

    def __init__(self, *handles, only_in=0, **settings):
        super().__init__(*handles, **settings)
        if only_in not in (0, os.getpid()):
            raise LookupError("there is no robot here")


def light_program(
    run: RunFlags,
    actors: int = 1,
    breaks_after: int = 0,
    hangs_after: int = 0,
    eats_mb: int = 0,
    refuses: bool = False,
    leaps_at: str = "",
) -> Program:
    """Counters.

    Args:
      run: the run's settings.
      actors: number of actors.
      breaks_after: steps until an actor raises.
      hangs_after: steps until an actor hangs, in its first life.
      eats_mb: megabytes that an actor takes in each step.
      refuses: actors can be made in the launcher alone.
      leaps_at: a file; once it exists, a step of an actor counts as a million.
    """
    nothing: Any = None
    settings = {"breaks_after": breaks_after, "hangs_after": hangs_after, "eats_mb": eats_mb, "leaps_at": leaps_at}
    groups = [
        group(Monitor, log_every_s=0.5),
        group(Board),
        group(Learner),
        group(Actor, actors, only_in=os.getpid() if refuses else 0, **settings),
    ]
    return Program("light_program", run, nothing, nothing, groups)


if __name__ == "__main__":
    main(light_program)
