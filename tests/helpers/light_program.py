"""A program whose nodes need nothing but Launchpad, so that its processes start in a second."""

from __future__ import annotations

import os
import time

from boonta.nodes.base import Node, Periodic
from boonta.nodes.monitor import Monitor
from boonta.nodes.services import Program, ServiceNode, lp
from boonta.programs.wiring.launch import RunFlags, main


class Board(Periodic):
    """Keeps what was put last."""

    serves = True

    def __init__(self, name, monitor):
        super().__init__(name, monitor, every_s=0.2)

    def put(self, value) -> None:
        self.value = value


class Counter(Node):
    """Counts, slowly; says what its environment is; breaks if it is told to."""

    def __init__(self, name, variables, monitor, breaks_after=0):
        super().__init__(name, monitor)
        self._variables = variables
        self._breaks_after = breaks_after
        self._steps = 0

    def step(self) -> None:
        self._steps += 1
        if self._steps == self._breaks_after:
            raise RuntimeError("the counter is broken")
        if self.name == "learner":
            self._variables.put(self._steps)
        self.count(**{"updates" if self.name == "learner" else "env_steps": 1.0})
        self.measure({"threads": float(os.environ.get("OMP_NUM_THREADS", "0"))})
        time.sleep(0.05)


def light_program(run: RunFlags, actors: int = 1, breaks_after: int = 0) -> Program:
    """Counters.

    Args:
      run: where and how long.
      actors: number of them.
      breaks_after: steps until an actor raises.
    """
    program = Program("light_program")
    with program.group("monitor"):
        monitor = program.add_node(ServiceNode(Monitor, "monitor", run.workdir, run.stop, log_every_s=0.5))
    with program.group("variables"):
        variables = program.add_node(ServiceNode(Board, "variables", monitor))
    with program.group("learner"):
        program.add_node(lp.PyClassNode(Counter, "learner", variables, monitor))
    with program.group("actor"):
        for i in range(actors):
            program.add_node(lp.PyClassNode(Counter, f"actor/{i}", variables, monitor, breaks_after=breaks_after))
    return program


if __name__ == "__main__":
    main(light_program)
