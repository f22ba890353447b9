"""DQN as `programs/dqn.py` has it, with rows of metrics so close that tests needn't wait long for the next ones."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from boonta.nodes.monitor import Monitor
from boonta.programs.dqn import dqn
from boonta.programs.wiring.launch import Program, group, main


@functools.wraps(dqn)
def shards_program(*arguments: Any, **settings: Any) -> Program:
    program = dqn(*arguments, **settings)
    return dataclasses.replace(program, groups=[group(Monitor, log_every_s=2.0), *program.groups])


if __name__ == "__main__":
    main(shards_program)
