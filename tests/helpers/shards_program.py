"""DQN as `programs/dqn.py` has it, on paced Catch, with rows of metrics for which tests needn't wait long."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from boonta.nodes.monitor import Monitor
from boonta.programs.dqn import dqn
from boonta.programs.wiring.launch import Program, group, main
from boonta.tests.helpers.paced import PacedCatch


@functools.wraps(dqn)
def shards_program(*arguments: Any, **settings: Any) -> Program:
    program = dqn(*arguments, **settings)
    groups = [group(Monitor, log_every_s=0.5), *program.groups]
    return dataclasses.replace(program, env=PacedCatch(0.03), groups=groups)


if __name__ == "__main__":
    main(shards_program)
