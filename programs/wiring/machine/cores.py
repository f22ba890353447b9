"""How many of this machine's cores a process has."""

from __future__ import annotations

import os
import pathlib

from boonta.programs.wiring.machine.files import ROOT
from boonta.programs.wiring.machine.memory import control_group

PERIOD_US = 100_000  # Of the older control groups, which have theirs in another file.


def usable(root: pathlib.Path = ROOT) -> int:
    """The cores that this process may run on, and no more than its control groups, such as a pod's, give time for.

    Args:
      root: the folder that has the machine's files.
    """
    return min([len(os.sched_getaffinity(0)), *(max(1, int(limit)) for limit in time_limits(root))])


def time_limits(root: pathlib.Path) -> list[float]:
    """The cores that each of this process's control groups gives time for, if it has a limit; see `usable`."""
    limits = []
    for words in control_group(root, "cpu", "cpu.max", "cpu.cfs_quota_us"):
        quota, _, period = words.partition(" ")
        if quota.isdecimal():  # Without a limit it is "max", or -1.
            limits.append(int(quota) / int(period or PERIOD_US))
    return limits
