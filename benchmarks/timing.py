"""How benchmarks time: work that says how much it did, on one thread or on one per core."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable


def per_second(work: Callable[[], int], seconds: float) -> float:
    """How much `work` does a second: it returns the env steps that one call did. Warms up first."""
    for _ in range(3):
        work()
    done, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        done += work()
    return done / elapsed


def on_all_cores(make_work: Callable[[int], Callable[[], int]], seconds: float) -> float:
    """The sum of `per_second` over one thread a core."""
    rates: list[float] = []
    works = [make_work(i) for i in range(os.cpu_count() or 1)]
    threads = [threading.Thread(target=lambda w=work: rates.append(per_second(w, seconds))) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)
