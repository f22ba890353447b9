"""Which nodes may be in a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boonta.nodes.snapshots.counters import Counters


def refusal(report: Mapping[str, Any], build: str, counters: Counters, before: Counters | None) -> str:
    """Why a node may not be in this program; empty if it may.

    Args:
      report: the node's heartbeat.
      build: what the monitor was built from.
      counters: the program's.
      before: those that an earlier monitor saved, as long as this one doesn't go on from them.
    """
    name, life = report["name"], report["life"]
    if report["build"] != build:
        return f"{name} is {report['build']}, but the monitor is {build}: start all alike"
    # The program may have resumed from a checkpoint, which has this node's steps already.
    known = any(each.knows(name, life) for each in (counters, before) if each is not None)
    if report["joined"] and report["acknowledged"] and not known:
        return f"{name} has counted for an earlier monitor, whose counters are lost: have it join again"
    return ""
