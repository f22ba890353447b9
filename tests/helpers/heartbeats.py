"""The reports that nodes send to the monitor."""

from __future__ import annotations


def report(name: str, end_order: int = 0, counts=None, samples=None, **metrics) -> dict:
    return {
        "name": name,
        "process": "host/1",
        "life": "first",
        "joined": False,
        "number": 1,
        "acknowledged": 0,
        "started": True,
        "saves": True,
        "stuck": "",
        "build": "",
        "warnings": [],
        "end_order": end_order,
        "activity": "waiting for trajectories",
        "activity_s": 1.0,
        "saving": False,
        "counts": counts or {},
        "samples": samples or {},
        "metrics": metrics,
        "seconds": {"updating": 2.0},
        "rss_mb": 100.0,
    }
